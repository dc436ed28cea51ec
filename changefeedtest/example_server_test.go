package changefeedtest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/server"
)

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

// This example tests code over azcosmos in fake time: with a healthy server, with a
// throttled one, and with one that is unreachable.
func ExampleNewServer() {
	// A test has its t already.
	run(func(t *testing.T) {
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
	// Output:
	// ["7"] <nil>
	// ["7"] <nil> throttled for at least 2 s: true
	// not to be reached: true
}

// run runs a test in a bubble of fake time, once and without output, whatever the flags
// of `go test` are.
func run(f func(*testing.T)) {
	for name, plain := range map[string]string{"test.v": "false", "test.skip": ""} {
		asked := flag.Lookup(name).Value.String()
		_ = flag.Set(name, plain) // both flags accept these values
		defer func() { _ = flag.Set(name, asked) }()
	}
	var once sync.Once
	testing.RunTests(
		func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "orders", F: func(t *testing.T) { once.Do(func() { synctest.Test(t, f) }) }}},
	)
}
