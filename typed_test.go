package changefeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

type flight struct {
	ID     string `json:"id"`
	Origin string `json:"origin"`
	Delay  int    `json:"delay"`
}

func flights(docs ...string) *Batch {
	b := &Batch{LeaseToken: "0"}
	for i, doc := range docs {
		b.Changes = append(b.Changes, feed.Change{LSN: int64(i + 1), Time: time.Unix(int64(i), 0), Current: []byte(doc)})
	}
	return b
}

func TestEachDecodesEveryChange(t *testing.T) {
	var got []string
	h := Each(func(_ context.Context, c Change[flight]) error {
		got = append(got, fmt.Sprintf("%s %s %d %d %v", c.ID, c.Current.Origin, c.Current.Delay, c.LSN, c.Previous == nil))
		return nil
	})
	if err := h.Handle(t.Context(), flights(`{"id":"1","origin":"SFO","delay":5}`, `{"origin":"LAX","id":"2"}`)); err != nil {
		t.Fatal(err)
	}
	if want := "[1 SFO 5 1 true 2 LAX 0 2 true]"; fmt.Sprint(got) != want {
		t.Errorf("got %v", got)
	}
}

func TestEachDecodesADeleteWithoutCurrent(t *testing.T) {
	b := &Batch{Changes: []feed.Change{{
		Op: feed.Delete, LSN: 9, Previous: []byte(`{"id":"7","origin":"SEA"}`), Expired: true, DeletedID: "7",
	}}}
	err := Each(func(_ context.Context, c Change[flight]) error {
		if c.Current != nil || c.Previous.Origin != "SEA" || c.ID != "7" || c.Op != feed.Delete || !c.Raw.Expired {
			t.Errorf("%+v", c)
		}
		return nil
	}).Handle(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
}

func TestDecodeErrorNamesTheItemAndKeepsItsBytes(t *testing.T) {
	const bad = `{"id":"poison","delay":"five"}`
	calls := 0
	handlers := map[string]Handler{
		"each":    Each(func(context.Context, Change[flight]) error { calls++; return nil }),
		"batches": Batches(func(context.Context, []Change[flight], *Batch) error { calls++; return nil }),
	}
	for name, h := range handlers {
		err := h.Handle(t.Context(), flights(`{"id":"1"}`, bad))
		failure, ok := errors.AsType[*DecodeError](err)
		if !ok || failure.ID != "poison" || string(failure.Change.Current) != bad || failure.Err == nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(err.Error(), `"poison" at LSN 2`) {
			t.Errorf("%s: %s", name, err)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls; want one call of each and no call of batches", calls)
	}
	partial, ok := errors.AsType[*BatchError](handlers["batches"].Handle(t.Context(), flights(bad, `{"id":"2"}`, bad)))
	if !ok || len(partial.Errors) != 3 || !errors.Is(partial.Errors[1], ErrNotHandled) {
		t.Fatalf("batches: %v", partial)
	}
	for _, i := range []int{0, 2} {
		if _, undecoded := errors.AsType[*DecodeError](partial.Errors[i]); !undecoded {
			t.Errorf("change %d: %v", i, partial.Errors[i])
		}
	}
	if err := handlers["each"].Handle(t.Context(), flights(`{"origin":"SFO"}`)); !errors.Is(err, feed.ErrNoID) {
		t.Errorf("without an id: %v", err)
	}
}

func TestBatchesPassesTheBatchAndTheError(t *testing.T) {
	full := errors.New("disk full")
	b := flights(`{"id":"1","origin":"SFO"}`, `{"id":"2","origin":"LAX"}`)
	err := Batches(func(_ context.Context, changes []Change[flight], got *Batch) error {
		if got != b || len(changes) != 2 || changes[1].Current.Origin != "LAX" {
			t.Errorf("%v %v", got, changes)
		}
		return full
	}).Handle(t.Context(), b)
	if !errors.Is(err, full) {
		t.Error(err)
	}
	err = Each(func(context.Context, Change[flight]) error { return full }).Handle(t.Context(), b)
	if !errors.Is(err, full) || !strings.Contains(err.Error(), `"1"`) {
		t.Error(err)
	}
}

// A change that was handled must not be handled again because a later one of its batch
// failed, and no change may overtake the one that failed.
func TestEachGoesOnWithTheChangeThatFailed(t *testing.T) {
	for name, fail := range map[string]func(c Change[flight]) error{
		"error": func(Change[flight]) error { return errors.New("no") },
		"panic": func(Change[flight]) error { panic("no") },
		"stop":  func(Change[flight]) error { return Stop(errors.New("no")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leases := newFakeStore()
				var handled []string
				failures := 0
				start(t, Config{Source: onePartition(5), Leases: leases, Start: fromBeginning, Handler: Each(func(_ context.Context, c Change[flight]) error {
					if (c.LSN == 2 || c.LSN == 4) && failures < 2*int(c.LSN/2) {
						failures++
						return fail(c)
					}
					handled = append(handled, c.ID)
					return nil
				})})
				for range 4 {
					pause(30 * time.Second)
					leases.edit("0", resume)
				}
				pause(30 * time.Second)
				if want := []string{"0-1", "0-2", "0-3", "0-4", "0-5"}; failures != 4 || !slices.Equal(handled, want) {
					t.Errorf("%d failures; handled %v", failures, handled)
				}
			})
		})
	}
}

