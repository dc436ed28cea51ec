package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// newContainer opens a new store in memory and returns it with a container of two
// partitions. When the test ends, the store is checked and closed.
func newContainer(t *testing.T) (*store.DB, *store.Container) {
	t.Helper()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.Check(context.Background()), db.Close()); err != nil {
			t.Error(err)
		}
	})
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "shop", Extra: []byte(`{"a":1}`)}); err != nil {
		t.Fatal(err)
	}
	c, err := db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{
		ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 2, DefaultTTL: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return db, c
}

func TestPropertiesAreReturned(t *testing.T) {
	db, c := newContainer(t)
	databases, err := db.Databases(t.Context())
	if err != nil || len(databases) != 1 || databases[0].ID != "shop" || string(databases[0].Extra) != `{"a":1}` {
		t.Errorf("databases: %+v, %v", databases, err)
	}
	containers, err := db.Containers(t.Context(), "shop")
	if err != nil || len(containers) != 1 || containers[0] != c {
		t.Errorf("containers: %v, %v; want the handle of the creation", containers, err)
	}
	p, err := c.Properties(t.Context())
	if err != nil || p.KeyPaths[0] != "/customer" || p.Partitions != 2 || p.DefaultTTL != -1 || p.RID == "" {
		t.Errorf("properties: %+v, %v", p, err)
	}
	p.DefaultTTL = 60
	replaced, err := db.ReplaceContainer(t.Context(), "shop", p)
	if err != nil || replaced != c {
		t.Fatalf("replace the container: %v, %v", replaced, err)
	}
	if _, err := db.ReplaceContainer(t.Context(), "shop", p); !errors.Is(err, storetype.ErrPreconditionFailed) {
		t.Errorf("replace by an old ETag: %v", err)
	}
	if _, err := db.Container(t.Context(), "shop", "missing"); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("a missing container: %v", err)
	}
}

func TestBatchAndPagesReturnTheItems(t *testing.T) {
	_, c := newContainer(t)
	key := feed.PartitionKey{"ada"}
	var ops []storetype.Operation
	for i := range 5 {
		ops = append(ops, storetype.Operation{Kind: storetype.OpCreate, Body: fmt.Appendf(nil, `{"id":"%d","customer":"ada"}`, i)})
	}
	results, err := c.Batch(t.Context(), key, ops)
	if err != nil || len(results) != 5 || results[4].LSN != results[0].LSN || results[4].Charge <= 0 {
		t.Fatalf("batch: %+v, %v", results, err)
	}
	var failed *storetype.BatchError
	if _, err := c.Batch(t.Context(), key, ops[3:]); !errors.As(err, &failed) || failed.Index != 0 || !errors.Is(err, storetype.ErrConflict) {
		t.Errorf("the same creations again: %v", err)
	}
	r, err := c.Read(t.Context(), key, "3", storetype.ReadOptions{})
	if err != nil || r.ETag != results[3].ETag || !bytes.Equal(r.Body, results[3].Body) || r.Created {
		t.Errorf("read: %+v, %v; want %+v", r, err, results[3])
	}
	var read, visited []string
	for request := (storetype.ItemsRequest{MaxItems: 2}); ; {
		page, err := c.Items(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			read = append(read, string(i.Body))
		}
		if request.Continuation = page.Continuation; request.Continuation == "" {
			break
		}
	}
	page, err := c.VisitItems(t.Context(), storetype.ItemsRequest{Key: key}, func(body []byte) (bool, error) {
		visited = append(visited, string(body))
		return true, nil
	})
	if err != nil || page.Continuation != "" || len(read) != 5 || fmt.Sprint(read) != fmt.Sprint(visited) {
		t.Errorf("pages have %q, and the visit %q, %v", read, visited, err)
	}
	stats, err := c.PartitionStats(t.Context())
	if err != nil || len(stats) != 2 || stats[0].Items+stats[1].Items != 5 {
		t.Errorf("statistics: %+v, %v", stats, err)
	}
}
