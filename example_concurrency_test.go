package changefeed_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
)

// Mail goes out to four customers at a time, but each customer gets the mails in order.
func ExampleConfig_concurrency() {
	orders := memory.NewSource(memory.Options{KeyPaths: []string{"/customer"}})
	for i := range 6 {
		customer := []string{"ada", "bob", "eve"}[i%3]
		doc := fmt.Sprintf(`{"id":"%d","customer":%q}`, i, customer)
		if err := orders.Upsert(feed.PartitionKey{customer}, doc); err != nil {
			fmt.Println(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var sent atomic.Int32
	p, err := changefeed.New(changefeed.Config{
		Processor: "mailer", Source: orders, Leases: memory.NewLeases(nil), Start: feed.Beginning(),
		Concurrency: 4,
		Handler: changefeed.HandlerFunc(func(_ context.Context, b *changefeed.Batch) error {
			// All changes of the batch are of one customer. Here the mails would be sent.
			if sent.Add(int32(len(b.Changes))) == 6 {
				stop()
			}
			return nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Run(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sent.Load(), "mails")
	// Output: 6 mails
}
