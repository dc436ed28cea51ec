package cosmos_test

import (
	"context"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
)

// A budget keeps the processor from using up what the application needs: here the feed of one account and the leases in another
// spend 400 RU/s together at most.
func ExampleNewBudget() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	endpoint, key, end := serve(ctx)
	defer end()
	leaseEndpoint, leaseKey, leaseEnd := serve(ctx)
	defer leaseEnd()

	budget := cosmos.NewBudget(400)
	monitored, err := cosmos.WithKey(endpoint, key, cosmos.Options{Budget: budget})
	if err != nil {
		log.Fatal(err)
	}
	other, err := cosmos.WithKey(leaseEndpoint, leaseKey, cosmos.Options{Budget: budget})
	if err != nil {
		log.Fatal(err)
	}
	source := monitored.Source("shop", "orders", cosmos.SourceOptions{})        // Config.Source
	leases := other.Leases("shop", "leases", cosmos.LeaseOptions{Create: true}) // Config.Leases

	if _, err := source.Read(ctx, feed.Request{Key: feed.PartitionKey{"ada"}, From: feed.Beginning()}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the read was counted:", budget.Usage().FeedRU > 0, "- leases are in", leases.Dialect())
	// Output:
	// the read was counted: true - leases are in .NET's dialect
}
