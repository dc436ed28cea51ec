package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// Latest version mode does not return deletes. A soft delete is visible there. One write
// marks the item as deleted and gives it a time to live. The processor receives the
// marked item, and the store deletes the item when it expires. The time to live must
// exceed the longest lag of the processor, because expired items are not returned.
func Example_softDelete() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	container := func(p storetype.ContainerProperties) *store.Container {
		c, err := db.CreateContainer(ctx, "shop", p)
		if err != nil {
			log.Fatal(err)
		}
		return c
	}
	// With DefaultTTL -1, only items with a ttl of their own expire.
	products := container(storetype.ContainerProperties{ID: "products", KeyPaths: []string{"/category"}, DefaultTTL: -1})
	leases := container(storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	write := func(c *store.Container, documents ...string) {
		for _, document := range documents {
			if _, err := c.Upsert(ctx, nil, []byte(document), storetype.WriteOptions{}); err != nil {
				log.Fatal(err)
			}
		}
	}
	write(products,
		`{"id":"lamp","category":"home"}`,
		`{"id":"desk","category":"home"}`,
	)

	index := map[string]bool{} // the items that users can find; one partition, so one handler at a time
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
