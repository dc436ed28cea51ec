package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// A change that the handler cannot process would be delivered again and again, and would
// hold up the changes after it. This handler writes such a change to a second container,
// together with the reason, and continues. If that write fails, the handler returns its
// error. The batch is then delivered again, so no change is lost.
func Example_deadLetters() {
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
	orders := container(storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
	deadLetters := container(storetype.ContainerProperties{ID: "dead-letters", KeyPaths: []string{"/customer"}})
	leases := container(storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	write := func(c *store.Container, documents ...string) {
		for _, document := range documents {
			if _, err := c.Upsert(ctx, nil, []byte(document), storetype.WriteOptions{}); err != nil {
				log.Fatal(err)
			}
		}
	}
	write(orders,
		`{"id":"1","customer":"ada","total":12}`,
		`{"id":"2","customer":"bob","total":"a lot"}`,
		`{"id":"3","customer":"eve","total":-7}`,
		`{"id":"4","customer":"ada","total":30}`,
	)

	ship := func(order json.RawMessage) error {
		var o struct{ Total float64 }
		if err := json.Unmarshal(order, &o); err != nil {
			return err
		}
		if o.Total < 0 {
			return errors.New("negative total")
		}
		return nil
	}
	processor, err := changefeed.New(changefeed.Config{
		Processor: "shipping",
		Source:    db.Source(orders),
		Leases:    db.Leases(leases),
		Start:     feed.Beginning(),
		Handler: changefeed.HandlerFunc(func(ctx context.Context, b *changefeed.Batch) error {
			for _, change := range b.Changes {
				id, err := change.ID()
				if err != nil {
					return err
				}
				if err := ship(change.Current); err != nil {
					var order struct{ Customer string }
					_ = json.Unmarshal(change.Current, &order) // if there is no customer, the key is empty
					letter, err := json.Marshal(map[string]any{
						"id": id, "customer": order.Customer, "lsn": change.LSN, "reason": err.Error(), "order": change.Current,
					})
					if err != nil {
						return err
					}
					if _, err := deadLetters.Upsert(ctx, nil, letter, storetype.WriteOptions{}); err != nil {
						return err
					}
				} else {
					fmt.Println("shipped", id)
				}
				if id == "4" {
					stop()
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

	letters, err := deadLetters.Items(context.Background(), storetype.ItemsRequest{})
	if err != nil {
		log.Fatal(err)
	}
	for _, letter := range letters.Items {
		var l struct {
			ID, Reason string
		}
		if err := json.Unmarshal(letter.Body, &l); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("dead letter %s: %s\n", l.ID, l.Reason)
	}
	// Unordered output:
	// shipped 1
	// shipped 4
	// dead letter 2: json: cannot unmarshal string into Go struct field .Total of type float64
	// dead letter 3: negative total
}
