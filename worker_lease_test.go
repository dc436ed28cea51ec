package changefeed

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// idle starts a host and waits until it owns the lease of partition 0 and is idle.
func idle(t *testing.T, leases *fakeStore, cfg Config) (*running, *notes) {
	t.Helper()
	said := &notes{}
	if cfg.Source == nil {
		cfg.Source = newFakeSource("0")
	}
	if cfg.Handler == nil && cfg.Observer == nil {
		cfg.Handler = &collector{}
	}
	cfg.Leases, cfg.Notify = leases, said.add
	r := start(t, cfg)
	pause(time.Second)
	if leases.doc("0").Owner == "" {
		t.Fatal("the lease was not acquired")
	}
	return r, said
}

func wantLease(l *lease.Lease) {
	l.Properties = maps.Clone(l.Properties)
	if l.Properties == nil {
		l.Properties = map[string]string{}
	}
	l.Properties[lease.PropertyWanted] = "other/0000beef"
}

func TestWriteOfUnknownOutcomeIsSentAgainAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		var refused []lease.Lease
		leases.before = func(w fakeWrite) error {
			if w.op == "update" && w.lease.Continuation == "1" && len(refused) < 3 {
				refused = append(refused, w.lease)
				source.write("0", 1) // its position must wait until this write succeeds
				return errors.New("503")
			}
			return nil
		}
		_, said := idle(t, leases, Config{Source: source, PollInterval: 100 * time.Millisecond})
		source.write("0", 1)
		pause(20 * time.Second)
		if len(refused) != 3 {
			t.Fatalf("%d attempts", len(refused))
		}
		for _, w := range refused {
			if w.ETag != refused[0].ETag || w.Continuation != "1" {
				t.Errorf("sent again as %q at %q, was %q", w.ETag, w.Continuation, refused[0].ETag)
			}
		}
		if doc := leases.doc("0"); doc.Continuation != "4" || len(said.of(Released)) != 0 {
			t.Errorf("%+v", doc)
		}
		if n := len(said.of(Failed)); n != 3 {
			t.Errorf("%d errors", n)
		}
	})
}

func TestLostAnswerToACheckpointIsRecognisedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		lost := 0
		leases.after = func(w fakeWrite) error {
			if w.lease.Continuation == "1" && lost == 0 {
				lost++
				return errors.New("connection reset")
			}
			return nil
		}
		_, said := idle(t, leases, Config{Source: source, PollInterval: 100 * time.Millisecond})
		source.write("0", 1)
		pause(30 * time.Second)
		source.write("0", 1)
		pause(30 * time.Second)
		if doc := leases.doc("0"); lost != 1 || doc.Continuation != "2" || len(said.of(Released)) != 0 {
			t.Errorf("%+v", doc)
		}
	})
}

func TestDeletedLeaseIsPutBackByItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(3), newFakeStore()
		_, said := idle(t, leases, Config{Source: source, Start: fromBeginning})
		owner := leases.doc("0").Owner
		leases.mu.Lock()
		delete(leases.docs, "lease-0")
		leases.mu.Unlock()
		pause(20 * time.Second)
		if doc := leases.doc("0"); doc.Owner != owner || doc.Continuation != "3" || len(said.of(Released)) != 0 {
			t.Errorf("%+v", doc)
		}
	})
}

func TestOwnerDetectsALostLeaseAtItsNextWrite(t *testing.T) {
	for name, edit := range map[string]func(*lease.Lease){
		"another owner":          func(l *lease.Lease) { l.Owner = "other" },
		"owner cleared":          func(l *lease.Lease) { l.Owner = "" },
		"position edited":        func(l *lease.Lease) { l.Continuation = "77" },
		"edited, and asked for":  func(l *lease.Lease) { l.Continuation = "77"; wantLease(l) },
		"another owner, wanted ": func(l *lease.Lease) { l.Owner = "other/00000000"; wantLease(l) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leases := newFakeStore()
				r, said := idle(t, leases, Config{AcquireInterval: time.Hour})
				leases.edit("0", edit)
				edited := leases.doc("0")
				pause(20 * time.Second)
				released := said.of(Released)
				if len(released) != 1 || released[0].Reason != Lost || len(said.of(Failed)) != 0 {
					t.Errorf("%+v", said.all)
				}
				if err := r.end(); err != nil {
					t.Error(err)
				}
				if doc := leases.doc("0"); doc.ETag != edited.ETag {
					t.Errorf("written after the loss: %+v", doc)
				}
			})
		})
	}
}

