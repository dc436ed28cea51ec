package changefeed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// diary is an observer that records its calls as lines of text. fail may return an error
// for a line.
type diary struct {
	mu      sync.Mutex // guards entries
	entries []string
	leases  *fakeStore
	fail    func(entry string) error
}

func (d *diary) note(format string, args ...any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	entry := fmt.Sprintf(format, args...)
	d.entries = append(d.entries, entry)
	if d.fail != nil {
		return d.fail(entry)
	}
	return nil
}

func (d *diary) Open(_ context.Context, l lease.Lease) error { return d.note("open %s", l.Token) }
func (d *diary) Handle(_ context.Context, b *Batch) error {
	return d.note("handle %d", b.Changes[0].LSN)
}

func (d *diary) Close(_ context.Context, r Reason) error {
	held := d.leases.doc("0").Owner != ""
	return d.note("close %s, held %v", r, held)
}

func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.entries, "; ")
}

func TestObserverIsOpenedBeforeAndClosedAfterItsBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, source := newFakeStore(), onePartition(2)
		d := &diary{leases: leases}
		made, failed := 0, false
		d.fail = func(entry string) error {
			if entry == "open 0" && !failed {
				failed = true
				return errors.New("not yet")
			}
			return nil
		}
		observer := func(l lease.Lease) (Observer, error) {
			if made++; made == 1 {
				return nil, errors.New("no observer yet")
			}
			return d, nil
		}
		r, said := idle(t, leases, Config{Source: source, Observer: observer, Start: fromBeginning, MaxItems: 1})
		pause(20 * time.Second)
		if err := r.end(); err != nil {
			t.Error(err)
		}
		want := "open 0; open 0; handle 1; handle 2; close shutdown, held true"
		if d.String() != want || made != 2 {
			t.Errorf("%d made: %s", made, d)
		}
		if n := len(said.of(Failed)); n != 2 {
			t.Errorf("%d errors", n)
		}
		if leases.doc("0").Owner != "" {
			t.Error("not released")
		}
	})
}

// Close is called once, so the log must not say that it is retried.
func TestFailedCloseIsNotLoggedAsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		leases := newFakeStore()
		d := &diary{leases: leases, fail: func(entry string) error {
			if strings.HasPrefix(entry, "close") {
				panic("cannot flush")
			}
			return nil
		}}
		r, said := idle(t, leases, Config{
			Source: onePartition(1), Observer: func(lease.Lease) (Observer, error) { return d, nil }, Start: fromBeginning,
			Logger: slog.New(slog.NewTextHandler(&out, nil)),
		})
		pause(20 * time.Second)
		if err := r.end(); err != nil {
			t.Error(err)
		}
		failure, is := errors.AsType[*HandlerError](said.of(Failed)[0].Err)
		if !is || failure.Op != "close" || len(failure.Stack) == 0 {
			t.Errorf("%v", said.of(Failed))
		}
		if text := out.String(); strings.Contains(text, "retrying") || !strings.Contains(text, "cannot flush") || !strings.Contains(text, "TestFailedCloseIsNotLoggedAsRetried") {
			t.Error(text)
		}
	})
}

func TestObserverGetsTheReasonForItsClose(t *testing.T) {
	for want, event := range map[string]func(*fakeSource, *fakeStore){
		"lost, held true": func(_ *fakeSource, leases *fakeStore) {
			leases.edit("0", func(l *lease.Lease) { l.Owner = "thief" })
		},
		"handed over, held true": func(_ *fakeSource, leases *fakeStore) { leases.edit("0", wantLease) },
		"gone, held true":        func(s *fakeSource, _ *fakeStore) { s.split("0", "1", "2") },
		"shadowed, held true": func(_ *fakeSource, leases *fakeStore) {
			leases.edit("0", func(l *lease.Lease) { l.PartitionID, l.Token = "", "-FF" })
			leases.mu.Lock()
			defer leases.mu.Unlock()
			leases.put(lease.Lease{ID: "lease-9", Token: "9", PartitionID: "9", Range: feed.Full()})
		},
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leases, source := newFakeStore(), newFakeSource("0")
				d := &diary{leases: leases}
				observer := func(l lease.Lease) (Observer, error) {
					if l.Token != "0" {
						return &diary{leases: leases}, nil
					}
					return d, nil
				}
				idle(t, leases, Config{Source: source, Observer: observer})
				event(source, leases)
				pause(20 * time.Second)
				if d.String() != "open 0; close "+want {
					t.Error(d)
				}
			})
		})
	}
}

