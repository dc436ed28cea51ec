package changefeedtest

import (
	"testing"

	"github.com/changefeed-go/changefeed/internal/testkit"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// NewStore returns an empty store in memory. When the test ends, all of the store's
// invariants are checked, as by [store.DB.Check], and it is closed.
//
// In a testing/synctest bubble the store uses the bubble's clock, so that items with a
// time to live expire in fake time. [store.Container.Split] and [store.Container.Merge]
// change the partitions while processors read.
func NewStore(t testing.TB) *store.DB {
	t.Helper()
	return testkit.NewStore(t, store.Options{})
}

// NewContainer creates a container, and first the database if it does not exist.
func NewContainer(t testing.TB, db *store.DB, database string, p storetype.ContainerProperties) *store.Container {
	t.Helper()
	return testkit.NewContainer(t, db, database, p)
}
