package changefeed_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// order is a document as the application knows it.
type order struct {
	Customer string  `json:"customer"`
	Total    float64 `json:"total"`
}

// Each decodes every change into a type of the application's.
func ExampleEach() {
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
	write := func(c *store.Container, documents ...string) {
		for _, document := range documents {
			if _, err := c.Upsert(ctx, nil, []byte(document), store.WriteOptions{}); err != nil {
				log.Fatal(err)
			}
		}
	}
	write(orders,
		`{"id":"1","customer":"ada","total":12}`,
		`{"id":"2","customer":"bob","total":5}`,
	)
	processor, err := changefeed.New(changefeed.Config{
		Processor: "printer",
		Source:    db.Source(orders),
		Leases:    db.Leases(leases),
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
	// order 2 of bob: 5.00
}

// Batches decodes a whole batch, for handlers that write many at a time. Here
// it also sees deletes and what was there before: the container keeps all
// versions. That mode starts from now, so the writes come after the first look.
func ExampleBatches() {
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
	orders := container(store.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}, Retention: retention})
	leases := container(store.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	write := func(c *store.Container, documents ...string) {
		for _, document := range documents {
			if _, err := c.Upsert(ctx, nil, []byte(document), store.WriteOptions{}); err != nil {
				log.Fatal(err)
			}
		}
	}
	running := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-running // now is settled when the first lease is acquired
		write(orders, `{"id":"1","customer":"ada","total":12}`, `{"id":"1","customer":"ada","total":15}`)
		if _, err := orders.Delete(ctx, feed.PartitionKey{"ada"}, "1", store.WriteOptions{}); err != nil {
			log.Fatal(err)
		}
	}()
	processor, err := changefeed.New(changefeed.Config{
		Processor: "audit",
		Source:    db.Source(orders),
		Leases:    db.Leases(leases),
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

// retention is for how long the container keeps its versions.
const retention = time.Hour
