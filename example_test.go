package changefeed_test

import (
	"context"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
)

// A processor hands every change of the container "orders" to a handler and records its
// positions in leases. Here both are in memory. A program on the embedded store sets
// Source to db.Source(orders) and Leases to db.Leases(leases), see package store. A
// program on Azure Cosmos DB uses account.Source and account.Leases, see package cosmos.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	orders := memory.NewSource(memory.Options{})
	for _, order := range []string{
		`{"id":"1","customer":"ada","total":12}`,
		`{"id":"2","customer":"ada","total":5}`,
		`{"id":"3","customer":"ada","total":30}`,
	} {
		if err := orders.Upsert(feed.PartitionKey{"ada"}, order); err != nil {
			log.Fatal(err)
		}
	}

	processor, err := changefeed.New(changefeed.Config{
		Processor: "printer",
		Source:    orders,
		Leases:    memory.NewLeases(nil),
		Start:     feed.Beginning(), // applies if there are no leases yet; the default is now
		Handler: changefeed.HandlerFunc(func(_ context.Context, b *changefeed.Batch) error {
			for _, change := range b.Changes {
				id, err := change.ID()
				if err != nil {
					return err
				}
				fmt.Println("order", id)
				if id == "3" {
					stop() // a service runs until a signal
				}
			}
			return nil // the batch is done; after an error it is delivered again
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
