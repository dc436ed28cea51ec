package changefeed_test

import (
	"context"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// tally is an observer that counts the changes of one lease. The processor creates one
// for each lease that it acquires and calls it from one goroutine at a time, so it needs
// no lock.
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

// Each lease has an observer of its own, whose Open and Close are called when work on the
// lease begins and ends. It can keep a file or a transaction open per lease, for
// instance.
func ExampleObserver() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	orders := memory.NewSource(memory.Options{})
	for _, order := range []string{`{"id":"1"}`, `{"id":"2"}`, `{"id":"3"}`} {
		if err := orders.Upsert(feed.PartitionKey{"ada"}, order); err != nil {
			log.Fatal(err)
		}
	}
	processor, err := changefeed.New(changefeed.Config{
		Processor: "tally",
		Source:    orders,
		Leases:    memory.NewLeases(nil),
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
