package changefeed_test

import (
	"context"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
)

// tally is an observer: there is one for each lease, made when the host acquires
// it, so its fields need no lock.
type tally struct {
	lease   string
	changes int
	stop    context.CancelFunc
}

func (t *tally) Open(_ context.Context, l lease.Lease) error {
	t.lease = l.Token
	fmt.Println("work on lease", t.lease, "begins")
	return nil
}

func (t *tally) Handle(_ context.Context, b *changefeed.Batch) error {
	t.changes += len(b.Changes)
	if t.changes == 3 {
		t.stop()
	}
	return nil
}

func (t *tally) Close(_ context.Context, r changefeed.Reason) error {
	fmt.Printf("work on lease %s ends after %d changes: %s\n", t.lease, t.changes, r)
	return nil
}

// An observer per lease has state of its own and is told when work on the lease
// begins and ends: it can open a file or a transaction per lease, for instance.
func ExampleObserver() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateDatabase(ctx, store.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	container := func(p store.ContainerProperties) *store.Container {
		c, err := db.CreateContainer(ctx, "shop", p)
		if err != nil {
			log.Fatal(err)
		}
		return c
	}
	orders := container(store.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
	leases := container(store.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	write := func(c *store.Container, documents ...string) {
		for _, document := range documents {
			if _, err := c.Upsert(ctx, nil, []byte(document), store.WriteOptions{}); err != nil {
				log.Fatal(err)
			}
		}
	}
	write(orders,
		`{"id":"1","customer":"ada"}`,
		`{"id":"2","customer":"bob"}`,
		`{"id":"3","customer":"ada"}`,
	)
	processor, err := changefeed.New(changefeed.Config{
		Processor: "tally",
		Source:    db.Source(orders),
		Leases:    db.Leases(leases),
		Start:     feed.Beginning(),
		Observer: func(lease.Lease) (changefeed.Observer, error) {
			return &tally{stop: stop}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := processor.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// work on lease 0 begins
	// work on lease 0 ends after 3 changes: shutdown
}
