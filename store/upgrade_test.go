package store_test

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// unpack makes a directory of an archive in testdata, which a release of then has written.
func unpack(t *testing.T, archive, dir string) vfs.FS {
	t.Helper()
	r, err := zip.OpenReader("testdata/" + archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	fs := vfs.NewMem()
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err := errors.Join(err, in.Close()); err != nil {
			t.Fatal(err)
		}
		writeFile(t, fs, fs.PathJoin(dir, f.Name), content)
	}
	return fs
}

// A store that the release of format 1 wrote: two databases; a container of 40 upserts on 30 items,
// one of which was deleted, through a split and a merge, and one that keeps all versions and was
// split. It was closed without a flush, so that its write-ahead log is replayed.
func TestDirectoryOfFormatOneOpensAndIsUpgraded(t *testing.T) {
	fs := unpack(t, "format1.zip", "db")
	if text := string(readFile(t, fs, "db/FORMAT")); !strings.HasSuffix(text, " 1\n") {
		t.Fatalf("the archive has %q", text)
	}
	for _, opening := range []string{"first", "second"} {
		db, err := store.Open("db", store.Options{FS: fs, PurgeInterval: -1})
		if err != nil {
			t.Fatalf("the %s opening: %v", opening, err)
		}
		if text := string(readFile(t, fs, "db/FORMAT")); text != "changefeed store format 3\n" {
			t.Errorf("after the %s opening FORMAT says %q", opening, text)
		}
		checkFormatOne(t, db, opening == "second")
		if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
			t.Fatalf("the %s opening: %v", opening, err)
		}
	}
}

// checkFormatOne compares what is in the store with what was written then, and puts something of the new
// format in.
func checkFormatOne(t *testing.T, db *store.DB, extra bool) {
	t.Helper()
	all, err := db.Databases(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != "empty" || all[1].ID != "shop" {
		t.Fatalf("databases %+v, %v", all, err)
	}
	orders, err := db.Container(t.Context(), "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	p, err := orders.Properties(t.Context())
	if err != nil || p.Throughput != 400 || p.Partitions != 2 || (p.Extra != nil) != extra || (all[1].Extra != nil) != extra {
		t.Errorf("properties %+v of %+v, %v", p, all[1], err)
	}
	items, err := orders.Items(t.Context(), store.ItemsRequest{})
	if err != nil || len(items.Items) != 29 {
		t.Errorf("%d items, %v", len(items.Items), err)
	}
	for _, i := range items.Items {
		if strings.HasPrefix(string(i.Body), `{"id":"o7"`) {
			t.Errorf("a deleted item is there: %s", i.Body)
		}
	}
	audit, err := db.Container(t.Context(), "shop", "audit")
	if err != nil {
		t.Fatal(err)
	}
	versions := 0
	parts, err := audit.Partitions(t.Context())
	if err != nil || len(parts) != 2 {
		t.Fatalf("partitions %v, %v", parts, err)
	}
	for _, part := range parts {
		page, err := db.Source(audit).Read(t.Context(), feed.Request{
			Partition: part, From: feed.After(`"0"`), Mode: feed.AllVersionsAndDeletes, MaxItems: 1000,
		})
		if err != nil {
			t.Fatal(err)
		}
		versions += len(page.Changes)
	}
	if versions != 41 {
		t.Errorf("%d versions are there, of 40 upserts and a delete", versions)
	}
	p.Extra, p.DefaultTTL = json.RawMessage(`{"new":2}`), 0
	if _, err := db.ReplaceContainer(t.Context(), "shop", p); err != nil {
		t.Error(err)
	}
	if _, err := db.ReplaceDatabase(t.Context(), store.DatabaseProperties{ID: "shop", Extra: p.Extra}); err != nil {
		t.Error(err)
	}
}
