package cosmos_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// bulkContainer creates a container of four partitions.
func bulkContainer(t *testing.T, db *store.DB, version storetype.KeyVersion) *store.Container {
	t.Helper()
	return changefeedtest.NewContainer(t, db, "db", storetype.ContainerProperties{
		ID: "items", KeyPaths: []string{"/pk"}, Partitions: 4, KeyVersion: version,
	})
}

func upserts(from, to int) []cosmos.BulkOperation {
	var ops []cosmos.BulkOperation
	for i := from; i < to; i++ {
		ops = append(ops, cosmos.BulkOperation{
			Key:  feed.PartitionKey{fmt.Sprint("key ", i)},
			Body: json.RawMessage(fmt.Sprintf(`{"id":"%d","pk":"key %d","html":"<&>"}`, i, i)),
		})
	}
	return ops
}

// count returns the number of documents in container c.
func count(t *testing.T, db *store.DB, c *store.Container) int {
	t.Helper()
	n := 0
	reader, err := feed.NewReader(db.Source(c), feed.ReaderConfig{Start: feed.Beginning()})
	if err != nil {
		t.Fatal(err)
	}
	for page, err := range reader.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Changes)
	}
	return n
}

func TestBulkAnswersEachOperationForItself(t *testing.T) {
	db, account := onServer()(t)
	bulkContainer(t, db, storetype.DefaultHash)
	bulk := account.Bulk("db", "items", cosmos.BulkOptions{})
	do := func(ops ...cosmos.BulkOperation) []cosmos.BulkResult {
		t.Helper()
		results, err := bulk.Do(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	key := feed.PartitionKey{"ü\u0001😀"}
	body := json.RawMessage(`{"id":"a b","pk":"ü\u0001😀","n":1}`)
	made := do(cosmos.BulkOperation{Kind: cosmos.BulkCreate, Key: key, Body: body})[0]
	if made.Status != http.StatusCreated || made.ETag == "" || !made.Done() {
		t.Fatalf("create: %+v", made)
	}
	got := do(
		cosmos.BulkOperation{Kind: cosmos.BulkRead, Key: key, ID: "a b"},
		cosmos.BulkOperation{Kind: cosmos.BulkRead, Key: key, ID: "b"},
		cosmos.BulkOperation{Kind: cosmos.BulkReplace, Key: key, ID: "c", Body: json.RawMessage(`{"id":"c","pk":"ü\u0001😀"}`)},
		cosmos.BulkOperation{Kind: cosmos.BulkUpsert, Key: feed.PartitionKey{feed.Undefined}, Body: json.RawMessage(`{"id":"d"}`)},
		cosmos.BulkOperation{Kind: cosmos.BulkUpsert, Key: feed.PartitionKey{nil}, Body: json.RawMessage(`{"id":"d","pk":null}`)},
	)
	for i, want := range []int{200, 404, 404, 201, 201} {
		if got[i].Status != want {
			t.Errorf("operation %d: %+v; want %d", i, got[i], want)
		}
	}
	if !strings.Contains(string(got[0].Body), `"n":1`) || got[0].ETag != made.ETag {
		t.Errorf("read: %+v", got[0])
	}
	got = do(
		cosmos.BulkOperation{Kind: cosmos.BulkReplace, Key: key, ID: "a b", Body: body, IfMatch: `"no"`},
		cosmos.BulkOperation{Kind: cosmos.BulkDelete, Key: feed.PartitionKey{nil}, ID: "d"},
	)
	if got[0].Status != http.StatusPreconditionFailed || got[1].Status != http.StatusNoContent {
		t.Errorf("replace with another etag, delete: %+v", got)
	}
	if got = do(cosmos.BulkOperation{Kind: cosmos.BulkCreate, Key: key, Body: body}); got[0].Status != http.StatusConflict {
		t.Errorf("create of an existing document: %+v", got)
	}
	if bulk.Charge() <= 0 {
		t.Error("it costs nothing")
	}
	if _, err := bulk.Do(t.Context(), []cosmos.BulkOperation{{Key: feed.PartitionKey{"a", "b"}, Body: body}}); err == nil {
		t.Error("a key with a component too many is not refused")
	}
}

func TestBulkRoutesKeysToTheirPartitionsAndFollowsSplits(t *testing.T) {
	for _, version := range []storetype.KeyVersion{storetype.HashV1, storetype.DefaultHash} {
		db, account := onServer()(t)
		c := bulkContainer(t, db, version)
		bulk := account.Bulk("db", "items", cosmos.BulkOptions{Requests: 3})
		if _, err := bulk.Do(t.Context(), upserts(0, 700)); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"1", "3"} {
			if _, err := c.Split(t.Context(), id, ""); err != nil {
				t.Fatal(err)
			}
		}
		results, err := bulk.Do(t.Context(), upserts(350, 1050))
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if want := map[bool]int{true: 200, false: 201}[i < 350]; r.Status != want {
				t.Fatalf("operation %d: %+v; want %d", i, r, want)
			}
		}
		if n := count(t, db, c); n != 1050 {
			t.Errorf("%d documents; want 1050", n)
		}
	}
}

