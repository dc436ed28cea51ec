package estimator_test

import (
	"context"
	"fmt"
	"log"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// An estimator measures the lag of the processor "projector", which has handled two of
// ten changes.
func Example() {
	ctx := context.Background()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	container := func(p storetype.ContainerProperties) *store.Container {
		c, err := db.CreateContainer(ctx, "shop", p)
		if err != nil {
			log.Fatal(err)
		}
		return c
	}
	orders := container(storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/id"}})
	leases := container(storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	write := func(from, to int) {
		for i := from; i < to; i++ {
			if _, err := orders.Upsert(ctx, nil, fmt.Appendf(nil, `{"id":"%d"}`, i), storetype.WriteOptions{}); err != nil {
				log.Fatal(err)
			}
		}
	}

	write(0, 2)
	running, stop := context.WithCancel(ctx)
	projector, err := changefeed.New(changefeed.Config{
		Processor: "projector", Source: db.Source(orders), Leases: db.Leases(leases), Start: feed.Beginning(),
		Handler: changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error {
			stop()
			return nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := projector.Run(running); err != nil {
		log.Fatal(err)
	}
	write(2, 10)

	e, err := estimator.New(estimator.Config{Processor: "projector", Source: db.Source(orders), Leases: db.Leases(leases)})
	if err != nil {
		log.Fatal(err)
	}
	for lag, err := range e.Current(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("lease %s is %d transactions behind, at %s; its owner is %q\n", lag.LeaseToken, lag.LSNs, lag.Continuation, lag.Owner)
	}
	// Output: lease 0 is 8 transactions behind, at "2"; its owner is ""
}
