package changefeed_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
)

// A service serves the handler on a port of its own. Kubernetes then probes /alive, and
// restarts the container if that fails, and /ready, which holds up a rolling update.
func ExampleHealthHandler() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	orders := memory.NewSource(memory.Options{})
	if err := orders.Upsert(feed.PartitionKey{"ada"}, `{"id":"1","customer":"ada"}`); err != nil {
		log.Fatal(err)
	}

	var probes http.Handler
	ask := func(path string) {
		answer := httptest.NewRecorder()
		probes.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody))
		fmt.Print(path, ": ", answer.Code, " ", answer.Body)
	}
	processor, err := changefeed.New(changefeed.Config{
		Processor: "printer",
		Source:    orders,
		Leases:    memory.NewLeases(nil),
		Start:     feed.Beginning(),
		Handler: changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error {
			ask("/ready")
			stop() // a service runs until a signal
			return nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	probes = changefeed.HealthHandler(processor) // http.ListenAndServe(":8080", probes)
	ask("/alive")
	ask("/ready")
	if err := processor.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// /alive: 200 alive
	// /ready: 503 processor "printer": changefeed: not healthy: Run was not called
	// /ready: 200 ready
}
