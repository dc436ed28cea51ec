package changefeed_test

import (
	"context"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// A processor on the embedded store: it hands every change of the container
// "orders" to a handler, and remembers in the container "leases" how far it came.
// With the source and the lease container of another engine it does the same there.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := store.OpenMemory(store.Options{}) // or store.Open("directory", ...)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateDatabase(ctx, store.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	orders, err := db.CreateContainer(ctx, "shop", store.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
	if err != nil {
		log.Fatal(err)
	}
	leases, err := db.CreateContainer(ctx, "shop", store.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, order := range []string{
		`{"id":"1","customer":"ada","total":12}`,
		`{"id":"2","customer":"bob","total":5}`,
		`{"id":"3","customer":"ada","total":30}`,
	} {
		if _, err := orders.Upsert(ctx, nil, []byte(order), store.WriteOptions{}); err != nil {
			log.Fatal(err)
		}
	}

	processor, err := changefeed.New(changefeed.Config{
		Processor: "printer",
		Source:    db.Source(orders),
		Leases:    db.Leases(leases),
		Start:     feed.Beginning(), // only when the leases don't exist yet; without it: from now on
		Handler: changefeed.HandlerFunc(func(_ context.Context, b *changefeed.Batch) error {
			for _, change := range b.Changes {
				id, err := change.ID()
				if err != nil {
					return err
				}
				fmt.Println("order", id)
				if id == "3" {
					stop() // a service would go on until it is told to end
				}
			}
			return nil // the batch is done; an error would bring it again
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := processor.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// order 1
	// order 2
	// order 3
}
