package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// age converts container c to format 3, in which unique keys were kept in Extra and had
// no index. It then calls before with the converted record, and closes the store.
func age(t *testing.T, db *DB, c *Container, before func(containerRecord)) {
	t.Helper()
	err := db.do(context.Background(), func(g *group) error {
		m := g.db.writeState(c).meta.change()
		var policy []string
		for _, paths := range m.props.UniqueKeys {
			b, err := json.Marshal(paths)
			if err != nil {
				return err
			}
			policy = append(policy, `{"paths":`+string(b)+`}`)
		}
		m.props.Extra = json.RawMessage(`{"resource":{"uniqueKeyPolicy":{"uniqueKeys":[` + strings.Join(policy, ",") + `]}}}`)
		m.props.UniqueKeys = nil
		record, err := m.record(c)
		if err != nil {
			return err
		}
		record = bytes.Replace(record, fmt.Appendf(nil, `"format":%d,`, formatVersion), nil, 1)
		prefix := appendContainerKey(nil, spaceUnique, c.number)
		var r containerRecord
		if err := json.Unmarshal(record, &r); err != nil || r.Format != 0 {
			return fmt.Errorf("%+v, %w", r, err)
		}
		return errors.Join(g.batch.DeleteRange(prefix, successor(prefix), nil), g.batch.Set(containerKey(c.number), record, nil))
	})
	if err != nil {
		t.Fatal(err)
	}
	var r containerRecord
	if err := getJSON(db.pebble, containerKey(c.number), &r); err != nil {
		t.Fatal(err)
	}
	before(r)
	fs, dir := db.options.FS, db.path()
	if err := errors.Join(db.Close(), writeFile(fs, fs.PathJoin(dir, formatFile), formatPrefix+"3\n")); err != nil {
		t.Fatal(err)
	}
}

// An upgrade writes the index of unique keys in batches. Each batch has the position up
// to which the index is complete. After a crash, the next Open must resume at that
// position.
func TestUpgradeOfUniqueKeysIsResumedAfterACrash(t *testing.T) {
	const items = 500
	fs := vfs.NewCrashableMem()
	db, err := Open("db", Options{FS: fs, PurgeInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateDatabase(t.Context(), DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, db, ContainerProperties{UniqueKeys: [][]string{{"/n"}, {"/id", "/n"}}, Partitions: 2})
	for i := range items {
		upsert(t, c, fmt.Sprint("i", i), fmt.Sprint("p", i%5), i)
	}
	if _, err := c.Split(t.Context(), "0", ""); err != nil {
		t.Fatal(err)
	}
	var half int
	age(t, db, c, func(r containerRecord) {
		u := uniqueUpgrade{db: db, number: c.number, record: r, limit: 2000, batch: db.pebble.NewBatch()}
		if u.policy, err = parseUniqueKeys([][]string{{"/n"}, {"/id", "/n"}}); err != nil {
			t.Fatal(err)
		}
		if err := u.index(); err != nil { // the crash comes before the last batch, which has the record
			t.Fatal(err)
		}
		if u.batch.Len() >= u.limit+1000 {
			t.Errorf("the batch has %d bytes, with a limit of %d", u.batch.Len(), u.limit)
		}
		half = u.items
		if err := errors.Join(u.batch.Close(), db.pebble.LogData(nil, pebble.Sync)); err != nil {
			t.Fatal(err)
		}
	})
	var log bytes.Buffer
	db, err = Open("db", Options{FS: fs, PurgeInterval: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer closeChecked(t, db)
	var done int
	_, rest, _ := strings.Cut(log.String(), "index of unique keys built")
	if _, err := fmt.Sscanf(rest[strings.Index(rest, "items="):], "items=%d", &done); err != nil || half != items || done == 0 || done > 50 {
		t.Errorf("the second opening indexed %d items, but the first had indexed %d (%v): %s", done, half, err, &log)
	}
	if c, err = db.Container(t.Context(), "db", "c"); err != nil {
		t.Fatal(err)
	}
	for i := range items {
		_, err := c.Create(t.Context(), nil, body("new", fmt.Sprint("p", i%5), i), WriteOptions{})
		wantClash(t, "a value of before the upgrade", err, "new", fmt.Sprint("i", i))
	}
}
