package cosmos_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
)

// A processor over the protocol of Azure Cosmos DB: against an account in Azure it differs by the endpoint and the key alone.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	endpoint, key, end := serve(ctx) // `changefeed serve`, in the process
	defer end()

	account, err := cosmos.WithKey(endpoint, key, cosmos.Options{})
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
				if id == "3" {
					stop()
				}
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
	// Output:
	// order 1
	// order 2
	// order 3
}

// One page after another, without leases: whoever keeps the position goes on from it later.
func ExampleSource() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	endpoint, key, end := serve(ctx)
	defer end()

	account, err := cosmos.WithConnectionString("AccountEndpoint="+endpoint+";AccountKey="+key+";", cosmos.Options{})
	if err != nil {
		log.Fatal(err)
	}
	orders := account.Source("shop", "orders", cosmos.SourceOptions{})
	page, err := orders.Read(ctx, feed.Request{Key: feed.PartitionKey{"ada"}, From: feed.Beginning()})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(page.Changes), "orders of ada; the next read goes on from", page.Continuation)
	// Output:
	// 2 orders of ada; the next read goes on from "3"
}

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

// serve is a server over a store in memory, with three orders.
func serve(ctx context.Context) (endpoint, key string, end func()) {
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
	for _, order := range []string{`{"id":"1","customer":"ada"}`, `{"id":"2","customer":"bob"}`, `{"id":"3","customer":"ada"}`} {
		if _, err := orders.Upsert(ctx, nil, []byte(order), store.WriteOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	key = base64.StdEncoding.EncodeToString([]byte("examples"))
	h, err := server.New(db, server.Options{Keys: []string{key}})
	if err != nil {
		log.Fatal(err)
	}
	s := httptest.NewServer(h)
	return s.URL, key, func() {
		h.Drain()
		s.CloseClientConnections()
		s.Close()
		if err := db.Close(); err != nil {
			log.Fatal(err)
		}
	}
}
