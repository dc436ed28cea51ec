package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// After a container or its database is deleted, no key of the container is left in the
// store. The test looks for keys of documents, versions and indexes.
func TestDeletedContainersLeaveNoKeys(t *testing.T) {
	for name, remove := range map[string]func(*DB) error{
		"container": func(db *DB) error { return db.DeleteContainer(t.Context(), "db", "c") },
		"database":  func(db *DB) error { return db.DeleteDatabase(t.Context(), "db") },
	} {
		t.Run(name, func(t *testing.T) {
			db := openPebble(t, Options{PurgeInterval: -1})
			c := newContainer(t, db, storetype.ContainerProperties{Retention: time.Hour, UniqueKeys: [][]string{{"/n"}}})
			upsert(t, c, "a", "p", 1)
			upsert(t, c, "a", "p", 2)
			if _, err := c.Split(t.Context(), "0", ""); err != nil {
				t.Fatal(err)
			}
			upsert(t, c, "b", "p", 1)
			all := func() (spaces string) {
				err := eachKey(db.pebble, nil, func(key, _ []byte) error {
					container := len(key) >= layout.ContainerKeySize && bytes.Equal(key[1:layout.ContainerKeySize], layout.AppendContainerKey(nil, 0, c.number)[1:])
					if container && key[0] != layout.SpaceDatabase && !bytes.HasSuffix([]byte(spaces), key[:1]) {
						spaces += string(key[:1])
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return spaces
			}
			if got, want := all(), "ACIKLOPU"; got != want {
				t.Errorf("the container has keys in the spaces %q, want %q", got, want)
			}
			if err := remove(db); err != nil {
				t.Fatal(err)
			}
			if got := all(); got != "" {
				t.Errorf("keys remain in the spaces %q", got)
			}
		})
	}
}