// split replaces partition id by the partitions low and high. The log of id becomes the
// log of low.
func (s *fakeSource) split(id, low, high string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.partitions, func(p feed.Partition) bool { return p.ID == id })
	old := s.partitions[i]
	s.partitions = slices.Replace(s.partitions, i, i+1,
		feed.Partition{ID: low, Range: feed.Range{Min: old.Range.Min, Max: "40"}, Parents: []string{id}},
		feed.Partition{ID: high, Range: feed.Range{Min: "40", Max: old.Range.Max}, Parents: []string{id}})
	s.logs[low] = s.logs[id]
	s.logs[high] = slices.Clone(s.logs[id][:0])
	s.fail = func(_ int, r feed.Request) error {
		if r.Partition.ID == id {
			return &feed.GoneError{Partition: id}
		}
		return nil
	}
}

func TestSplitOnTheVeryFirstReadOfALeaseThatStartsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := onePartition(5), newFakeStore(), &collector{}
		source.split("0", "1", "2")
		leases.marker = time.Now()
		leases.put(lease.Lease{ID: "lease-0", Token: "0", PartitionID: "0", Range: feed.Full()})
		start(t, Config{Source: source, Leases: leases, Handler: h})
		pause(5 * time.Second)
		if doc := leases.doc("1"); doc.Continuation != "5" || leases.doc("0").ID != "" {
			t.Errorf("%+v", leases.sent())
		}
		source.write("1", 2)
		pause(10 * time.Second)
		if got := h.got(); !slices.Equal(got, []int64{6, 7}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestStopCalledInsideTheHandlerDoesNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(4), newFakeStore()
		type key struct{}
		ctx, stop := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
		calls := 0
		h := HandlerFunc(func(handler context.Context, _ *Batch) error {
			calls++
			stop()
			if handler.Err() != nil || handler.Value(key{}) != "kept" {
				t.Errorf("%v %v", handler.Err(), handler.Value(key{}))
			}
			return nil
		})
		p, err := New(Config{Processor: "p", Source: source, Leases: leases, Handler: h, Start: fromBeginning, MaxItems: 1, seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
		if doc := leases.doc("0"); calls != 1 || doc.Owner != "" || doc.Continuation != "1" {
			t.Errorf("%d calls, %+v", calls, doc)
		}
		if err := p.Run(t.Context()); !errors.Is(err, ErrUsed) {
			t.Errorf("a second Run: %v", err)
		}
	})
}

func TestHandlerMayFinishWithinTheDrainTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := onePartition(1), newFakeStore(), &collector{took: 29 * time.Second}
		r, _ := idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning})
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if doc := leases.doc("0"); doc.Owner != "" || doc.Continuation != "1" {
			t.Errorf("%+v", doc)
		}
	})
}

func TestHandlersContextEndsWithTheDrainTimeoutAndTheLeaseIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, drain := range []time.Duration{0, -1, time.Second} {
			source, leases, h := onePartition(1), newFakeStore(), &collector{took: time.Hour}
			r, said := idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning, DrainTimeout: drain})
			began := time.Now()
			if err := r.end(); err != nil {
				t.Error(err)
			}
			want := map[time.Duration]time.Duration{0: 30 * time.Second, -1: 0, time.Second: time.Second}[drain]
			if took := time.Since(began); took < want || took > want+time.Second {
				t.Errorf("drain %s: %s", drain, took)
			}
			if doc := leases.doc("0"); doc.Owner != "" || doc.Continuation != "" || len(said.of(Failed)) != 0 {
				t.Errorf("drain %s: %+v", drain, doc)
			}
		}
	})
}

func TestHandlerThatIgnoresItsContextIsNamedAndItsLeaseLeftToExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0", "1"), newFakeStore()
		source.write("0", 1)
		release := make(chan struct{})
		h := HandlerFunc(func(context.Context, *Batch) error { <-release; return nil })
		r, said := idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning})
		pause(5 * time.Second)
		began := time.Now()
		err := r.end()
		running, ok := errors.AsType[*StillRunningError](err)
		if !ok || !slices.Equal(running.LeaseTokens, []string{"0"}) || !strings.Contains(err.Error(), "0") {
			t.Error(err)
		}
		if took := time.Since(began); took < 40*time.Second || took > 41*time.Second {
			t.Errorf("Run returned %s after the stop", took)
		}
		if leases.doc("0").Owner == "" || leases.doc("1").Owner != "" {
			t.Errorf("%+v", leases.sent())
		}
		for _, n := range said.of(Released) {
			failure, _ := errors.AsType[*HandlerError](n.Err)
			switch {
			case n.LeaseToken == "1" && (n.Reason != Shutdown || n.Err != nil),
				n.LeaseToken == "0" && (n.Reason != Abandoned || failure == nil || failure.Op != "handle"):
				t.Errorf("lease %s: %s (%v)", n.LeaseToken, n.Reason, n.Err)
			}
		}
		close(release)
		synctest.Wait()
	})
}

