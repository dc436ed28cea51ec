package changefeed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
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
		t.Errorf("%d calls; each was to be called for the first change, batches not at all", calls)
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
