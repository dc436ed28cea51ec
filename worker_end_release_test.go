package changefeed

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Another host has asked for a lease, and the store refuses the release. A stop that begins
// during the delay before the next attempt must not wait for an attempt that comes too late.
func TestStopEndsAReleaseThatTheStoreRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		refusal error
		before  int // the number of attempts before the stop; then the delay is longer than the stop may take
	}{
		{"unknown outcome", errors.New("503"), 4},
		{"throttled", &feed.ThrottledError{RetryAfter: 45 * time.Second}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leases, refused := newFakeStore(), make(chan bool, 100)
				r, said := idle(t, leases, Config{DrainTimeout: time.Second, RequestTimeout: 2 * time.Second})
				leases.setBefore(func(w fakeWrite) error {
					if w.lease.Owner != "" {
						return nil
					}
					refused <- true
					return c.refusal
				})
				leases.edit("0", wantLease)
				for range c.before {
					<-refused
				}
				pause(time.Millisecond)
				began := time.Now()
				if err := r.end(); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("the stop took %s; want at most the drain and the request timeout", took)
				}
				if last := said.of(Released); len(last) != 1 || last[0].Reason != Abandoned || !errors.Is(last[0].Err, c.refusal) {
					t.Errorf("notified %+v", last)
				}
			})
		})
	}
}

// A lease is handed over, the store does not answer its release, and then the host stops. The
// attempt that is under way must not have the time of a hand-over, which is an expiration.
func TestStopShortensAReleaseThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, drain = 4 * time.Second, time.Second
		leases, sent := newFakeStore(), make(chan bool, 100)
		r, _ := idle(t, leases, Config{DrainTimeout: drain, RequestTimeout: timeout})
		leases.setBefore(func(w fakeWrite) error {
			if w.lease.Owner != "" {
				return nil
			}
			sent <- true
			time.Sleep(timeout)
			return context.DeadlineExceeded
		})
		leases.edit("0", wantLease)
		<-sent
		pause(time.Millisecond)
		began := time.Now()
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > drain+2*timeout {
			t.Errorf("the stop took %s; want at most the drain and two request timeouts", took)
		}
	})
}

// A lease whose checkpoints are throttled is handed over. The release stores the position,
// so the call of Checkpoint that waits has succeeded.
func TestHandOverAnswersTheCheckpointsThatItStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, delivered := newFakeStore(), make(chan *Batch, 1)
		h := HandlerFunc(func(_ context.Context, b *Batch) error { delivered <- b; return nil })
		_, said := idle(t, leases, Config{Source: onePartition(1), Handler: h, Start: fromBeginning, Checkpoint: Checkpointing{Manual: true}})
		b, waiting := <-delivered, make(chan error, 1)
		leases.edit("0", wantLease) // the checkpoint meets a conflict that shows the request
		go func() { waiting <- b.Checkpoint(context.WithoutCancel(t.Context())) }()
		if err := <-waiting; err != nil {
			t.Errorf("the call that waited returned %v", err)
		}
		pause(20 * time.Second)
		if released := said.of(Released); len(released) != 1 || released[0].Reason != HandedOver || leases.doc("0").Continuation != "1" {
			t.Errorf("released %+v at %q", released, leases.doc("0").Continuation)
		}
		if err := b.Checkpoint(t.Context()); err != nil {
			t.Errorf("a call after the end returned %v", err)
		}
	})
}

// A checkpoint is throttled, and then the host stops. The release stores the position, so the
// call of Checkpoint that waits has succeeded.
func TestReleaseAnswersTheCheckpointsThatItStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, delivered := newFakeStore(), make(chan *Batch, 1)
		h := HandlerFunc(func(_ context.Context, b *Batch) error { delivered <- b; return nil })
		r, _ := idle(t, leases, Config{Source: onePartition(1), Handler: h, Start: fromBeginning, Checkpoint: Checkpointing{Manual: true}})
		leases.setBefore(func(w fakeWrite) error {
			if w.lease.Owner == "" {
				return nil
			}
			return &feed.ThrottledError{RetryAfter: time.Minute}
		})
		b, waiting := <-delivered, make(chan error, 1)
		go func() { waiting <- b.Checkpoint(context.WithoutCancel(t.Context())) }()
		pause(time.Second)
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if at := leases.doc("0").Continuation; at != "1" {
			t.Errorf("the lease was released at %q", at)
		}
		if err := <-waiting; err != nil {
			t.Errorf("the call that waited returned %v", err)
		}
		if err := b.Checkpoint(t.Context()); err != nil {
			t.Errorf("a call after the end returned %v", err)
		}
	})
}
