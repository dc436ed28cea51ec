package changefeed_test

import (
	"context"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
)

// With manual checkpoints the handler decides which changes are done. Changes after the
// last checkpoint are delivered again after a restart.
func ExampleBatch_Checkpoint() {
	ada := feed.PartitionKey{"ada"}
	orders, leases := memory.NewSource(memory.Options{}), memory.NewLeases(nil)
	for _, order := range []string{`{"id":"1"}`, `{"id":"2"}`, `{"id":"3"}`} {
		if err := orders.Upsert(ada, order); err != nil {
			log.Fatal(err)
		}
	}
	for run := 1; run <= 2; run++ {
		ctx, stop := context.WithCancel(context.Background())
		processor, err := changefeed.New(changefeed.Config{
			Processor:  "billing",
			Source:     orders,
			Leases:     leases,
			Start:      feed.Beginning(),
			MaxItems:   1,
			Checkpoint: changefeed.Checkpointing{Manual: true},
			Handler: changefeed.HandlerFunc(func(ctx context.Context, b *changefeed.Batch) error {
				id, err := b.Changes[0].ID()
				if err != nil {
					return err
				}
				fmt.Printf("run %d: order %s\n", run, id)
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
	// run 1: order 1
	// run 1: order 2
	// run 1: order 3
	// run 2: order 3
}