func TestDecoderIsChosen(t *testing.T) {
	var decoded []string
	decode := DecodeWith(func(data []byte, v any) error {
		decoded = append(decoded, string(data))
		v.(*flight).Origin = "JFK"
		return nil
	})
	b := flights(`{"id":"1"}`)
	for name, h := range map[string]Handler{
		"each": Each(func(_ context.Context, c Change[flight]) error {
			if c.Current.Origin != "JFK" {
				t.Errorf("each: %+v", c.Current)
			}
			return nil
		}, decode),
		"batches": Batches(func(_ context.Context, changes []Change[flight], _ *Batch) error {
			if changes[0].Current.Origin != "JFK" {
				t.Errorf("batches: %+v", changes[0].Current)
			}
			return nil
		}, decode),
	} {
		decoded = nil
		if err := h.Handle(t.Context(), b); err != nil || len(decoded) != 1 {
			t.Errorf("%s: %v, decoded %q", name, err, decoded)
		}
	}
	if err := Each(func(context.Context, Change[flight]) error { return nil }, DecodeWith(nil)).Handle(t.Context(), b); err != nil {
		t.Errorf("without a decoder: %v", err)
	}
}

func TestEachHandlesNoChangeAfterTheLossOfTheLease(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	calls := 0
	err := Each(func(context.Context, Change[flight]) error {
		calls++
		cancel(lease.ErrLost)
		return nil
	}).Handle(ctx, flights(`{"id":"1"}`, `{"id":"2"}`))
	if calls != 1 || !errors.Is(err, lease.ErrLost) {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// fragile is a document type whose UnmarshalJSON panics for the item "0-3".
type fragile struct{ ID string }

func (f *fragile) UnmarshalJSON(text []byte) error {
	if strings.Contains(string(text), `"0-3"`) {
		panicAsUsersCode()
	}
	return nil
}

// panicAsUsersCode panics as code of a user would. The test looks for its name in the
// reported stack.
func panicAsUsersCode() { panic(fmt.Errorf("bad: %w", feed.ErrNoID)) }

// A panic in a handler, a decoder or a filter must be reported with the ID of the item.
// The reported stack must still contain the function that panicked.
func TestPanicNamesItsItemAndKeepsItsStack(t *testing.T) {
	done := func(context.Context, *Batch) error { return nil }
	for name, cfg := range map[string]Config{
		"each": {Handler: Each(func(_ context.Context, c Change[flight]) error {
			if c.ID == "0-3" {
				panicAsUsersCode()
			}
			return nil
		})},
		"decoded for each":    {Handler: Each(func(context.Context, Change[fragile]) error { return nil })},
		"decoded for batches": {Handler: Batches(func(context.Context, []Change[fragile], *Batch) error { return nil })},
		"filter": {Handler: HandlerFunc(done), Filter: func(c feed.Change) bool {
			if c.LSN == 3 {
				panicAsUsersCode()
			}
			return true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg.Source, cfg.Start = onePartition(5), fromBeginning
				_, said := idle(t, newFakeStore(), cfg)
				pause(time.Second)
				failed := said.of(Failed)
				if len(failed) == 0 {
					t.Fatal("the panic was not notified")
				}
				failure, ok := errors.AsType[*HandlerError](failed[0].Err)
				if !ok || !strings.Contains(failure.Error(), `item "0-3" at LSN 3: `) || !strings.Contains(failure.Error(), "panic: ") || !errors.Is(failure, feed.ErrNoID) {
					t.Errorf("%v", failed[0].Err)
				}
				if ok && !strings.Contains(string(failure.Stack), "panicAsUsersCode") {
					t.Errorf("the stack does not show the origin of the panic:\n%s", failure.Stack)
				}
			})
		})
	}
}

func TestPanicWithAValueOfAChangeWithoutIDNamesItsLSN(t *testing.T) {
	defer func() {
		if v := fmt.Sprint(recover()); v != "the change at LSN 1: boom" {
			t.Error(v)
		}
	}()
	(&host{cfg: Config{Filter: func(feed.Change) bool { panic("boom") }}}).wants(feed.Change{LSN: 1, Current: []byte(`{}`)})
}