func TestStopDuringAnOutageOfTheLeaseStoreIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		r, _ := idle(t, leases, Config{})
		leases.setBefore(func(fakeWrite) error { return errors.New("503") })
		began := time.Now()
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 41*time.Second {
			t.Errorf("Run returned %s after the stop", took)
		}
	})
}

// logged returns a logger and a function that returns the text it has written.
func logged() (*slog.Logger, func() string) {
	var text lockedBuffer
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: drop})), text.String
}

// lockedBuffer is a text buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// After a stop a lease is either free or keeps this host's owner text until it expires.
// The notification and the log must report the second case as abandoned and not as
// released.
func TestNotificationAndLogDistinguishAReleasedLeaseFromAnExpiringOne(t *testing.T) {
	down := errors.New("503")
	for name, c := range map[string]struct {
		handler Handler
		// before prepares the store, just before the processor is stopped.
		before func(*fakeStore)
		reason Reason
		log    string
	}{
		"released": {log: `msg="lease released"`, reason: Shutdown},
		"handed over": {
			before: func(s *fakeStore) { s.edit("0", wantLease); pause(20 * time.Second) },
			reason: HandedOver, log: `msg="lease released"`,
		},
		"lost": {
			before: func(s *fakeStore) {
				s.edit("0", func(l *lease.Lease) { l.Owner = "other/00000000" })
				pause(20 * time.Second)
			},
			reason: Lost, log: `msg="lease lost"`,
		},
		"the handler works on": {
			handler: HandlerFunc(func(context.Context, *Batch) error { time.Sleep(5 * time.Minute); return nil }),
			reason:  Abandoned, log: `msg="lease not released; it expires"`,
		},
		"the release fails": {
			before: func(s *fakeStore) { s.setBefore(func(fakeWrite) error { return down }) },
			reason: Abandoned, log: `msg="lease not released; it expires"`,
		},
		"the last renewal is in doubt": {
			before: func(s *fakeStore) { s.setBefore(func(fakeWrite) error { return down }); pause(20 * time.Second) },
			reason: Abandoned, log: `msg="lease not released; it expires"`,
		},
		"the release finds an edited position": {
			before: func(s *fakeStore) {
				s.edit("0", func(l *lease.Lease) { l.Continuation = "77" })
			},
			reason: Abandoned, log: `msg="lease not released; it expires"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leases := newFakeStore()
				log, text := logged()
				r, said := idle(t, leases, Config{Source: onePartition(1), Handler: c.handler, Start: fromBeginning, Logger: log, DrainTimeout: 5 * time.Second})
				owner := leases.doc("0").Owner
				if c.before != nil {
					c.before(leases)
				}
				defer time.Sleep(5 * time.Minute) // lets a handler that still runs return
				_ = r.end()                       // the result is an error that names the running handler
				released := said.of(Released)
				if len(released) == 0 || released[0].Reason != c.reason {
					t.Fatalf("%+v", released)
				}
				if abandoned := c.reason == Abandoned; abandoned != (released[0].Err != nil) || abandoned != (leases.doc("0").Owner == owner) {
					t.Errorf("%v; the owner is %q", released[0].Err, leases.doc("0").Owner)
				}
				if !strings.Contains(text(), c.log) || c.reason == Abandoned && strings.Contains(text(), "lease released") {
					t.Error(text())
				}
			})
		})
	}
}

// A notification that releases nothing has the zero Reason, which must print as "none"
// and not as "shutdown".
func TestNotificationThatReleasesNothingHasNoReason(t *testing.T) {
	if n := (Notification{}); n.Event.String() != "none" || n.Event == Acquired {
		t.Errorf("the zero Event is %q", n.Event)
	}
	if n := (Notification{Event: Acquired}); n.Reason.String() != "none" || n.Reason == Shutdown {
		t.Errorf("%v", n)
	}
}
