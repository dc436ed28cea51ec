package changefeedtest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// projection is a handler like that of a user. It keeps the LSN of each item's newest
// version, by which it recognises redeliveries.
type projection struct {
	mu    sync.Mutex // guards items
	items map[string]int64
	older int
}

func (p *projection) Handle(_ context.Context, b *changefeed.Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range b.Changes {
		id, err := b.Changes[i].ID()
		if err != nil {
			return err
		}
		if b.Changes[i].LSN <= p.items[id] {
			p.older++
			continue
		}
		p.items[id] = b.Changes[i].LSN
	}
	return nil
}

func TestSimulateDeliversEveryDocumentToTheUsersHandler(t *testing.T) {
	for seed := range uint64(20) {
		p := &projection{items: map[string]int64{}}
		written := map[string]bool{}
		report := changefeedtest.Simulate(t, changefeedtest.Simulation{
			Seed:    seed,
			Handler: func(string) changefeed.Handler { return p },
			Document: func(n int) (feed.PartitionKey, map[string]any) {
				id := fmt.Sprint("order-", n%200)
				written[id] = true
				customer := fmt.Sprint("customer-", n%7)
				return feed.PartitionKey{customer}, map[string]any{"id": id, "pk": customer, "total": n}
			},
		})
		for id := range written {
			if p.items[id] == 0 {
				t.Errorf("seed %d: item %s was not delivered", seed, id)
			}
		}
		if report.Redelivered > 0 && p.older == 0 {
			t.Errorf("seed %d: %d redeliveries, and the handler saw none", seed, report.Redelivered)
		}
	}
}

func TestSimulateRunsManualCheckpoints(t *testing.T) {
	for seed := range uint64(20) {
		p := &projection{items: map[string]int64{}}
		changefeedtest.Simulate(t, changefeedtest.Simulation{
			Seed: seed, Checkpoint: changefeed.Checkpointing{Manual: true}, Mode: feed.Mode(seed % 2),
			Handler: func(string) changefeed.Handler {
				return changefeed.HandlerFunc(func(ctx context.Context, b *changefeed.Batch) error {
					if err := p.Handle(ctx, b); err != nil {
						return err
					}
					return b.Checkpoint(ctx)
				})
			},
		})
		if len(p.items) == 0 {
			t.Errorf("seed %d: no changes were delivered", seed)
		}
	}
}

func firstPartition(t *testing.T, c *store.Container) string {
	t.Helper()
	partitions, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return partitions[0].ID
}

// Splits on demand lose nothing, and the store is sound at the end.
func TestStoreSplitsOnDemand(t *testing.T) {
	db := changefeedtest.NewStore(t)
	orders := changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
	leases := changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	got := make(chan string, 100)
	p, err := changefeed.New(changefeed.Config{
		Processor: "test", Source: db.Source(orders), Leases: db.Leases(leases), Start: feed.Beginning(),
		PollInterval: 20 * time.Millisecond,
		Handler: changefeed.HandlerFunc(func(_ context.Context, b *changefeed.Batch) error {
			for i := range b.Changes {
				id, err := b.Changes[i].ID()
				if err != nil {
					return err
				}
				got <- id
			}
			return nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	for n := range 6 {
		id := fmt.Sprint(n)
		order := fmt.Sprintf(`{"id":%q,"customer":%q}`, id, id)
		if _, err := orders.Upsert(ctx, nil, []byte(order), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if came := <-got; came != id {
			t.Errorf("order %s was delivered; want %s", came, id)
		}
		if n%2 == 0 {
			if _, err := orders.Split(ctx, firstPartition(t, orders), ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// watcher is an observer like that of a user. It counts the changes of its lease.
type watcher struct {
	projection *projection
	calls      *lifecycle
	open       bool
}

// lifecycle counts the calls of all observers of a simulation.
type lifecycle struct {
	mu                   sync.Mutex // guards the fields below
	made, opened, closed int
	wrong                string
}

func (l *lifecycle) count(n *int, wrong string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n++
	if wrong != "" {
		l.wrong = wrong
	}
}

func (w *watcher) Open(context.Context, lease.Lease) error {
	w.open = true
	w.calls.count(&w.calls.opened, "")
	return nil
}

func (w *watcher) Handle(ctx context.Context, b *changefeed.Batch) error {
	if !w.open {
		w.calls.count(new(int), "a batch came to an observer that was not open")
	}
	return w.projection.Handle(ctx, b)
}

func (w *watcher) Close(context.Context, changefeed.Reason) error {
	if !w.open {
		w.calls.count(new(int), "an observer was closed that was not open")
	}
	w.open = false
	w.calls.count(&w.calls.closed, "")
	return nil
}

func TestSimulateRunsTheUsersObservers(t *testing.T) {
	for seed := range uint64(20) {
		p, calls := &projection{items: map[string]int64{}}, &lifecycle{}
		written := map[string]bool{}
		report := changefeedtest.Simulate(t, changefeedtest.Simulation{
			Seed: seed,
			Observer: func(string, lease.Lease) (changefeed.Observer, error) {
				calls.count(&calls.made, "")
				return &watcher{projection: p, calls: calls}, nil
			},
			Document: func(n int) (feed.PartitionKey, map[string]any) {
				id := fmt.Sprint("order-", n%200)
				written[id] = true
				return feed.PartitionKey{id}, map[string]any{"id": id, "pk": id}
			},
		})
		for id := range written {
			if p.items[id] == 0 {
				t.Errorf("seed %d: item %s was not delivered", seed, id)
			}
		}
		if calls.wrong != "" {
			t.Errorf("seed %d: %s", seed, calls.wrong)
		}
		if calls.made < report.Partitions || calls.opened > calls.made || calls.closed > calls.opened || calls.closed == 0 {
			t.Errorf("seed %d: %d observers were made, %d opened and %d closed, for %d partitions", seed, calls.made, calls.opened, calls.closed, report.Partitions)
		}
	}
}