// The items of a response may have 4 MiB together. The service does not execute the
// operations whose items do not fit. Bulk must send those operations again.
func TestBulkResendsOperationsThatDidNotFitTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, account := onServer()(t)
		changefeedtest.NewContainer(t, db, "db", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/pk"}})
		bulk := account.Bulk("db", "items", cosmos.BulkOptions{})
		writes, reads := upserts(0, 60), make([]cosmos.BulkOperation, 60)
		for i := range writes {
			writes[i].Body = json.RawMessage(fmt.Sprintf(`{"id":"%d","pk":"key %d","text":"%s"}`, i, i, strings.Repeat("x", 500_000)))
			reads[i] = cosmos.BulkOperation{Kind: cosmos.BulkRead, Key: writes[i].Key, ID: fmt.Sprint(i)}
		}
		for _, ops := range [][]cosmos.BulkOperation{writes, reads} {
			results, err := bulk.Do(t.Context(), ops)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range results {
				if !r.Done() || ops[i].Kind == cosmos.BulkRead && len(r.Body) < 500_000 {
					t.Fatalf("%s %d: %d/%d, %d bytes", ops[i].Kind, i, r.Status, r.SubStatus, len(r.Body))
				}
			}
		}
	})
}

func TestBulkIsCarriedOutThroughFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, account := onServer(
			server.Fault{Operation: "batch", Status: 429, RetryAfter: 20 * time.Millisecond, Probability: 0.3, Seed: 1},
			server.Fault{Operation: "batch", Status: 503, Probability: 0.1, Seed: 2},
			server.Fault{Operation: "batch", Drop: true, Probability: 0.1, Seed: 3},
			server.Fault{Operation: "batch", Drop: true, After: true, Probability: 0.1, Seed: 4},
			server.Fault{Operation: "batch", Status: 410, SubStatus: 1002, Probability: 0.1, Seed: 5},
		)(t)
		c := bulkContainer(t, db, storetype.DefaultHash)
		bulk := account.Bulk("db", "items", cosmos.BulkOptions{})
		for i := range 10 {
			if _, err := bulk.Do(t.Context(), upserts(i*200, i*200+200)); err != nil {
				t.Fatal(err)
			}
		}
		if n := count(t, db, c); n != 2000 {
			t.Errorf("%d documents; want 2000", n)
		}
	})
}

func TestBulkRefusesARecreatedContainer(t *testing.T) {
	db, account := onServer()(t)
	bulkContainer(t, db, storetype.DefaultHash)
	bulk := account.Bulk("db", "items", cosmos.BulkOptions{})
	if _, err := bulk.Do(t.Context(), upserts(0, 10)); err != nil {
		t.Fatal(err)
	}
	if err := db.DeleteContainer(t.Context(), "db", "items"); err != nil {
		t.Fatal(err)
	}
	if _, err := bulk.Do(t.Context(), upserts(0, 10)); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("a container that is gone: %v", err)
	}
	c := bulkContainer(t, db, storetype.DefaultHash)
	_, err := bulk.Do(t.Context(), upserts(0, 10))
	var recreated *cosmos.RecreatedError
	if !errors.As(err, &recreated) {
		t.Errorf("a recreated container: %v", err)
	}
	if n := count(t, db, c); n != 0 {
		t.Errorf("%d documents were written to the new container", n)
	}
}
