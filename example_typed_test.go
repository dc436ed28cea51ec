package changefeed_test

import (
	"context"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
)

// order is a document of the application.
type order struct {
	Customer string  `json:"customer"`
	Total    float64 `json:"total"`
}

// Each passes changes to the handler one by one, decoded into a type of the application.
func ExampleEach() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	orders := memory.NewSource(memory.Options{})
	for _, document := range []string{
		`{"id":"1","customer":"ada","total":12}`,
		`{"id":"2","customer":"ada","total":5}`,
	} {
		if err := orders.Upsert(feed.PartitionKey{"ada"}, document); err != nil {
			log.Fatal(err)
		}
	}
	processor, err := changefeed.New(changefeed.Config{
		Processor: "printer",
		Source:    orders,
		Leases:    memory.NewLeases(nil),
		Start:     feed.Beginning(),
		Handler: changefeed.Each(func(_ context.Context, c changefeed.Change[order]) error {
			fmt.Printf("order %s of %s: %.2f\n", c.ID, c.Current.Customer, c.Current.Total)
			if c.ID == "2" {
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
	// Output:
	// order 1 of ada: 12.00
	// order 2 of ada: 5.00
}

// Batches decodes a whole batch, for handlers that write many changes at a time. This one
// reads all versions and deletes: it also gets deletes and previous versions. That mode
// starts from now, so the writes come after the first lease is acquired.
func ExampleBatches() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	orders := memory.NewSource(memory.Options{})
	running := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-running // the start is resolved before the first lease is acquired
		ada := feed.PartitionKey{"ada"}
		for _, document := range []string{`{"id":"1","customer":"ada","total":12}`, `{"id":"1","customer":"ada","total":15}`} {
			if err := orders.Upsert(ada, document); err != nil {
				log.Fatal(err)
			}
		}
		if err := orders.Delete(ada, "1"); err != nil {
			log.Fatal(err)
		}
	}()
	processor, err := changefeed.New(changefeed.Config{
		Processor: "audit",
		Source:    orders,
		Leases:    memory.NewLeases(nil),
		Mode:      feed.AllVersionsAndDeletes,
		Notify: func(n changefeed.Notification) {
			if n.Event == changefeed.Acquired {
				close(running)
			}
		},
		Handler: changefeed.Batches(func(_ context.Context, changes []changefeed.Change[order], _ *changefeed.Batch) error {
			for _, c := range changes {
				switch c.Op {
				case feed.Create:
					fmt.Println("created at", c.Current.Total)
				case feed.Replace:
					fmt.Println("changed from", c.Previous.Total, "to", c.Current.Total)
				case feed.Delete:
					fmt.Println("deleted", c.ID)
					stop()
				case feed.Upsert: // of latest version mode
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
	<-done
	// Output:
	// created at 12
	// changed from 12 to 15
	// deleted 1
}
