package engine_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestContainersWithoutAKeyKeepThatWhenTheStoreIsReopened(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		db, err := engine.Open(dir, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
				t.Fatal(err)
			}
			newContainer(t, db, storetype.ContainerProperties{ID: "fixed", SystemKey: true})
			newContainer(t, db, storetype.ContainerProperties{ID: "keyed", KeyPaths: []string{engine.SystemKeyPath}})
		}
		for id, want := range map[string]bool{"fixed": true, "keyed": false} {
			c, err := db.Container(t.Context(), "db", id)
			if err != nil {
				t.Fatal(err)
			}
			p, err := c.Properties(t.Context())
			if err != nil || p.SystemKey != want || c.SystemKey() != want || !slices.Equal(p.KeyPaths, []string{engine.SystemKeyPath}) || p.KeyVersion != storetype.HashV2 {
				t.Errorf("round %d: container %s has %+v, %t, %v", round, id, p, c.SystemKey(), err)
			}
			if _, err := c.Upsert(t.Context(), feed.PartitionKey{feed.Undefined}, []byte(`{"id":"a"}`), storetype.WriteOptions{}); err != nil {
				t.Error(err)
			}
			// Settings can be replaced, also by a caller who leaves out the key.
			if _, err := db.ReplaceContainer(t.Context(), "db", storetype.ContainerProperties{ID: id, DefaultTTL: -1}); err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestContainersWithoutAKeyHaveOnePartition(t *testing.T) {
	db := openForTest(t)
	c := newContainer(t, db, storetype.ContainerProperties{ID: "fixed", SystemKey: true, KeyPaths: []string{engine.SystemKeyPath}, Partitions: 1})
	var bad *storetype.BadRequestError
	if _, err := c.Split(t.Context(), "0", ""); !errors.As(err, &bad) {
		t.Errorf("split: %v", err)
	}
	for _, p := range []storetype.ContainerProperties{
		{KeyPaths: []string{"/pk"}}, {KeyPaths: []string{engine.SystemKeyPath, "/b"}}, {KeyVersion: storetype.MultiHash}, {Partitions: 2},
	} {
		p.ID, p.SystemKey = "other", true
		if _, err := db.CreateContainer(t.Context(), "db", p); !errors.As(err, &bad) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
