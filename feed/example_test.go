package feed_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// A reader follows a container's feed by itself, without leases. Its position is
// a text: kept somewhere, it lets another reader go on, whatever was split or
// merged meanwhile.
func ExampleReader() {
	ctx := context.Background()
	db, orders := shop()
	defer db.Close()

	// read prints what comes behind a position, and returns the one at the end.
	read := func(position string) string {
		reader, err := feed.NewReader(db.Source(orders), feed.ReaderConfig{Start: feed.Beginning(), Position: position})
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

	write(orders, `{"id":"1","customer":"ada"}`)
	write(orders, `{"id":"2","customer":"bob"}`)
	position := read("")
	fmt.Println("the partition is split")
	if _, err := orders.Split(ctx, "0", ""); err != nil {
		log.Fatal(err)
	}
	write(orders, `{"id":"1","customer":"ada","paid":true}`)
	read(position)
	// Output:
	// upsert 1
	// upsert 2
	// the partition is split
	// upsert 1
}

// In all versions and deletes mode every version of an item is shown, and its
// delete. The mode starts from now, or from a position.
func ExampleReader_allVersionsAndDeletes() {
	ctx := context.Background()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateDatabase(ctx, store.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	orders, err := db.CreateContainer(ctx, "shop", store.ContainerProperties{
		ID: "orders", KeyPaths: []string{"/customer"}, Retention: week,
	})
	if err != nil {
		log.Fatal(err)
	}
	reader, err := feed.NewReader(db.Source(orders), feed.ReaderConfig{Mode: feed.AllVersionsAndDeletes})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := reader.Position(ctx); err != nil { // now is found here
		log.Fatal(err)
	}

	ada := feed.PartitionKey{"ada"}
	for _, order := range []string{`{"id":"1","customer":"ada","n":1}`, `{"id":"1","customer":"ada","n":2}`} {
		if _, err := orders.Upsert(ctx, ada, []byte(order), store.WriteOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := orders.Delete(ctx, ada, "1", store.WriteOptions{}); err != nil {
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

// Several workers share a container: each reads a part of the keys, at its own
// speed, and keeps a position of its own.
func ExampleSplitRange() {
	ctx := context.Background()
	db, orders := shop()
	defer db.Close()
	for i := range 1000 {
		write(orders, fmt.Sprintf(`{"id":"%d","customer":"customer %d"}`, i, i%250))
	}

	source := db.Source(orders)
	parts, err := feed.SplitRange(ctx, source, feed.Range{}, 4)
	if err != nil {
		log.Fatal(err)
	}
	var (
		workers sync.WaitGroup
		total   atomic.Int64
	)
	for _, part := range parts {
		workers.Go(func() {
			reader, err := feed.NewReader(source, feed.ReaderConfig{Range: part, Start: feed.Beginning()})
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

// A loop that follows waits for changes for ever; here for those of one customer.
func ExampleReader_Pages() {
	ctx := context.Background()
	db, orders := shop()
	defer db.Close()
	reader, err := feed.NewReader(db.Source(orders), feed.ReaderConfig{
		Key:    feed.PartitionKey{"ada"},
		Start:  feed.Beginning(),
		Follow: true,
	})
	if err != nil {
		log.Fatal(err)
	}

	write(orders, `{"id":"1","customer":"ada"}`)
	write(orders, `{"id":"2","customer":"bob"}`)
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
			go write(orders, `{"id":"3","customer":"ada"}`)
		}
	}
	// Output:
	// 1
	// 3
}

// shop makes a store with a container of orders, keyed by customer.
func shop() (*store.DB, *store.Container) {
	ctx := context.Background()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.CreateDatabase(ctx, store.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	orders, err := db.CreateContainer(ctx, "shop", store.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
	if err != nil {
		log.Fatal(err)
	}
	return db, orders
}

func write(c *store.Container, order string) {
	if _, err := c.Upsert(context.Background(), nil, []byte(order), store.WriteOptions{}); err != nil {
		log.Fatal(err)
	}
}

const week = 7 * 24 * time.Hour
