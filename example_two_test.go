package changefeed_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
)

// Two processors of different names share one program and one lease container. Each gets
// every change and has positions of its own. One calls an HTTP endpoint, the other copies
// into an archive. A slow endpoint does not delay the copy.
func Example_twoProcessors() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	orders, leases := memory.NewSource(memory.Options{Partitions: 4}), memory.NewLeases(nil)
	for i := range 20 {
		key := feed.PartitionKey{fmt.Sprintf("customer-%d", i%7)}
		if err := orders.Upsert(key, fmt.Sprintf(`{"id":"order-%d"}`, i)); err != nil {
			log.Fatal(err)
		}
	}

	var received, copied atomic.Int32
	done := func() {
		if received.Load() == 20 && copied.Load() == 20 {
			stop()
		}
	}
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && len(body) > 0 {
			received.Add(1)
		}
	}))
	defer endpoint.Close()

	notify := changefeed.HandlerFunc(func(ctx context.Context, b *changefeed.Batch) error {
		for _, change := range b.Changes {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint.URL, bytes.NewReader(change.Current))
			if err != nil {
				return err
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			if err := res.Body.Close(); err != nil {
				return err
			}
			if res.StatusCode != http.StatusOK {
				return fmt.Errorf("the endpoint answers %s", res.Status)
			}
		}
		done()
		return nil
	})
	var archived sync.Map // documents by id
	archive := changefeed.HandlerFunc(func(_ context.Context, b *changefeed.Batch) error {
		for _, change := range b.Changes {
			id, err := change.ID()
			if err != nil {
				return err
			}
			archived.Store(id, change.Current)
			copied.Add(1)
		}
		done()
		return nil
	})

	var both sync.WaitGroup
	for name, handler := range map[string]changefeed.Handler{"notify": notify, "archive": archive} {
		both.Go(func() {
			processor, err := changefeed.New(changefeed.Config{
				Processor: name,
				Source:    orders,
				Leases:    leases,
				Start:     feed.Beginning(),
				Handler:   handler,
			})
			if err != nil {
				log.Fatal(err)
			}
			if err := processor.Run(ctx); err != nil {
				log.Fatal(err)
			}
		})
	}
	both.Wait()

	inArchive := 0
	for range archived.Range {
		inArchive++
	}
	fmt.Println("sent to the endpoint:", received.Load())
	fmt.Println("in the archive:", inArchive)
	// Output:
	// sent to the endpoint: 20
	// in the archive: 20
}
