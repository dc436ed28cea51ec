package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// Hosts of .NET's V2 library never write a range. Without the exception for them, check
// would call every lease of such a fleet damaged, and --repair would rewrite all of them.
func TestTheLeasesOfAV2FleetAreNotDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		v2 := func(p feed.Partition, lsn int, more string) []byte {
			return fmt.Appendf(nil, `{"id":%q,"PartitionId":%q,"Owner":null,"ContinuationToken":"\"%d\"","properties":{},"timestamp":"2019-01-02T03:04:05.1234567Z"%s}`,
				s.codec.LeaseID(p.ID), p.ID, lsn, more)
		}
		s.edit(func(db *store.DB) {
			// The host of the partition that was split hasn't noticed it yet.
			s.put(db, v2(s.retired, 3, ""))
			s.drop(db, s.codec.LeaseID(s.live[0].ID))
			s.drop(db, s.codec.LeaseID(s.live[1].ID))
			s.put(db, v2(s.live[2], 30, fmt.Sprintf(`,"LeaseToken":%q`, s.live[2].ID))) // after a move back from V3
		})
		time.Sleep(long)
		for _, args := range [][]string{{"check"}, {"check", "--repair", "--yes"}} {
			code, out, errOut := s.run(args...)
			if code != exitOK || errOut != "" || !strings.Contains(out, "note: 2 leases have no range of keys") || !strings.Contains(out, "no damage found") {
				t.Errorf("%v: status %d: %s%s", args, code, out, errOut)
			}
		}
		// Only a host of V3 has written the lease, and should have added the range.
		l := whole(s.live[2], 30)
		l.Range = feed.Range{}
		s.edit(func(db *store.DB) { s.put(db, s.codec.Encode(l)) })
		code, out, _ := s.run("check")
		if code != exitFailed || !strings.Contains(out, "missing range: lease "+s.live[2].ID+" ") || strings.Contains(out, s.retired.ID+" has no range") {
			t.Errorf("status %d: %s", code, out)
		}
	})
}

// For a lease that no host has started, `leases ls` once said "the hosts' start" and `lag`
// "no position yet". Both must print each kind of position in the same words.
func TestLagAndLeasesLsPrintAPositionInTheSameWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		s.edit(func(db *store.DB) {
			s.put(db, fmt.Appendf(nil, `{"id":%q,"PartitionId":%q,"Owner":null,"ContinuationToken":null,"properties":{}}`, s.codec.LeaseID(s.live[0].ID), s.live[0].ID))
		})
		if code, out, errOut := s.run("reset", s.live[1].ID, "--to", "beginning", "--yes"); code != exitOK {
			t.Fatalf("status %d: %s%s", code, out, errOut)
		}
		orders := []string{"--data", s.dir, "--database", "shop", "--container", "orders"}
		for _, cmd := range [][]string{{"lag"}, {"lag", "--json"}, {"leases", "ls"}, {"leases", "ls", "--json"}} {
			code, out, errOut := command(t, append(cmd, orders...)...)
			if code != exitOK || strings.Contains(out, "no position") {
				t.Errorf("%v: status %d: %s%s", cmd, code, out, errOut)
			}
			for _, position := range []string{"the hosts' start", "beginning", "LSN 30"} {
				if strings.Count(out, position) != 1 {
					t.Errorf("%v does not print %q once: %s", cmd, position, out)
				}
			}
		}
	})
}
