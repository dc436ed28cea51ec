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
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// Two processors of different names in one program and one lease container: each
// gets every change, and each keeps its own place. One calls an HTTP endpoint,
// the other copies into a second container; a slow endpoint doesn't hold up the
// copy.
func Example_twoProcessors() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s := openShop(ctx,
		store.ContainerProperties{ID: "orders", Partitions: 4},
		store.ContainerProperties{ID: "archive", KeyPaths: []string{"/id"}})
	defer s.Close()
	for i := range 20 {
		s.write(ctx, "orders", fmt.Sprintf(`{"id":"order-%d","customer":"customer-%d"}`, i, i%7))
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
	archive := changefeed.HandlerFunc(func(ctx context.Context, b *changefeed.Batch) error {
		for _, change := range b.Changes {
			if _, err := s.containers["archive"].Upsert(ctx, nil, change.Current, store.WriteOptions{}); err != nil {
				return err
			}
			copied.Add(1)
		}
		done()
		return nil
	})

	var both sync.WaitGroup
	for name, handler := range map[string]changefeed.Handler{"notify": notify, "archive": archive} {
		both.Go(func() {
			run(ctx, changefeed.Config{
				Processor: name,
				Source:    s.source("orders"),
				Leases:    s.leases(),
				Start:     feed.Beginning(),
				Handler:   handler,
			})
		})
	}
	both.Wait()

	items, err := s.containers["archive"].Items(context.Background(), store.ItemsRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("sent to the endpoint:", received.Load())
	fmt.Println("in the archive:", len(items.Items))
	// Output:
	// sent to the endpoint: 20
	// in the archive: 20
}
