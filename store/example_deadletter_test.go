package store_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// A change that the handler cannot process would be delivered again and again. Here it is given up
// after two attempts and kept as a dead letter, and so is an order that cannot be decoded.
func Example_deadLetters() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	container := func(id, keyPath string) *store.Container {
		c, err := db.CreateContainer(ctx, "shop", storetype.ContainerProperties{ID: id, KeyPaths: []string{keyPath}})
		if err != nil {
			log.Fatal(err)
		}
		return c
	}
	orders, leases := container("orders", "/customer"), container("leases", "/id")
	dead := db.Letters(container("letters", letters.KeyPath))
	for _, order := range []string{
		`{"id":"1","customer":"ada","total":12}`,
		`{"id":"2","customer":"bob","total":"a lot"}`,
		`{"id":"3","customer":"eve","total":-7}`,
		`{"id":"4","customer":"eve","total":30}`,
	} {
		if _, err := orders.Upsert(ctx, nil, []byte(order), storetype.WriteOptions{}); err != nil {
			log.Fatal(err)
		}
	}

	processor, err := changefeed.New(changefeed.Config{
		Processor: "shipping",
		Source:    db.Source(orders),
		Leases:    db.Leases(leases),
		Start:     feed.Beginning(),
		Failure:   changefeed.Failure{Attempts: 2, Delay: 1, Letters: dead, Park: changefeed.ParkNone},
		Handler: changefeed.Each(func(_ context.Context, c changefeed.Change[struct{ Total float64 }]) error {
			if c.Current.Total < 0 {
				return errors.New("negative total")
			}
			fmt.Println("shipped", c.ID)
			if c.ID == "4" {
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

	all, err := dead.Open(context.Background(), letters.Key{})
	if err != nil {
		log.Fatal(err)
	}
	for l, err := range all.Read(context.Background(), letters.Query{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("order %s after %d attempts\n", l.ItemID, l.Attempts)
	}
	// Unordered output:
	// shipped 1
	// order 2 after 1 attempts
	// order 3 after 2 attempts
	// shipped 4
}
