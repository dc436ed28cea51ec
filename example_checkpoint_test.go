package changefeed_test

import (
	"context"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// With manual checkpoints the handler says which changes are done for good. What
// was handed out behind the last checkpoint comes again after a restart.
func ExampleBatch_Checkpoint() {
	background := context.Background()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateDatabase(background, store.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	container := func(p store.ContainerProperties) *store.Container {
		c, err := db.CreateContainer(background, "shop", p)
		if err != nil {
			log.Fatal(err)
		}
		return c
	}
	orders := container(store.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
	leases := container(store.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	write := func(c *store.Container, documents ...string) {
		for _, document := range documents {
			if _, err := c.Upsert(background, nil, []byte(document), store.WriteOptions{}); err != nil {
				log.Fatal(err)
			}
		}
	}
	write(orders,
		`{"id":"1","customer":"ada"}`,
		`{"id":"2","customer":"ada"}`,
		`{"id":"3","customer":"ada"}`,
	)
	for round := 1; round <= 2; round++ {
		ctx, stop := context.WithCancel(background)
		processor, err := changefeed.New(changefeed.Config{
			Processor:  "billing",
			Source:     db.Source(orders),
			Leases:     db.Leases(leases),
			Start:      feed.Beginning(),
			MaxItems:   1,
			Checkpoint: changefeed.Checkpointing{Manual: true},
			Handler: changefeed.HandlerFunc(func(ctx context.Context, b *changefeed.Batch) error {
				id, err := b.Changes[0].ID()
				if err != nil {
					return err
				}
				fmt.Printf("round %d: order %s\n", round, id)
				switch id {
				case "2": // orders 1 and 2 are billed together
					return b.Checkpoint(ctx)
				case "3":
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
		stop()
	}
	// Output:
	// round 1: order 1
	// round 1: order 2
	// round 1: order 3
	// round 2: order 3
}
