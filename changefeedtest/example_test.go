package changefeedtest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

// This example splits a partition while a processor reads it, on a store in memory.
func ExampleNewStore() {
	// In a test, t is the test's own.
	run(func(t *testing.T) {
		db := changefeedtest.NewStore(t)
		orders := changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
		leases := changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
		got := make(chan string)
		p, err := changefeed.New(changefeed.Config{
			Processor: "test", Source: db.Source(orders), Leases: db.Leases(leases), Start: feed.Beginning(),
			Handler: changefeed.Each(func(_ context.Context, c changefeed.Change[order]) error {
				got <- c.Current.ID
				return nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()

		for i, document := range []string{`{"id":"1","customer":"ada"}`, `{"id":"2","customer":"bob"}`} {
			if i == 1 {
				if _, err := orders.Split(ctx, "0", ""); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := orders.Upsert(ctx, nil, []byte(document), storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			fmt.Println("order", <-got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	// Output:
	// order 1
	// order 2
}

// order is a document of the container.
type order struct {
	ID    string
	Total int
}

// totals is a handler under test. It keeps the latest total of each order. It ignores a
// version of an order that is older than the version it has.
type totals struct {
	mu     sync.Mutex // guards both maps
	totals map[string]int
	lsns   map[string]int64
}

func (h *totals) handle(_ context.Context, c changefeed.Change[order]) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id := c.Current.ID; c.LSN > h.lsns[id] {
		h.totals[id], h.lsns[id] = c.Current.Total, c.LSN
	}
	return nil
}

// This example tests a handler with ten seeds of crashes, splits and lost answers. At the
// end the handler must have the last total of each order.
func ExampleSimulate() {
	// In a test, t is the test's own.
	passed := run(func(t *testing.T) {
		for seed := range uint64(10) {
			h := &totals{totals: map[string]int{}, lsns: map[string]int64{}}
			written := map[string]int{}
			changefeedtest.Simulate(t, changefeedtest.Simulation{
				Seed:    seed,
				Handler: func(host string) changefeed.Handler { return changefeed.Each(h.handle) },
				Document: func(n int) (feed.PartitionKey, map[string]any) {
					id, customer := fmt.Sprint("order-", n%50), fmt.Sprint("customer-", n%5)
					written[id] = n
					return feed.PartitionKey{customer}, map[string]any{"id": id, "pk": customer, "total": n}
				},
			})
			if !maps.Equal(h.totals, written) {
				t.Errorf("seed %d: the totals are %v; want %v", seed, h.totals, written)
			}
		}
	})
	fmt.Println("passed:", passed)
	// Output: passed: true
}

// orderIDs is the code under test. It returns the ids of a customer's orders.
func orderIDs(ctx context.Context, c *azcosmos.ContainerClient, customer string) (ids []string, err error) {
	pager := c.NewQueryItemsPager("SELECT VALUE c.id FROM c", azcosmos.NewPartitionKeyString(customer), nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("orders of %s: %w", customer, err)
		}
		for _, id := range page.Items {
			ids = append(ids, string(id))
		}
	}
	return ids, nil
}

// This example tests code that uses azcosmos, in fake time. The server is healthy at
// first, then throttled, and then unreachable.
func ExampleNewServer() {
	// In a test, t is the test's own.
	run(func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := changefeedtest.NewServer(t)
			key, _ := azcosmos.NewKeyCredential(s.Key)
			client, err := azcosmos.NewClientWithKey(s.Endpoint, key, &azcosmos.ClientOptions{
				ClientOptions: azcore.ClientOptions{Transport: s.Client()},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			_, err = client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "shop"}, nil)
			db, _ := client.NewDatabase("shop")
			_, err2 := db.CreateContainer(ctx, azcosmos.ContainerProperties{
				ID: "orders", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/customer"}},
			}, nil)
			orders, _ := db.NewContainer("orders")
			_, err3 := orders.CreateItem(ctx, azcosmos.NewPartitionKeyString("ada"), []byte(`{"id":"7","customer":"ada"}`), nil)
			if err := errors.Join(err, err2, err3); err != nil {
				t.Fatal(err)
			}

			fmt.Println(orderIDs(ctx, orders, "ada"))

			s.Split("shop", "orders", "0")
			s.Fail(server.Fault{Operation: "query documents", Count: 2, Status: http.StatusTooManyRequests, RetryAfter: time.Second})
			began := time.Now()
			ids, err := orderIDs(ctx, orders, "ada")
			fmt.Println(ids, err, "throttled for at least 2 s:", time.Since(began) >= 2*time.Second)

			s.Fail(server.Fault{Drop: true})
			_, err = orderIDs(ctx, orders, "ada")
			fmt.Println("not to be reached:", err != nil)
		})
	})
	// Output:
	// ["7"] <nil>
	// ["7"] <nil> throttled for at least 2 s: true
	// not to be reached: true
}

// run runs a test once, without output, and reports whether it passed. It sets the flags
// of `go test` that would change this.
func run(test func(*testing.T)) bool {
	for name, plain := range map[string]string{"test.v": "false", "test.skip": ""} {
		asked := flag.Lookup(name).Value.String()
		_ = flag.Set(name, plain) // both flags exist and accept these values, so Set cannot fail
		defer func() { _ = flag.Set(name, asked) }()
	}
	var once sync.Once
	return testing.RunTests(
		func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "orders", F: func(t *testing.T) { once.Do(func() { test(t) }) }}},
	)
}
