package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// Create, replace and read an item. Documents are JSON objects with an id. The key paths
// of a container select the logical partition key.
func Example() {
	ctx := context.Background()
	db, err := store.OpenMemory(store.Options{}) // or store.Open("directory", ...)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	orders, err := db.CreateContainer(ctx, "shop", storetype.ContainerProperties{
		ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 4,
	})
	if err != nil {
		log.Fatal(err)
	}

	// If key is nil, it is read from the document. Otherwise the two must agree.
	ada := feed.PartitionKey{"ada"}
	created, err := orders.Create(ctx, nil, []byte(`{"id":"1","customer":"ada","total":12}`), storetype.WriteOptions{})
	if err != nil {
		log.Fatal(err)
	}

	// The condition IfMatch refuses the write if the item has changed since it was read.
	changed := []byte(`{"id":"1","customer":"ada","total":15}`)
	if _, err := orders.Replace(ctx, ada, "1", changed, storetype.WriteOptions{IfMatch: created.ETag}); err != nil {
		log.Fatal(err)
	}
	_, err = orders.Replace(ctx, ada, "1", changed, storetype.WriteOptions{IfMatch: created.ETag})
	fmt.Println("the old version is refused:", errors.Is(err, storetype.ErrPreconditionFailed))

	read, err := orders.Read(ctx, ada, "1", storetype.ReadOptions{})
	if err != nil {
		log.Fatal(err)
	}
	var order struct{ Total float64 }
	if err := json.Unmarshal(read.Body, &order); err != nil {
		log.Fatal(err)
	}
	fmt.Println("total:", order.Total)
	// Output:
	// the old version is refused: true
	// total: 15
}

// Batch writes several items of one logical partition, either all or none. An operation
// may be a function of the old document.
func ExampleContainer_Batch() {
	ctx := context.Background()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	stock, err := db.CreateContainer(ctx, "shop", storetype.ContainerProperties{ID: "stock", KeyPaths: []string{"/shelf"}})
	if err != nil {
		log.Fatal(err)
	}
	shelf := feed.PartitionKey{"A"}
	if _, err := stock.Create(ctx, shelf, []byte(`{"id":"lamp","shelf":"A","count":3}`), storetype.WriteOptions{}); err != nil {
		log.Fatal(err)
	}

	take := func(n int) error {
		_, err := stock.Batch(ctx, shelf, []storetype.Operation{
			{Kind: storetype.OpUpsert, Body: fmt.Appendf(nil, `{"id":"order","shelf":"A","lamps":%d}`, n)},
			{Kind: storetype.OpChange, ID: "lamp", Change: func(old []byte) ([]byte, error) {
				var item struct {
					ID    string `json:"id"`
					Shelf string `json:"shelf"`
					Count int    `json:"count"`
				}
				if err := json.Unmarshal(old, &item); err != nil {
					return nil, err
				}
				if item.Count < n {
					return nil, errors.New("not enough lamps")
				}
				item.Count -= n
				return json.Marshal(item)
			}},
		})
		return err
	}
	fmt.Println("two lamps:", take(2))
	fmt.Println("two more:", take(2))
	// Output:
	// two lamps: <nil>
	// two more: operation 1 of the batch: not enough lamps
}

// Feed returns one page of the changes of a whole container with any number of
// partitions. The example also filters the container's items with VisitItems, which
// copies nothing.
func ExampleContainer_Feed() {
	ctx := context.Background()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	orders, err := db.CreateContainer(ctx, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 3})
	if err != nil {
		log.Fatal(err)
	}
	for n, customer := range []string{"ada", "bob", "cyd"} {
		if _, err := orders.Upsert(ctx, nil, fmt.Appendf(nil, `{"id":"%d","customer":%q}`, n, customer), storetype.WriteOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	page, err := orders.Feed(ctx, feed.Request{From: feed.Beginning(), MaxItems: 2})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(page.Changes), "changes")

	if _, err := orders.Split(ctx, "1", ""); err != nil {
		log.Fatal(err)
	}
	page, err = orders.Feed(ctx, feed.Request{From: feed.After(page.Continuation)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(page.Changes), "change")

	bobs := 0
	_, err = orders.VisitItems(ctx, storetype.ItemsRequest{}, func(body []byte) (bool, error) {
		if bytes.Contains(body, []byte(`"customer":"bob"`)) {
			bobs++
		}
		return true, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("orders of bob:", bobs)
	// Output:
	// 2 changes
	// 1 change
	// orders of bob: 1
}