func TestWantedLeaseIsHandedOverWithItsPositionInOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := newFakeSource("0"), newFakeStore(), &collector{took: 40 * time.Second}
		_, said := idle(t, leases, Config{Source: source, Handler: h, PollInterval: time.Second, AcquireInterval: time.Hour, MaxItems: 2})
		source.write("0", 4)
		pause(2 * time.Second) // the handler works on 1 and 2 for 40 s
		leases.edit("0", wantLease)
		pause(30 * time.Second)
		if doc := leases.doc("0"); doc.Owner == "" || doc.Wanted() == "" || len(said.of(Released)) != 0 {
			t.Errorf("handed over during the batch: %+v", doc)
		}
		pause(30 * time.Second)
		released := said.of(Released)
		if len(released) != 1 || released[0].Reason != HandedOver {
			t.Fatalf("%+v", said.all)
		}
		if got := h.got(); !slices.Equal(got, []int64{1, 2}) {
			t.Errorf("handled %v", got)
		}
		sent := leases.sent()
		if last := sent[len(sent)-1].lease; last.Owner != "" || last.Continuation != "2" || last.Wanted() == "" {
			t.Errorf("released as %+v", last)
		}
		if before := sent[len(sent)-2].lease; before.Continuation == "2" {
			t.Error("a checkpoint was written before the release")
		}
	})
}

func TestRefusedReleaseIsSentAgainWhileTheLeaseIsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		poked := 0
		leases.before = func(w fakeWrite) error {
			if w.lease.Owner == "" && w.op == "update" && poked < 2 {
				poked++
				leases.edit("0", func(l *lease.Lease) { l.Properties = map[string]string{"note": "x"} })
			}
			return nil
		}
		r, said := idle(t, leases, Config{})
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if doc := leases.doc("0"); doc.Owner != "" || doc.Properties["note"] != "x" || poked != 2 || len(said.of(Failed)) != 0 {
			t.Errorf("%+v", doc)
		}
	})
}

func TestOutageOfTheLeaseStoreEndsTheHandlersContextBeforeTheLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(1), newFakeStore()
		var handled time.Duration
		var cause error
		h := HandlerFunc(func(ctx context.Context, _ *Batch) error {
			began := time.Now()
			<-ctx.Done()
			handled, cause = time.Since(began), context.Cause(ctx)
			return ctx.Err()
		})
		_, said := idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning})
		leases.setBefore(func(fakeWrite) error { return errors.New("503") })
		pause(2 * time.Minute)
		if !errors.Is(cause, lease.ErrLost) || handled < 53*time.Second || handled > 54*time.Second {
			t.Errorf("after %s: %v", handled, cause)
		}
		if released := said.of(Released); len(released) != 1 || released[0].Reason != Lost {
			t.Errorf("%+v", released)
		}
		for _, note := range said.of(Failed) {
			if _, ok := errors.AsType[*LeaseStoreError](note.Err); !ok {
				t.Errorf("%v", note.Err) // not the error of the handler, whose context had ended
			}
		}
	})
}

