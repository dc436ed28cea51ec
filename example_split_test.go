package changefeed_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"sync"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// A container's partitions can be split while a processor works, so what a
// handler does then can be tried. The lease of the partition is replaced by
// leases of its two halves, at the same place; no change is lost.
func Example_split() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s := openShop(ctx, store.ContainerProperties{ID: "orders"})
	defer s.Close()
	write := func(from, to int) {
		for i := from; i < to; i++ {
			s.write(ctx, "orders", fmt.Sprintf(`{"id":"order-%d","customer":"customer-%d"}`, i, i))
		}
	}
	write(0, 10)

	var mu sync.Mutex // guards orders and leases: two leases, two calls of the handler at a time
	orders, leases := map[string]bool{}, map[string]bool{}
	run(ctx, changefeed.Config{
		Processor: "printer",
		Source:    s.source("orders"),
		Leases:    s.leases(),
		Start:     feed.Beginning(),
		Handler: changefeed.HandlerFunc(func(ctx context.Context, b *changefeed.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			leases[b.LeaseToken] = true
			for _, change := range b.Changes {
				id, err := change.ID()
				if err != nil {
					return err
				}
				orders[id] = true
			}
			switch len(orders) {
			case 10:
				if _, err := s.containers["orders"].Split(ctx, "0", ""); err != nil {
					log.Fatal(err)
				}
				write(10, 30)
			case 30:
				stop()
			}
			return nil
		}),
	})
	fmt.Println("orders:", len(orders))
	fmt.Println("leases:", slices.Sorted(maps.Keys(leases)))
	// Output:
	// orders: 30
	// leases: [0 1 2]
}
