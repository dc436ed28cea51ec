package main

import (
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// A container without a partition key can be copied by a key of the target, into another
// such container, and with leases in one. --create makes another one, unless --key names the
// path that newer clients are shown.
func TestReplicateFromAndToContainersWithoutAPartitionKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		checkStore(t, dir, func(db *store.DB) {
			if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "shop"}); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"fixed", "copy", "replicate-leases"} {
				if _, err := db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: id, SystemKey: true}); err != nil {
					t.Fatal(err)
				}
			}
			c, err := db.Container(t.Context(), "shop", "fixed")
			if err != nil {
				t.Fatal(err)
			}
			for _, body := range []string{`{"id":"1","customer":"ada"}`, `{"id":"2","customer":"bob","_partitionKey":"x"}`} {
				if _, err := c.Upsert(t.Context(), nil, []byte(body), storetype.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		})
		for _, way := range [][]string{
			{"--from", "shop/fixed", "--to", "shop/copy"},
			{"--from", "shop/fixed", "--to", "shop/by-customer", "--key", "/customer", "--create"},
			{"--from", "shop/fixed", "--to", "shop/made", "--create"},
			{"--from", "shop/fixed", "--to", "shop/by-key", "--key", "/_partitionKey", "--create"},
			{"--from", "shop/by-customer", "--to", "shop/back", "--key", "/_partitionKey", "--create"},
		} {
			args := append([]string{"replicate", "--data", dir, "--until-caught-up", "--leases", "replicate-leases", "--lease-database", "shop", "--processor", path.Base(way[3])}, way...)
			if code, out, errOut := command(t, args...); code != exitOK || !strings.Contains(out, "this process copied 2 documents") {
				t.Errorf("%v: status %d: %s%s", way, code, out, errOut)
			}
		}
		checkStore(t, dir, func(db *store.DB) {
			none := feed.PartitionKey{feed.Undefined}
			for _, c := range []struct {
				id     string
				keys   [2]feed.PartitionKey
				system bool
			}{
				{"copy", [2]feed.PartitionKey{none, {"x"}}, true},
				{"by-customer", [2]feed.PartitionKey{{"ada"}, {"bob"}}, false},
				{"made", [2]feed.PartitionKey{none, {"x"}}, true},
				{"by-key", [2]feed.PartitionKey{none, {"x"}}, false},
				{"back", [2]feed.PartitionKey{none, {"x"}}, false},
			} {
				to, err := db.Container(t.Context(), "shop", c.id)
				if err != nil {
					t.Fatal(err)
				}
				if p, err := to.Properties(t.Context()); err != nil || p.SystemKey != c.system {
					t.Errorf("%s has a system key: %t, %v", c.id, p.SystemKey, err)
				}
				for i, id := range []string{"1", "2"} {
					if _, err := to.Read(t.Context(), c.keys[i], id, storetype.ReadOptions{}); err != nil {
						t.Errorf("document %s of %s: %v", id, c.id, err)
					}
				}
			}
		})
	})
}
