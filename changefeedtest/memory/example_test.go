package memory_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
)

// order is a document of the container.
type order struct {
	Customer string
	Total    int
}

// This example tests a handler that adds up the orders of each customer. A partition is
// split while the processor reads it, and no order is missing.
func Example() {
	orders := memory.NewSource(memory.Options{Container: "orders"})
	totals, handled := map[string]int{}, make(chan error)
	processor, err := changefeed.New(changefeed.Config{
		Processor: "totals", Source: orders, Leases: memory.NewLeases(nil), Start: feed.Beginning(),
		Handler: changefeed.Each(func(_ context.Context, c changefeed.Change[order]) error {
			totals[c.Current.Customer] += c.Current.Total
			handled <- nil
			return nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { handled <- errors.Join(errors.New("the processor has stopped"), processor.Run(ctx)) }()

	write := func(id, customer string, total int) {
		document := fmt.Sprintf(`{"id":%q,"customer":%q,"total":%d}`, id, customer, total)
		if err := orders.Upsert(feed.PartitionKey{customer}, document); err != nil {
			log.Fatal(err)
		}
		if err := <-handled; err != nil {
			log.Fatal(err)
		}
	}
	write("1", "ada", 12)
	children, err := orders.Split("0", "")
	if err != nil {
		log.Fatal(err)
	}
	write("2", "ada", 5)
	write("3", "bob", 30)
	stop()
	<-handled

	fmt.Println(len(children), "partitions:", totals)
	// Output: 2 partitions: map[ada:17 bob:30]
}
