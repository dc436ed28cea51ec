package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

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
	products := container(store.ContainerProperties{ID: "products", KeyPaths: []string{"/category"}, DefaultTTL: -1})
	leases := container(store.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	write := func(c *store.Container, documents ...string) {
		for _, document := range documents {
			if _, err := c.Upsert(ctx, nil, []byte(document), store.WriteOptions{}); err != nil {
				log.Fatal(err)
			}
		}
	}
	write(products,
		`{"id":"lamp","category":"home"}`,
		`{"id":"desk","category":"home"}`,
	)

	index := map[string]bool{} // what users can search for; one partition, so one handler at a time
	processor, err := changefeed.New(changefeed.Config{
		Processor: "search",
		Source:    db.Source(products),
		Leases:    db.Leases(leases),
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
					write(products, `{"id":"lamp","category":"home","deleted":true,"ttl":`+month+`}`)
				}
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
	fmt.Println("in the index:", index)
	// Output:
	// added lamp
	// added desk
	// removed lamp
	// in the index: map[desk:true]
}
