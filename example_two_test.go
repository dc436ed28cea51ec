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
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.CreateDatabase(ctx, store.DatabaseProperties{ID: "shop"}); err != nil {
		log.Fatal(err)
	}
	container := func(p store.ContainerProperties) *store.Container {
		c, err := db.CreateContainer(ctx, "shop", p)
		if err != nil {
			log.Fatal(err)
		}
		return c
	}
	orders := container(store.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 4})
	archived := container(store.ContainerProperties{ID: "archive", KeyPaths: []string{"/id"}})
	leases := container(store.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	write := func(c *store.Container, documents ...string) {
		for _, document := range documents {
			if _, err := c.Upsert(ctx, nil, []byte(document), store.WriteOptions{}); err != nil {
				log.Fatal(err)
			}
		}
	}
	for i := range 20 {
		write(orders, fmt.Sprintf(`{"id":"order-%d","customer":"customer-%d"}`, i, i%7))
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
			if _, err := archived.Upsert(ctx, nil, change.Current, store.WriteOptions{}); err != nil {
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
			processor, err := changefeed.New(changefeed.Config{
				Processor: name,
				Source:    db.Source(orders),
				Leases:    db.Leases(leases),
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

	items, err := archived.Items(context.Background(), store.ItemsRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("sent to the endpoint:", received.Load())
	fmt.Println("in the archive:", len(items.Items))
	// Output:
	// sent to the endpoint: 20
	// in the archive: 20
}
