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
	write := func(from, to int) {
		for i := from; i < to; i++ {
			order := fmt.Sprintf(`{"id":"order-%d","customer":"customer-%d"}`, i, i)
			if _, err := orders.Upsert(ctx, nil, []byte(order), store.WriteOptions{}); err != nil {
				log.Fatal(err)
			}
		}
	}
	write(0, 10)

	var mu sync.Mutex // guards seen and tokens: two leases, two calls of the handler at a time
	seen, tokens := map[string]bool{}, map[string]bool{}
	processor, err := changefeed.New(changefeed.Config{
		Processor: "printer",
		Source:    db.Source(orders),
		Leases:    db.Leases(leases),
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
				if _, err := orders.Split(ctx, "0", ""); err != nil {
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
