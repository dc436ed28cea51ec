package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// The lease containers of the first .NET processors have no partition key. The commands must
// read, create, replace and delete leases in them.
func TestLeasesInAContainerWithoutAPartitionKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesIn(t, storetype.ContainerProperties{SystemKey: true})
		if got := s.positions(); len(got) != 3 || got[s.live[2].ID] != "LSN 30" {
			t.Errorf("ls shows %v", got)
		}
		if code, out, errOut := s.run("reset", s.live[2].ID, "--to", "after:7", "--yes"); code != exitOK || s.positions()[s.live[2].ID] != "LSN 7" {
			t.Errorf("reset: status %d: %s%s", code, out, errOut)
		}
		missing := s.codec.LeaseID(s.live[0].ID)
		s.edit(func(db *store.DB) {
			if _, err := s.leases(db).Delete(t.Context(), feed.PartitionKey{feed.Undefined}, missing, storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		})
		if code, out, errOut := s.run("check", "--repair", "--yes"); code != exitOK || len(s.positions()) != 3 {
			t.Errorf("check --repair: status %d: %s%s", code, out, errOut)
		}
		if code, out, errOut := s.run("delete", "--all", "--yes"); code != exitOK || strings.Count(out, "done: ") != 4 {
			t.Errorf("delete --all: status %d: %s%s", code, out, errOut)
		}
	})
}
