package engine_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
)

// unpack returns a file system in memory whose directory dir has the files of a zip
// archive in testdata.
func unpack(t *testing.T, archive, dir string) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	unpackInto(t, archive, fs, dir)
	return fs
}

// unpackInto unpacks a zip archive in testdata to the directory dir of fs, and syncs all
// files.
func unpackInto(t *testing.T, archive string, fs vfs.FS, dir string) {
	t.Helper()
	r, err := zip.OpenReader("testdata/" + archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
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
	for _, name := range []string{dir, fs.PathDir(dir)} {
		d, err := fs.OpenDir(name)
		if err == nil {
			err = errors.Join(d.Sync(), d.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The archive is a store that the release of format 1 wrote. It has two databases and two
// containers. One container received 40 upserts of 30 items, a delete, a split and a
// merge. The other container keeps all versions and was split.
//
// The store was closed without a flush, so that Open replays its write-ahead log. Open
// must upgrade the store and keep all of its content.
func TestDirectoryOfFormatOneOpensAndIsUpgraded(t *testing.T) {
	fs := unpack(t, "format1.zip", "db")
	if text := string(readFile(t, fs, "db/FORMAT")); !strings.HasSuffix(text, " 1\n") {
		t.Fatalf("the FORMAT of the archive is %q", text)
	}
	for _, opening := range []string{"first", "second"} {
		db, err := engine.Open("db", engine.Options{FS: fs, PurgeInterval: -1})
		if err != nil {
			t.Fatalf("the %s opening: %v", opening, err)
		}
		if text := string(readFile(t, fs, "db/FORMAT")); text != "changefeed store format 4\n" {
			t.Errorf("after the %s opening FORMAT is %q", opening, text)
		}
		checkFormatOne(t, db, opening == "second")
		if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
			t.Fatalf("the %s opening: %v", opening, err)
		}
	}
}

// checkFormatOne checks that the store has the content of the archive. It then writes
// properties that format 1 did not have. extra reports whether an earlier call has
// already written them.
func checkFormatOne(t *testing.T, db *engine.DB, extra bool) {
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
	items, err := orders.Items(t.Context(), engine.ItemsRequest{})
	if err != nil || len(items.Items) != 29 {
		t.Errorf("%d items, %v", len(items.Items), err)
	}
	for _, i := range items.Items {
		if strings.HasPrefix(string(i.Body), `{"id":"o7"`) {
			t.Errorf("a deleted item is present: %s", i.Body)
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
		t.Errorf("there are %d versions, want 41 of 40 upserts and a delete", versions)
	}
	p.Extra, p.DefaultTTL = json.RawMessage(`{"new":2}`), 0
	if _, err := db.ReplaceContainer(t.Context(), "shop", p); err != nil {
		t.Error(err)
	}
	if _, err := db.ReplaceDatabase(t.Context(), engine.DatabaseProperties{ID: "shop", Extra: p.Extra}); err != nil {
		t.Error(err)
	}
}

// The archive is a store that a server of format 3 wrote, when unique keys were not
// enforced. In its first container, the items u3 and u4 of tenant t1 have the same mail,
// which breaks the policy. This container also has an expired item, and was split. The
// policy of the second container cannot be read. The third container has no policy.
//
// The test simulates a power loss at every operation of the upgrade. The next Open must
// complete the upgrade. From then on, the store must enforce the first policy.
func TestDirectoryOfFormatThreeEnforcesItsUniqueKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		unpackInto(t, "format3.zip", fs, "db")
		fs = fs.CrashClone(vfs.CrashCloneCfg{})
		var mu sync.Mutex // guards images: Pebble deletes files in another goroutine
		var images []*vfs.MemFS
		hooked := &hookFS{FS: fs, before: func(fileOp) {
			mu.Lock()
			defer mu.Unlock()
			images = append(images, fs.CrashClone(vfs.CrashCloneCfg{}))
		}}
		var log bytes.Buffer
		db, err := engine.Open("db", engine.Options{FS: hooked, PurgeInterval: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`container=users`, `unique key policy broken`, `u3`, `u4`, `unique key policy not enforced`, `container=odd`} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q: %s", want, &log)
			}
		}
		if len(images) < 3 {
			t.Errorf("only %d images of the files during the upgrade", len(images))
		}
		for _, image := range append(images, fs) {
			checkFormatThree(t, image)
		}
	})
}

func checkFormatThree(t *testing.T, fs vfs.FS) {
	t.Helper()
	db, err := engine.Open("db", engine.Options{FS: fs, PurgeInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if text := string(readFile(t, fs, "db/FORMAT")); text != "changefeed store format 4\n" {
		t.Errorf("FORMAT is %q", text)
	}
	var clash *engine.UniqueKeyError
	err = db.Check(ctx)
	if !errors.As(err, &clash) || clash.Container != "users" || clash.ID != "u4" || clash.Other != "u3" ||
		errors.As(err, new(*engine.CorruptError)) || strings.Count(err.Error(), "violation") != 1 {
		t.Errorf("check: %v", err)
	}
	users, err := db.Container(ctx, "shop", "users")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := users.Properties(ctx); err != nil || fmt.Sprint(p.UniqueKeys) != "[[/mail] [/name/first /name/last]]" {
		t.Errorf("%v, %v", p.UniqueKeys, err)
	}
	put := func(id, tenant, mail, first string) error {
		_, err := users.Upsert(ctx, nil, fmt.Appendf(nil, `{"id":%q,"tenant":%q,"mail":%q,"name":{"first":%q,"last":"X"}}`, id, tenant, mail, first), engine.WriteOptions{})
		return err
	}
	wantUniqueClash(t, "a new item", put("n", "t1", "a@x", "N"), "n", "u1")
	wantUniqueClash(t, "a new item, by the second key", put("n", "t1", "n@x", "B"), "n", "u2")
	wantUniqueClash(t, "an item that breaks the policy, as it is", put("u3", "t1", "same@x", "C"), "u3", "u4")
	_, err = users.Create(ctx, nil, []byte(`{"id":"n","tenant":"t2"}`), engine.WriteOptions{})
	wantUniqueClash(t, "an item without values", err, "n", "u6")
	time.Sleep(2 * time.Second) // item u5 of tenant t2 expires after one second
	if err := errors.Join(put("n", "t2", "expired@x", "E"), put("u3", "t1", "other@x", "C"), put("u4", "t1", "same@x", "D")); err != nil {
		t.Errorf("writes that keep the policy: %v", err)
	}
	if _, err := users.Delete(ctx, feed.PartitionKey{"t1"}, "u1", engine.WriteOptions{}); err != nil {
		t.Error(err)
	}
	if err := put("n", "t1", "a@x", "A"); err != nil {
		t.Errorf("values of a deleted item: %v", err)
	}
	for _, id := range []string{"odd", "plain"} {
		c, err := db.Container(ctx, "shop", id)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := c.Properties(ctx); err != nil || p.UniqueKeys != nil {
			t.Errorf("%s: %v, %v", id, p.UniqueKeys, err)
		}
		for _, text := range []string{`{"id":"7","pk":"p"}`, `{"id":"8","pk":"p"}`} {
			if _, err := c.Upsert(ctx, nil, []byte(text), engine.WriteOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	if err := errors.Join(db.Check(ctx), db.Close()); err != nil { // the writes above have changed both items that had the same mail
		t.Error(err)
	}
}

func wantUniqueClash(t *testing.T, what string, err error, id, other string) {
	t.Helper()
	var clash *engine.UniqueKeyError
	if !errors.As(err, &clash) || clash.ID != id || clash.Other != other {
		t.Errorf("%s: %v; want a clash of %q with %q", what, err, id, other)
	}
}
