package feed_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
)

// A reader reads a container's feed without leases. Its position is a text. Another
// reader resumes from it, also after splits and merges.
func ExampleReader() {
	ctx := context.Background()
	orders := memory.NewSource(memory.Options{})

	// read prints the changes after a position and returns the last position.
	read := func(position string) string {
		reader, err := feed.NewReader(orders, feed.ReaderConfig{Start: feed.Beginning(), Position: position})
		if err != nil {
			log.Fatal(err)
		}
		for page, err := range reader.Pages(ctx) {
			if err != nil {
				log.Fatal(err)
			}
			for _, change := range page.Changes {
				id, err := change.ID()
				if err != nil {
					log.Fatal(err)
				}
				fmt.Println(change.Op, id)
			}
		}
		if position, err = reader.Position(ctx); err != nil {
			log.Fatal(err)
		}
		return position
	}

	write(orders, "ada", `{"id":"1"}`)
	write(orders, "bob", `{"id":"2"}`)
	position := read("")
	fmt.Println("the partition is split")
	if _, err := orders.Split("0", ""); err != nil {
		log.Fatal(err)
	}
	write(orders, "ada", `{"id":"1","paid":true}`)
	read(position)
	// Output:
	// upsert 1
	// upsert 2
	// the partition is split
	// upsert 1
}

// All versions and deletes mode returns every version of an item, and its delete. The
// mode starts from now or from a position.
func ExampleReader_allVersionsAndDeletes() {
	ctx := context.Background()
	orders := memory.NewSource(memory.Options{})
	reader, err := feed.NewReader(orders, feed.ReaderConfig{Mode: feed.AllVersionsAndDeletes})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := reader.Position(ctx); err != nil { // resolves now
		log.Fatal(err)
	}

	ada := feed.PartitionKey{"ada"}
	write(orders, "ada", `{"id":"1","n":1}`)
	write(orders, "ada", `{"id":"1","n":2}`)
	if err := orders.Delete(ada, "1"); err != nil {
		log.Fatal(err)
	}

	page, _, err := reader.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, change := range page.Changes {
		id, err := change.ID()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(change.Op, id)
	}
	// Output:
	// create 1
	// replace 1
	// delete 1
}

// Several workers share a container. Each reads a part of the keys at its own speed and
// keeps a position of its own.
func ExampleSplitRange() {
	ctx := context.Background()
	orders := memory.NewSource(memory.Options{})
	for i := range 1000 {
		write(orders, fmt.Sprintf("customer %d", i%250), fmt.Sprintf(`{"id":"%d"}`, i))
	}

	parts, err := feed.SplitRange(ctx, orders, feed.Range{}, 4)
	if err != nil {
		log.Fatal(err)
	}
	var (
		workers sync.WaitGroup
		total   atomic.Int64
	)
	for _, part := range parts {
		workers.Go(func() {
			reader, err := feed.NewReader(orders, feed.ReaderConfig{Range: part, Start: feed.Beginning()})
			if err != nil {
				log.Fatal(err)
			}
			for page, err := range reader.Pages(ctx) {
				if err != nil {
					log.Fatal(err)
				}
				total.Add(int64(len(page.Changes)))
			}
		})
	}
	workers.Wait()
	fmt.Println(len(parts), "workers read", total.Load(), "changes")
	// Output: 4 workers read 1000 changes
}

// A reader with Follow waits for new changes without end, here those of one customer.
func ExampleReader_Pages() {
	ctx := context.Background()
	orders := memory.NewSource(memory.Options{})
	reader, err := feed.NewReader(orders, feed.ReaderConfig{
		Key:    feed.PartitionKey{"ada"},
		Start:  feed.Beginning(),
		Follow: true,
	})
	if err != nil {
		log.Fatal(err)
	}

	write(orders, "ada", `{"id":"1"}`)
	write(orders, "bob", `{"id":"2"}`)
	for page, err := range reader.Pages(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		for _, change := range page.Changes {
			id, err := change.ID()
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(id)
			if id == "3" {
				return
			}
		}
		if len(page.Changes) > 0 { // meanwhile
			go write(orders, "ada", `{"id":"3"}`)
		}
	}
	// Output:
	// 1
	// 3
}

func write(orders *memory.Source, customer, order string) {
	if err := orders.Upsert(feed.PartitionKey{customer}, order); err != nil {
		log.Fatal(err)
	}
}
