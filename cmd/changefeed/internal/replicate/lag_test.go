package replicate

import (
	"context"
	"testing"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// scanningSource is a source that has read only entries of other keys when it is read from
// the beginning. Its page is empty, and what follows has changes.
type scanningSource struct{ feed.Source }

func (s scanningSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	page, err := s.Source.Read(ctx, r)
	if r.From == feed.Beginning() && err == nil {
		page.Changes, page.Continuation, page.LSN = nil, `"0"`, 0
	}
	return page, err
}

func TestAnEmptyPageInTheMiddleIsNotCaughtUp(t *testing.T) {
	ctx, source := t.Context(), memory.NewSource(memory.Options{})
	write := func(body string) {
		t.Helper()
		if err := source.Upsert(feed.PartitionKey{"ada"}, body); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"id":"1"}`)
	identity, err := source.Identity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.NewLeases(nil).Open(ctx, lease.Key{Processor: "copy", Identity: identity})
	if err != nil {
		t.Fatal(err)
	}
	partitions, err := source.Partitions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l := lease.ForPartition(partitions[0])
	l.Properties = map[string]string{lease.PropertyStart: feed.Beginning().String()}
	if l, err = store.Create(ctx, l); err != nil {
		t.Fatal(err)
	}
	if err := store.SetInitialized(ctx, true); err != nil {
		t.Fatal(err)
	}
	copying := &lag{source: scanningSource{source}, store: store, start: feed.Beginning()}
	for range 2 {
		s, err := copying.measure(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if s.caughtUp || s.behind != 1 {
			t.Errorf("caught up: %t, behind by %d; want one unread change", s.caughtUp, s.behind)
		}
	}
	copying.source = source // all changes of the previous measurement are read
	l.Continuation = `"1"`
	if _, err := store.Update(ctx, l); err != nil {
		t.Fatal(err)
	}
	if s, err := copying.measure(ctx); err != nil || !s.caughtUp || s.behind != 0 {
		t.Errorf("after all was read: %+v, %v", s, err)
	}
}
