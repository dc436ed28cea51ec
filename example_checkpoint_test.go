package changefeed_test

import (
	"context"
	"fmt"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// With manual checkpoints the handler says which changes are done for good. What
// was handed out behind the last checkpoint comes again after a restart.
func ExampleBatch_Checkpoint() {
	background := context.Background()
	s := openShop(background, store.ContainerProperties{ID: "orders"})
	defer s.Close()
	s.write(background, "orders",
		`{"id":"1","customer":"ada"}`,
		`{"id":"2","customer":"ada"}`,
		`{"id":"3","customer":"ada"}`,
	)
	for round := 1; round <= 2; round++ {
		ctx, stop := context.WithCancel(background)
		run(ctx, changefeed.Config{
			Processor:  "billing",
			Source:     s.source("orders"),
			Leases:     s.leases(),
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
		stop()
	}
	// Output:
	// round 1: order 1
	// round 1: order 2
	// round 1: order 3
	// round 2: order 3
}
