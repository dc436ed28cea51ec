package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// openPebble opens a store in memory with one database, db. When the test ends, the store
// is checked and closed.
func openPebble(t *testing.T, o Options) *DB {
	t.Helper()
	db, err := OpenMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeChecked(t, db) })
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	return db
}

func closeChecked(t *testing.T, db *DB) {
	t.Helper()
	if err := db.Check(context.Background()); err != nil && !errors.Is(err, storetype.ErrClosed) {
		t.Errorf("check: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// newContainer creates a container in the database db. Its default name is c, and its
// default key path is /pk.
func newContainer(t *testing.T, db *DB, p storetype.ContainerProperties) *Container {
	t.Helper()
	if p.ID == "" {
		p.ID = "c"
	}
	if p.KeyPaths == nil {
		p.KeyPaths = []string{"/pk"}
	}
	c, err := db.CreateContainer(t.Context(), "db", p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func body(id, pk string, n int) []byte {
	return fmt.Appendf(nil, `{"id":%q,"pk":%q,"n":%d}`, id, pk, n)
}

func upsert(t *testing.T, c *Container, id, pk string, n int) storetype.Result {
	t.Helper()
	r, err := c.Upsert(t.Context(), nil, body(id, pk, n), storetype.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// field returns the decoded value of a top-level property of a JSON document, or nil if
// it is missing.
func field(t *testing.T, doc []byte, name string) any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(doc, &m); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return m[name]
}

// ids returns the changes as text, for instance "a:1, delete b:2": the operation unless
// it is an upsert, the id, and the property n.
func ids(t *testing.T, changes []feed.Change) string {
	t.Helper()
	var out []string
	for _, c := range changes {
		image, op := c.Current, ""
		if c.Op != feed.Upsert {
			op = c.Op.String() + " "
		}
		if image == nil {
			image = c.Previous
		}
		out = append(out, fmt.Sprintf("%s%v:%v", op, field(t, image, "id"), field(t, image, "n")))
	}
	return strings.Join(out, ", ")
}

func readPage(t *testing.T, c *Container, r feed.Request) feed.Page {
	t.Helper()
	p, err := c.db.Source(c).Read(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if p.Continuation == "" {
		t.Fatal("a page without a continuation")
	}
	return p
}

// kindOf returns the kind of a bad request, or 0 for another error.
func kindOf(err error) storetype.BadRequestKind {
	var bad *storetype.BadRequestError
	if errors.As(err, &bad) {
		return bad.Kind
	}
	return 0
}
