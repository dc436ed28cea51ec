package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

// odd is JSON text that decoding and encoding would change. It has white space, escapes,
// unsorted members, a number beyond float64, and characters that Go escapes.
const odd = "{ \"b\" : 1e999,\t\"a\":\"\\u0041<&>\u2028\",\"a\":[ ] }\n"

func TestExtraPropertiesComeBackByteForByte(t *testing.T) {
	fs := vfs.NewMem()
	open := func() *engine.DB {
		db, err := engine.Open("db", engine.Options{FS: fs, PurgeInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	given := json.RawMessage(odd)
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db", Extra: given}); err != nil {
		t.Fatal(err)
	}
	c, err := db.CreateContainer(t.Context(), "db", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/pk"}, Extra: given})
	if err != nil {
		t.Fatal(err)
	}
	clear(given) // overwrites the caller's bytes: the store must have its own copy
	compare := func(when string, d storetype.DatabaseProperties, c storetype.ContainerProperties, want string) {
		t.Helper()
		if string(d.Extra) != want || string(c.Extra) != want {
			t.Errorf("%s the database has %q and the container has %q, want %q", when, d.Extra, c.Extra, want)
		}
	}
	both := func(db *engine.DB) (storetype.DatabaseProperties, storetype.ContainerProperties) {
		t.Helper()
		d, err := db.Database(t.Context(), "db")
		if err != nil {
			t.Fatal(err)
		}
		c, err := db.Container(t.Context(), "db", "c")
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Properties(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d, p
	}
	d, p := both(db)
	compare("after the creation", d, p, odd)
	clear(d.Extra)
	clear(p.Extra)
	if _, err := c.Split(t.Context(), "0", ""); err != nil { // a split rewrites the container's record
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	db = open()
	defer func() {
		if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
			t.Error(err)
		}
	}()
	d, p = both(db)
	compare("after a split and a restart", d, p, odd)
	d.Extra, p.Extra = nil, nil
	if _, err := db.ReplaceDatabase(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ReplaceContainer(t.Context(), "db", p); err != nil {
		t.Fatal(err)
	}
	d, p = both(db)
	compare("after a replace without any", d, p, "")
}

func TestReplaceOfADatabaseIsConditional(t *testing.T) {
	db := openForTest(t)
	first, err := db.Database(t.Context(), "db")
	if err != nil {
		t.Fatal(err)
	}
	first.Extra = json.RawMessage(`{"n":1}`)
	second, err := db.ReplaceDatabase(t.Context(), first)
	if err != nil || second.ETag == first.ETag || second.RID != first.RID || string(second.Extra) != `{"n":1}` {
		t.Fatalf("replace: %+v, %v; it was %+v", second, err, first)
	}
	if _, err := db.ReplaceDatabase(t.Context(), first); !errors.Is(err, storetype.ErrPreconditionFailed) {
		t.Errorf("replace with an old etag: %v", err)
	}
	now, err := db.Database(t.Context(), "db")
	if err != nil || now.ETag != second.ETag || !bytes.Equal(now.Extra, second.Extra) {
		t.Errorf("the database is %+v, %v; the replace returned %+v", now, err, second)
	}
	for _, etag := range []string{second.ETag, "", "*"} {
		if _, err := db.ReplaceDatabase(t.Context(), storetype.DatabaseProperties{ID: "db", ETag: etag}); err != nil {
			t.Errorf("replace with the etag %q: %v", etag, err)
		}
	}
	if _, err := db.ReplaceDatabase(t.Context(), storetype.DatabaseProperties{ID: "other"}); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("replace of a missing database: %v", err)
	}
	if _, err := db.Container(t.Context(), "db", "c"); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("a container of a replaced database: %v", err)
	}
	if _, err := db.CreateContainer(t.Context(), "db", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/pk"}}); err != nil {
		t.Errorf("a container in a replaced database: %v", err)
	}
}

func TestExtraPropertiesAreBoundedJSON(t *testing.T) {
	db := openForTest(t)
	largest := json.RawMessage(`"` + strings.Repeat("x", engine.MaxExtraSize-2) + `"`)
	put := func(id string, extra json.RawMessage) error {
		_, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: id, Extra: extra})
		_, err2 := db.CreateContainer(t.Context(), "db", storetype.ContainerProperties{ID: id, KeyPaths: []string{"/pk"}, Extra: extra})
		if (err == nil) != (err2 == nil) {
			t.Errorf("%s: the database %v, the container %v", id, err, err2)
		}
		return err2
	}
	if err := put("largest", largest); err != nil {
		t.Errorf("extra properties of the largest size: %v", err)
	}
	var large *storetype.TooLargeError
	if err := put("larger", append(largest, ' ')); !errors.As(err, &large) || large.Limit != engine.MaxExtraSize {
		t.Errorf("extra properties that are too large: %v", err)
	}
	var bad *storetype.BadRequestError
	if err := put("broken", json.RawMessage(`{"a":`)); !errors.As(err, &bad) || bad.Kind != storetype.BadProperties {
		t.Errorf("extra properties that are not JSON: %v", err)
	}
}
