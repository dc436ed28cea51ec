package changefeed

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// exitingObserver is an observer whose methods call runtime.Goexit on their first call,
// as a failed assertion of a test does.
type exitingObserver struct {
	*collector
	calls map[string]int
}

func (o *exitingObserver) exits(method string) {
	if o.calls[method]++; o.calls[method] == 1 {
		runtime.Goexit()
	}
}

func (o *exitingObserver) Open(context.Context, lease.Lease) error {
	o.exits("open")
	return nil
}

func (o *exitingObserver) Handle(ctx context.Context, b *Batch) error {
	o.exits("handle")
	return o.collector.Handle(ctx, b)
}

func (o *exitingObserver) Close(context.Context, Reason) error {
	o.exits("close")
	return nil
}

// A handler that calls runtime.Goexit ends its goroutine. The processor must report that
// as a HandlerError and call the handler again. Otherwise it would keep the lease forever
// without processing it.
func TestGoexitInTheUsersCodeIsAFailureOfTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, said := onePartition(10), newFakeStore(), &notes{}
		o := &exitingObserver{collector: &collector{}, calls: map[string]int{}}
		r := start(t, Config{
			Source: source, Leases: leases, Start: fromBeginning, Notify: said.add,
			Observer: func(lease.Lease) (Observer, error) { o.exits("make"); return o, nil },
			Filter:   func(feed.Change) bool { o.exits("filter"); return true },
		})
		pause(2 * time.Minute)
		if doc := leases.doc("0"); doc.Owner == "" || doc.Continuation != "10" || !slices.Equal(o.got(), to(10)) {
			t.Errorf("the lease is at %q after %v", doc.Continuation, o.got())
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if doc := leases.doc("0"); doc.Owner != "" {
			t.Error("the lease is still owned after the stop")
		}
		var ops []string
		for _, note := range said.of(Failed) {
			failure, ok := errors.AsType[*HandlerError](note.Err)
			if !ok || note.LeaseToken != "0" || !strings.Contains(failure.Error(), "runtime.Goexit") || !strings.Contains(string(failure.Stack), "exits") {
				t.Errorf("lease %q: %v", note.LeaseToken, note.Err)
				continue
			}
			if batch := failure.Op == "handle" || failure.Op == "filter"; batch != (failure.FirstLSN == 1 && failure.LastLSN == 10) {
				t.Errorf("%s names LSN %d to %d", failure.Op, failure.FirstLSN, failure.LastLSN)
			}
			ops = append(ops, failure.Op)
		}
		if want := []string{"open", "open", "filter", "handle", "close"}; !slices.Equal(ops, want) {
			t.Errorf("failures of %v; want %v", ops, want)
		}
	})
}

// The processor calls Notify and OnHistoryLost on its own goroutines. A callback that
// calls runtime.Goexit must not end these goroutines, and one that panics must not end the
// program. Both are logged with their stacks.
func TestACallbackThatPanicsOrExitsEndsNoGoroutineOfTheProcessor(t *testing.T) {
	t.Run("exits", func(t *testing.T) { callbacksEnd(t, runtime.Goexit, errGoexit.Error()) })
	t.Run("panics", func(t *testing.T) { callbacksEnd(t, func() { panic("broken callback") }, "panic: broken callback") })
}

func callbacksEnd(t *testing.T, end func(), reason string) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		source, leases, h := onePartition(10), newFakeStore(), &collector{}
		source.fail = func(_ int, r feed.Request) error {
			if r.From.Kind() == feed.StartBeginning {
				return &feed.HistoryLostError{Reason: "past the retention", Oldest: "4"}
			}
			return nil
		}
		var asked, told atomic.Int32
		var failures atomic.Int32
		r := start(t, Config{
			Source: source, Leases: leases, Handler: h, Start: fromBeginning,
			OnHistoryLost: func(lease.Lease, *feed.HistoryLostError) bool {
				if asked.Add(1) == 1 {
					end()
				}
				return true
			},
			Notify: func(n Notification) {
				if _, ok := errors.AsType[*HandlerError](n.Err); ok {
					failures.Add(1)
				}
				told.Add(1)
				end()
			},
			Logger: slog.New(slog.NewTextHandler(&text, nil)),
		})
		pause(time.Minute)
		if got := h.got(); !slices.Equal(got, []int64{5, 6, 7, 8, 9, 10}) || asked.Load() != 2 {
			t.Errorf("got %v after %d questions; want 5 to 10 after 2", got, asked.Load())
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if told.Load() < 4 || failures.Load() != 1 {
			t.Errorf("%d notifications, %d of a failed callback; want at least 4, and 1", told.Load(), failures.Load())
		}
		log := text.String()
		for _, want := range []string{`"notification function failed"`, "history lost: " + reason, "stack=", "callbacksEnd"} {
			if !strings.Contains(log, want) {
				t.Errorf("the log lacks %s:\n%s", want, log)
			}
		}
	})
}
