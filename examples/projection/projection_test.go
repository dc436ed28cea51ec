package projection_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/examples/projection"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

// The totals must be right although the only partition splits and the service throttles
// reads meanwhile. The test runs the handler over the protocol of Azure Cosmos DB, in
// fake time. So it does not wait for the processor's intervals.
func TestTotalsAreRightThroughASplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := changefeedtest.NewServer(t)
		orders := changefeedtest.NewContainer(t, s.DB, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
		changefeedtest.NewContainer(t, s.DB, "shop", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
		write := func(from, to int) {
			for i := from; i < to; i++ {
				doc := fmt.Appendf(nil, `{"id":"%d","customer":"c%d","total":10}`, i, i%5)
				if _, err := orders.Upsert(t.Context(), nil, doc, storetype.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		var o cosmos.Options
		o.Transport = s.Client()
		account, err := cosmos.WithKey(s.Endpoint, s.Key, o)
		if err != nil {
			t.Fatal(err)
		}
		totals := projection.New()
		processor, err := changefeed.New(changefeed.Config{
			Processor: "totals",
			Source:    account.Source("shop", "orders", cosmos.SourceOptions{}),
			Leases:    account.Leases("shop", "leases", cosmos.LeaseOptions{}),
			Start:     feed.Beginning(),
			Handler:   totals,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- processor.Run(ctx) }()

		write(0, 50)
		time.Sleep(10 * time.Second)
		s.Fail(server.Fault{Operation: "read change feed", Status: 429, RetryAfter: time.Second, Count: 3})
		if children := s.Split("shop", "orders", "0"); len(children) != 2 {
			t.Fatalf("%d children", len(children))
		}
		write(50, 100)
		time.Sleep(2 * time.Minute)
		for i := range 5 {
			if got := totals.Of(fmt.Sprintf("c%d", i)); got != 200 {
				t.Errorf("customer c%d ordered for %d, not 200", i, got)
			}
		}
		if err := processor.Healthy(); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The totals must be right in every run of the simulation, with crashes, lost answers,
// splits, merges and wrong clocks. Each seed is another run, and the same seed repeats
// its run.
func TestTotalsAreRightInTheSimulation(t *testing.T) {
	for seed := range uint64(10) {
		totals, want := projection.New(), map[string]map[string]int{}
		changefeedtest.Simulate(t, changefeedtest.Simulation{
			Seed:    seed,
			Handler: func(string) changefeed.Handler { return totals },
			Document: func(n int) (feed.PartitionKey, map[string]any) {
				customer, id := fmt.Sprint("c", n%7), fmt.Sprint(n%50)
				if want[customer] == nil {
					want[customer] = map[string]int{}
				}
				want[customer][id] = n
				return feed.PartitionKey{customer}, map[string]any{"id": id, "pk": customer, "customer": customer, "total": n}
			},
		})
		for customer, orders := range want {
			sum := 0
			for _, total := range orders {
				sum += total
			}
			if got := totals.Of(customer); got != sum {
				t.Errorf("seed %d: %s ordered for %d, not %d", seed, customer, got, sum)
			}
		}
	}
}
