package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// The data directory is lost and restored from an older copy. `restore` makes the copy
// ready. Then `tail` and `replicate` name the restore at a position that was lost, and do
// not exit with 0.
func TestRestoreMakesALossVisible(t *testing.T) { synctest.Test(t, loseAndRestore) }

func loseAndRestore(t *testing.T) {
	t.Helper()
	dir := shop(t, 0)
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	position := filepath.Join(t.TempDir(), "position")
	checkStore(t, dir, func(db *store.DB) { upsertTo(t, db, "ada", "lost") })
	replica := filepath.Join(t.TempDir(), "replica")
	checkStore(t, replica, func(*store.DB) {})
	replicate := func(from string) (code int, out, errOut string) {
		return command(t, "replicate", "--from-data", from, "--from", "shop/orders", "--to-data", replica, "--to", "shop/copy", "--create", "--until-caught-up")
	}
	for _, run := range []func() (int, string, string){
		func() (int, string, string) { return command(t, tailOf(dir, "--position", position)...) },
		func() (int, string, string) { return replicate(dir) },
	} {
		if code, _, errOut := run(); code != exitOK {
			t.Fatalf("status %d: %s", code, errOut)
		}
	}
	if code, out, errOut := command(t, "restore", backup); code != exitUsage || !strings.Contains(errOut, "--yes") {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	code, out, errOut := command(t, "restore", backup, "--dry-run")
	if code != exitOK || !strings.Contains(out, "1 database and 1 container") || strings.Contains(out, "restored") {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	code, out, errOut = command(t, "restore", backup, "--yes", "--json")
	var done restoration
	if err := json.Unmarshal([]byte(out), &done); code != exitOK || err != nil || !done.Done || len(done.Containers) != 1 || len(done.Containers[0].Partitions) != 3 {
		t.Fatalf("status %d, %v: %s%s", code, err, out, errOut)
	}
	for _, p := range done.Containers[0].Partitions {
		if p.Next < p.Last+1<<32+1 {
			t.Errorf("%+v", p)
		}
	}
	code, out, errOut = command(t, "restore", backup, "--yes")
	if code != exitOK || !strings.Contains(out, "it was restored before") || !strings.Contains(out, "restored: the incarnation") {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	checkStore(t, backup, func(db *store.DB) { upsertTo(t, db, "ada", "new") })
	code, out, errOut = command(t, tailOf(backup, "--position", position)...)
	if code != exitFailed || strings.Contains(out, "new") || !strings.Contains(errOut, "as after the restore of an older copy") {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	// The lease container knows the source by its path, so the copy must take its place.
	if err := errors.Join(os.RemoveAll(dir), os.Rename(backup, dir)); err != nil {
		t.Fatal(err)
	}
	code, out, errOut = replicate(dir)
	if code != exitFailed || !strings.Contains(errOut, "as after the restore of an older copy") {
		t.Errorf("replicate: status %d: %s%s", code, out, errOut)
	}
	if code, out, errOut := command(t, tailOf(dir)...); code != exitOK || !strings.Contains(out, `"new"`) {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
}

func TestRestoreRefusesADirectoryWithoutAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	code, _, errOut := command(t, "restore", dir, "--yes")
	if code != exitFailed || !strings.Contains(errOut, "has no store") {
		t.Errorf("status %d: %s", code, errOut)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory was created: %v", err)
	}
}

// upsertTo writes a document to the container orders of the store that shop creates.
func upsertTo(t *testing.T, db *store.DB, customer, id string) {
	t.Helper()
	c, err := db.Container(t.Context(), "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"id":"` + id + `","customer":"` + customer + `"}`)
	if _, err := c.Upsert(t.Context(), feed.PartitionKey{customer}, body, storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}
