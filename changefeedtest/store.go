package changefeedtest

import (
	"context"
	"testing"

	"github.com/changefeed-go/changefeed/store"
)

// NewStore returns an empty store in memory. When the test ends, every invariant
// of the store is checked (see [store.DB.Check]) and the store is closed.
//
// It works inside a testing/synctest bubble, where its clock is the bubble's: an
// item with a time to live of an hour expires in no time. Partitions are split and merged
// on demand with [store.Container.Split] and [store.Container.Merge], while
// processors read.
func NewStore(t testing.TB) *store.DB {
	t.Helper()
	return newStore(t, store.Options{})
}

func newStore(t testing.TB, o store.Options) *store.DB {
	t.Helper()
	db, err := store.OpenMemory(o)
	if err != nil {
		t.Fatalf("open a store in memory: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Check(context.Background()); err != nil {
			t.Errorf("the store is not sound: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return db
}

// NewContainer makes a container, and the database that it belongs to if there
// is none.
func NewContainer(t testing.TB, db *store.DB, database string, p store.ContainerProperties) *store.Container {
	t.Helper()
	ctx := context.Background()
	if _, err := db.Database(ctx, database); err != nil {
		if _, err := db.CreateDatabase(ctx, store.DatabaseProperties{ID: database}); err != nil {
			t.Fatalf("create database %s: %v", database, err)
		}
	}
	c, err := db.CreateContainer(ctx, database, p)
	if err != nil {
		t.Fatalf("create container %s: %v", p.ID, err)
	}
	return c
}
