// Package testkit opens stores and servers in memory for tests. Package changefeedtest is
// its public form.
package testkit

import (
	"context"
	"testing"

	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// NewStore opens an empty store in memory. When the test ends, every invariant of the
// store is checked and the store is closed.
func NewStore(t testing.TB, o store.Options) *store.DB {
	t.Helper()
	db, err := store.OpenMemory(o)
	if err != nil {
		t.Fatalf("cannot open a store in memory: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Check(context.Background()); err != nil {
			t.Errorf("the store is damaged: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("cannot close the store: %v", err)
		}
	})
	return db
}

// NewContainer creates a container. It creates the database first if the database does
// not exist.
func NewContainer(t testing.TB, db *store.DB, database string, p storetype.ContainerProperties) *store.Container {
	t.Helper()
	ctx := context.Background()
	if _, err := db.Database(ctx, database); err != nil {
		if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: database}); err != nil {
			t.Fatalf("cannot create database %s: %v", database, err)
		}
	}
	c, err := db.CreateContainer(ctx, database, p)
	if err != nil {
		t.Fatalf("cannot create container %s: %v", p.ID, err)
	}
	return c
}
