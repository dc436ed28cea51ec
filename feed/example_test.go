package feed_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// A reader follows a container's feed by itself, without leases. Its position is
// a text: kept somewhere, it lets another reader go on, whatever was split or
// merged meanwhile.
func ExampleReader() {
	ctx := context.Background()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateDatabase(ctx, store.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	orders, err := db.CreateContainer(ctx, "shop", store.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
	if err != nil {
		log.Fatal(err)
	}
	write := func(order string) {
		if _, err := orders.Upsert(ctx, nil, []byte(order), store.WriteOptions{}); err != nil {
			log.Fatal(err)
		}
	}

	// read prints what comes behind a position, and returns the one at the end.
	read := func(position string) string {
		reader, err := feed.NewReader(db.Source(orders), feed.ReaderConfig{Start: feed.Beginning(), Position: position})
		if err != nil {
			log.Fatal(err)
		}
		for !reader.Drained() {
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
		}
		if position, err = reader.Position(ctx); err != nil {
			log.Fatal(err)
		}
		return position
	}

	write(`{"id":"1","customer":"ada"}`)
	write(`{"id":"2","customer":"bob"}`)
	position := read("")
	fmt.Println("the partition is split")
	if _, err := orders.Split(ctx, "0", ""); err != nil {
		log.Fatal(err)
	}
	write(`{"id":"1","customer":"ada","paid":true}`)
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

const week = 7 * 24 * time.Hour
