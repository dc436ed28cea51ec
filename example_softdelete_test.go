package changefeed_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// Latest version mode doesn't show deletes. A soft delete does: the item is
// marked as deleted, and given a time to live in the same write. The processor
// sees the mark, and the item goes away by itself. The time to live must be
// longer than the processor may ever be behind: an expired item is not shown.
func Example_softDelete() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	// DefaultTTL -1: items live for ever unless they say otherwise.
	s := openShop(ctx, store.ContainerProperties{ID: "products", KeyPaths: []string{"/category"}, DefaultTTL: -1})
	defer s.Close()
	s.write(ctx, "products",
		`{"id":"lamp","category":"home"}`,
		`{"id":"desk","category":"home"}`,
	)

	index := map[string]bool{} // what users can search for; one partition, so one handler at a time
	run(ctx, changefeed.Config{
		Processor: "search",
		Source:    s.source("products"),
		Leases:    s.leases(),
		Start:     feed.Beginning(),
		Handler: changefeed.HandlerFunc(func(ctx context.Context, b *changefeed.Batch) error {
			for _, change := range b.Changes {
				var product struct {
					ID      string
					Deleted bool
				}
				if err := json.Unmarshal(change.Current, &product); err != nil {
					return err
				}
				if product.Deleted {
					delete(index, product.ID)
					fmt.Println("removed", product.ID)
					stop()
					continue
				}
				index[product.ID] = true
				fmt.Println("added", product.ID)
				if product.ID == "desk" {
					const month = `2592000`
					s.write(ctx, "products", `{"id":"lamp","category":"home","deleted":true,"ttl":`+month+`}`)
				}
			}
			return nil
		}),
	})
	fmt.Println("in the index:", index)
	// Output:
	// added lamp
	// added desk
	// removed lamp
	// in the index: map[desk:true]
}
