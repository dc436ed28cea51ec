package cosmos_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
)

// A processor reads a container of an account and keeps its leases in another one. With
// `changefeed serve` only the endpoint and the key differ. The example has no output,
// because it needs an account.
func Example() {
	ctx := context.Background()
	account, err := cosmos.WithKey(os.Getenv("COSMOS_ENDPOINT"), os.Getenv("COSMOS_KEY"), cosmos.Options{})
	if err != nil {
		log.Fatal(err)
	}
	processor, err := changefeed.New(changefeed.Config{
		Processor: "printer",
		Source:    account.Source("shop", "orders", cosmos.SourceOptions{}),
		Leases:    account.Leases("shop", "leases", cosmos.LeaseOptions{Create: true}),
		Start:     feed.Beginning(),
		Handler: changefeed.HandlerFunc(func(_ context.Context, b *changefeed.Batch) error {
			for _, change := range b.Changes {
				id, err := change.ID()
				if err != nil {
					return err
				}
				fmt.Println("order", id)
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
}

// A source returns one page per read. The page's continuation is the position of the next
// read. The example has no output, because it needs an account.
func ExampleSource() {
	ctx := context.Background()
	account, err := cosmos.WithConnectionString(os.Getenv("COSMOS_CONNECTION_STRING"), cosmos.Options{})
	if err != nil {
		log.Fatal(err)
	}
	orders := account.Source("shop", "orders", cosmos.SourceOptions{})
	page, err := orders.Read(ctx, feed.Request{Key: feed.PartitionKey{"ada"}, From: feed.Beginning()})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(page.Changes), "orders of ada; the next read starts after", page.Continuation)
}

// A budget limits the request units that the processor spends, so that the application's
// share remains. Here the feed of one account and the leases in another one spend at most
// 400 RU/s together. The example has no output, because it needs two accounts.
func ExampleNewBudget() {
	budget := cosmos.NewBudget(400)
	monitored, err := cosmos.WithKey(os.Getenv("COSMOS_ENDPOINT"), os.Getenv("COSMOS_KEY"), cosmos.Options{Budget: budget})
	if err != nil {
		log.Fatal(err)
	}
	other, err := cosmos.WithKey(os.Getenv("LEASES_ENDPOINT"), os.Getenv("LEASES_KEY"), cosmos.Options{Budget: budget})
	if err != nil {
		log.Fatal(err)
	}
	processor, err := changefeed.New(changefeed.Config{
		Processor: "printer",
		Source:    monitored.Source("shop", "orders", cosmos.SourceOptions{}),
		Leases:    other.Leases("shop", "leases", cosmos.LeaseOptions{Create: true}),
		Handler:   changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error { return nil }),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := processor.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("spent on reads:", budget.Usage().FeedRU)
}
