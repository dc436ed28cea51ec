package querypage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/storetype"
)

// A page that begins within a document may be read in several parts. Only the first part
// begins with that document again.
func TestEachRowOfAJoinIsReadOnceWhereverPagesAndPartsEnd(t *testing.T) {
	c := container(t)
	var want []string
	for i := range 5 {
		if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%d","pk":"a","l":[0,1,2]}`, i), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		for l := range 3 {
			want = append(want, fmt.Sprintf(`["%d",%d]`, i, l))
		}
	}
	q, err := query.Parse("SELECT VALUE [c.id, l] FROM c JOIN l IN c.l")
	if err != nil {
		t.Fatal(err)
	}
	b, err := q.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1; size <= 7; size++ {
		var got []string
		for token := ""; ; {
			p, err := New(t.Context(), Request{Container: c, Query: b, Key: feed.PartitionKey{"a"}, MaxRows: size, Continuation: token})
			if err != nil {
				t.Fatal(err)
			}
			p.items.MaxBytes = 1 // each part has one document
			if err := p.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			var rows []json.RawMessage
			if err := json.Unmarshal(fmt.Appendf(nil, "[%s]", p.Rows), &rows); err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				got = append(got, string(row))
			}
			if token = p.Continuation; token == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d rows: %v, want %v", size, got, want)
		}
	}
}

// container returns an empty container with the key path /pk.
func container(t *testing.T) *engine.Container {
	t.Helper()
	db, err := engine.OpenMemory(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Check(context.Background()); err != nil {
			t.Errorf("the store is damaged: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("cannot close the store: %v", err)
		}
	})
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "shop"}); err != nil {
		t.Fatal(err)
	}
	c, err := db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/pk"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