// A renewal succeeds, but the answer arrives after trust in the lease has ended. The host
// must treat the lease as lost.
func TestLateSuccessDoesNotBringTrustBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		r, said := idle(t, leases, Config{
			Source: source, AcquireInterval: time.Hour,
			RenewInterval: 5 * time.Second, RequestTimeout: 40 * time.Second, ExpirationInterval: 52 * time.Second,
		})
		leases.setBefore(func(fakeWrite) error { return errors.New("503") })
		pause(30 * time.Second)
		leases.setBefore(func(fakeWrite) error { time.Sleep(38 * time.Second); return nil })
		pause(30 * time.Second)
		if released := said.of(Released); len(released) != 0 {
			t.Fatal("the worker waits for its write")
		}
		pause(30 * time.Second)
		if released := said.of(Released); len(released) != 1 || released[0].Reason != Lost {
			t.Errorf("%+v", said.all)
		}
		leases.setBefore(nil)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestManualCheckpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(30), newFakeStore()
		var batches []*Batch
		h := HandlerFunc(func(_ context.Context, b *Batch) error {
			batches = append(batches, b)
			return nil
		})
		r, _ := idle(t, leases, Config{
			Source: source, Handler: h, Start: fromBeginning, MaxItems: 10,
			Checkpoint: Checkpointing{Manual: true}, PollInterval: time.Second,
		})
		pause(20 * time.Second)
		if doc := leases.doc("0"); doc.Continuation != "" || len(batches) != 3 {
			t.Fatalf("%d batches, moved to %q by itself", len(batches), doc.Continuation)
		}
		if err := batches[1].Checkpoint(t.Context()); err != nil {
			t.Error(err)
		}
		if doc := leases.doc("0"); doc.Continuation != "20" {
			t.Errorf("at %q when Checkpoint returned", doc.Continuation)
		}
		writes := len(leases.sent())
		if err := batches[0].Checkpoint(t.Context()); err != nil || len(leases.sent()) != writes {
			t.Errorf("an older checkpoint: %v, %d writes", err, len(leases.sent())-writes)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := batches[2].Checkpoint(ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		leases.edit("0", func(l *lease.Lease) { l.Owner = "other" })
		if err := batches[2].Checkpoint(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("after the loss: %v", err)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if err := batches[2].Checkpoint(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("after the end: %v", err)
		}
		if err := batches[0].Checkpoint(t.Context()); err != nil {
			t.Errorf("an older one after the end: %v", err)
		}
	})
}

func TestManualCheckpointInsideTheHandlerDoesNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(30), newFakeStore()
		h := HandlerFunc(func(ctx context.Context, b *Batch) error { return b.Checkpoint(ctx) })
		idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning, MaxItems: 10, Checkpoint: Checkpointing{Manual: true}})
		if doc := leases.doc("0"); doc.Continuation != "30" {
			t.Errorf("at %q", doc.Continuation)
		}
		source.write("0", 5)
		pause(10 * time.Second)
		if doc := leases.doc("0"); doc.Continuation != "35" {
			t.Errorf("at %q", doc.Continuation)
		}
	})
}

func TestIdleRangeAdvancesInManualModeOnlyWhileNothingIsUnacknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(10), newFakeStore()
		var batch *Batch
		h := HandlerFunc(func(_ context.Context, b *Batch) error { batch = b; return nil })
		filter := func(c feed.Change) bool { return c.LSN <= 10 }
		idle(t, leases, Config{
			Source: source, Handler: h, Filter: filter, Start: fromBeginning,
			Checkpoint: Checkpointing{Manual: true}, PollInterval: time.Second,
		})
		source.write("0", 5) // all filtered; batch still waits for its acknowledgement
		pause(30 * time.Second)
		if doc := leases.doc("0"); doc.Continuation != "" {
			t.Errorf("moved to %q over an unacknowledged batch", doc.Continuation)
		}
		if err := batch.Checkpoint(t.Context()); err != nil {
			t.Error(err)
		}
		if doc := leases.doc("0"); doc.Continuation != "15" {
			t.Errorf("at %q", doc.Continuation)
		}
	})
}

// A proxy answers "not found" to updates of a lease that exists. The host then tries to
// recreate the lease, which is refused, and updates it again. It must wait between these
// attempts, or it would send thousands of requests a second.
func TestDeniedLeaseThatExistsIsNotWrittenInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		_, said := idle(t, leases, Config{})
		leases.setBefore(func(w fakeWrite) error {
			if w.op == "update" {
				return feed.ErrNotFound
			}
			return nil
		})
		const outage = 40 * time.Second
		count := func() int {
			leases.mu.Lock()
			defer leases.mu.Unlock()
			return len(leases.writes)
		}
		before := count()
		pause(outage)
		if writes := count() - before; writes < 6 || writes > 40 {
			t.Errorf("%d writes in %s; want some, with growing delays", writes, outage)
		}
		if told := said.of(Failed); len(told) == 0 || !errors.Is(told[0].Err, errDenied) {
			t.Errorf("notified %v; want the answer of the lease store", told)
		}
		leases.setBefore(nil)
		pause(outage)
		if ended := said.of(Released); len(ended) > 0 {
			t.Errorf("the lease was not kept: %v", ended)
		}
		before = count()
		pause(outage)
		if writes := count() - before; writes > 5 {
			t.Errorf("%d writes in %s afterwards; want the renewals", writes, outage)
		}
	})
}
