package changefeed_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"sync"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
)

// A test can split a partition while a processor works. The lease of the partition is
// replaced by leases of its two halves, at the same position, and no change is lost.
func Example_split() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	orders := memory.NewSource(memory.Options{})
	write := func(from, to int) {
		for i := from; i < to; i++ {
			key := feed.PartitionKey{fmt.Sprintf("customer-%d", i)}
			if err := orders.Upsert(key, fmt.Sprintf(`{"id":"order-%d"}`, i)); err != nil {
				log.Fatal(err)
			}
		}
	}
	write(0, 10)

	var mu sync.Mutex // guards seen and tokens: the handler is called for two leases at a time
	seen, tokens := map[string]bool{}, map[string]bool{}
	processor, err := changefeed.New(changefeed.Config{
		Processor: "printer",
		Source:    orders,
		Leases:    memory.NewLeases(nil),
		Start:     feed.Beginning(),
		Handler: changefeed.HandlerFunc(func(ctx context.Context, b *changefeed.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			tokens[b.LeaseToken] = true
			for _, change := range b.Changes {
				id, err := change.ID()
				if err != nil {
					return err
				}
				seen[id] = true
			}
			switch len(seen) {
			case 10:
				if _, err := orders.Split("0", ""); err != nil {
					log.Fatal(err)
				}
				write(10, 30)
			case 30:
				stop()
			}
			return nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := processor.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("orders:", len(seen))
	fmt.Println("leases:", slices.Sorted(maps.Keys(tokens)))
	// Output:
	// orders: 30
	// leases: [0 1 2]
}
