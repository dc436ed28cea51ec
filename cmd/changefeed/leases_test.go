package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// leaseScene is a store with a monitored container and a lease container. The monitored
// container has three partitions, two of which came from a split. The lease container has
// undamaged leases of the processor "p".
type leaseScene struct {
	t        *testing.T
	dir      string
	identity feed.Identity
	codec    lease.Codec
	live     []feed.Partition // in the order of their ranges
	retired  feed.Partition
}

// leasesOf creates a scene in a temporary directory. Its leases are free, and are at LSN
// 10, 20 and 30.
func leasesOf(t *testing.T) *leaseScene {
	t.Helper()
	return leasesIn(t, storetype.ContainerProperties{KeyPaths: []string{"/id"}})
}

// leasesIn is like leasesOf, with a lease container that has the properties p.
func leasesIn(t *testing.T, p storetype.ContainerProperties) *leaseScene {
	t.Helper()
	p.ID = "leases"
	s := &leaseScene{t: t, dir: filepath.Join(t.TempDir(), "data")}
	checkStore(t, s.dir, func(db *store.DB) {
		ctx := t.Context()
		if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
			t.Fatal(err)
		}
		orders, err := db.CreateContainer(ctx, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 2})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.CreateContainer(ctx, "shop", p); err != nil {
			t.Fatal(err)
		}
		before, err := orders.Partitions(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.retired = before[0]
		if _, err := orders.Split(ctx, s.retired.ID, ""); err != nil {
			t.Fatal(err)
		}
		if s.live, err = orders.Partitions(ctx); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(s.live, func(a, b feed.Partition) int { return strings.Compare(a.Range.Min, b.Range.Min) })
		if s.identity, err = db.Source(orders).Identity(ctx); err != nil {
			t.Fatal(err)
		}
		if s.codec, err = lease.NewCodec(lease.DotNet, lease.Key{Processor: "p", Identity: s.identity}, false); err != nil {
			t.Fatal(err)
		}
		for i, p := range s.live {
			writeTo(t, orders, p, 10*(i+1))
			s.put(db, s.codec.Encode(whole(p, 10*(i+1))))
		}
		s.put(db, s.codec.Marker())
	})
	return s
}

// writeTo writes to a partition until its last LSN is end.
func writeTo(t *testing.T, c *store.Container, p feed.Partition, end int) {
	t.Helper()
	key := 0
	for found := false; !found; {
		key++
		point, _ := epk.V2.Prefix([]epk.Component{epk.OfString(fmt.Sprint(key))})
		found = p.Range.Holds(point)
	}
	for range end {
		body := fmt.Appendf(nil, `{"id":"1","customer":"%d"}`, key)
		if _, err := c.Upsert(t.Context(), nil, body, storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// whole returns a free lease of a whole partition at an LSN. part returns one of a range.
func whole(p feed.Partition, lsn int) lease.Lease {
	return lease.Lease{Token: p.ID, PartitionID: p.ID, Range: p.Range, Continuation: at(lsn)}
}

func part(lower, upper string, lsn int) lease.Lease {
	return lease.Lease{Token: lower + "-" + upper, Range: feed.Range{Min: lower, Max: upper}, Continuation: at(lsn)}
}

func at(lsn int) feed.Continuation { return feed.Continuation(fmt.Sprintf(`"%d"`, lsn)) }

func (s *leaseScene) leases(db *store.DB) *store.Container {
	s.t.Helper()
	c, err := db.Container(s.t.Context(), "shop", "leases")
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *leaseScene) put(db *store.DB, body []byte) {
	s.t.Helper()
	if _, err := s.leases(db).Upsert(s.t.Context(), nil, body, storetype.WriteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *leaseScene) drop(db *store.DB, id string) {
	s.t.Helper()
	if _, err := s.leases(db).Delete(s.t.Context(), feed.PartitionKey{id}, id, storetype.WriteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// edit opens the scene's store and calls do, which changes documents by hand.
func (s *leaseScene) edit(do func(db *store.DB)) {
	s.t.Helper()
	checkStore(s.t, s.dir, do)
}

// run runs a subcommand of `changefeed leases` on the scene's store.
func (s *leaseScene) run(args ...string) (code int, out, errOut string) {
	s.t.Helper()
	return command(s.t, append([]string{"leases"}, append(args, "--data", s.dir, "--database", "shop", "--container", "orders")...)...)
}

// positions returns the position of each lease by token, as `leases ls` prints them.
func (s *leaseScene) positions() map[string]string {
	s.t.Helper()
	code, out, errOut := s.run("ls", "--json")
	if code != exitOK {
		s.t.Fatalf("ls: status %d: %s", code, errOut)
	}
	var listing struct {
		Leases []struct{ Lease, Position, State string }
	}
	if err := json.Unmarshal([]byte(out), &listing); err != nil {
		s.t.Fatalf("%v in %s", err, out)
	}
	m := map[string]string{}
	for _, l := range listing.Leases {
		m[l.Lease] = l.Position
	}
	return m
}

// long is longer than any timeout for leases.
const long = time.Hour

func TestLeasesCheckRepairsEveryRepairableKindOfDamage(t *testing.T) {
	repaired := map[leases.Kind]bool{}
	// want describes the leases after the repair. In it, "@n" stands for the id of the
	// n-th live partition.
	for _, c := range []struct {
		kind   string
		damage func(s *leaseScene, db *store.DB)
		want   string // token and position of each lease after the repair
	}{
		{"hole", func(s *leaseScene, db *store.DB) {
			s.drop(db, s.codec.LeaseID(s.live[1].ID))
		}, "@0:LSN 10 @1:beginning @2:LSN 30"},
		{"hole", func(s *leaseScene, db *store.DB) { // no lease covers a part of one partition
			s.drop(db, s.codec.LeaseID(s.live[2].ID))
			s.put(db, s.codec.Encode(part(s.live[2].Range.Min, "FD", 30)))
		}, "@0:LSN 10 @1:LSN 20 FD-FF:beginning {2}-FD:LSN 30"},
		{"overlap", func(s *leaseScene, db *store.DB) {
			s.put(db, s.codec.Encode(part("01", s.live[1].Range.Max, 5))) // the lease overlaps lease 0 and contains lease 1
			s.drop(db, s.codec.LeaseID(s.live[1].ID))
		}, "-01:LSN 10 01-{1}:LSN 5 @1:LSN 5 @2:LSN 30"},
		{"duplicate", func(s *leaseScene, db *store.DB) {
			l := whole(s.live[0], 7)
			l.ID = s.codec.LeaseID(l.Token + "copy")
			s.put(db, s.codec.Encode(l))
		}, "@0:LSN 7 @1:LSN 20 @2:LSN 30"},
		{"orphan", func(s *leaseScene, db *store.DB) {
			orphan := whole(feed.Partition{ID: "99", Range: s.live[1].Range}, 15)
			s.put(db, s.codec.Encode(orphan))
		}, "@0:LSN 10 @1:LSN 15 @2:LSN 30"},
		{"orphan", func(s *leaseScene, db *store.DB) { // no other lease covers the keys of this one
			s.put(db, s.codec.Encode(whole(feed.Partition{ID: "99", Range: s.live[1].Range}, 15)))
			s.drop(db, s.codec.LeaseID(s.live[1].ID))
		}, "@0:LSN 10 @1:LSN 15 @2:LSN 30"},
		{"child beside its parent", func(s *leaseScene, db *store.DB) {
			s.put(db, s.codec.Encode(whole(s.retired, 15)))
		}, "@0:LSN 10 @1:LSN 15 @2:LSN 30"},
		{"child beside its parent", func(s *leaseScene, db *store.DB) { // the other child was never created
			s.put(db, s.codec.Encode(whole(s.retired, 4)))
			s.drop(db, s.codec.LeaseID(s.live[1].ID))
		}, "@0:LSN 4 @1:LSN 4 @2:LSN 30"},
		{"wrong mode", func(s *leaseScene, db *store.DB) {
			l := whole(s.live[1], 20)
			l.Mode = feed.AllVersionsAndDeletes
			s.put(db, s.codec.Encode(l))
		}, "@0:LSN 10 @1:LSN 20 @2:LSN 30"},
		{"missing range", func(s *leaseScene, db *store.DB) {
			l := whole(s.live[1], 20)
			l.Range = feed.Range{}
			s.put(db, s.codec.Encode(l))
		}, "@0:LSN 10 @1:LSN 20 @2:LSN 30"},
		{"wrong range", func(s *leaseScene, db *store.DB) { // the other leases wait for this one
			l := whole(s.live[1], 20)
			l.Range = feed.Full()
			s.put(db, s.codec.Encode(l))
		}, "@0:LSN 10 @1:LSN 20 @2:LSN 30"},
		{"missing marker", func(s *leaseScene, db *store.DB) {
			s.drop(db, s.codec.MarkerID())
		}, "@0:LSN 10 @1:LSN 20 @2:LSN 30"},
		{"stuck lock", func(s *leaseScene, db *store.DB) {
			id := strings.TrimSuffix(s.codec.MarkerID(), ".info") + ".lock"
			s.put(db, fmt.Appendf(nil, `{"id":%q,"ttl":30}`, id))
		}, "@0:LSN 10 @1:LSN 20 @2:LSN 30"},
	} {
		repaired[leases.Kind(c.kind)] = true
		synctest.Test(t, func(t *testing.T) {
			s := leasesOf(t)
			s.edit(func(db *store.DB) { c.damage(s, db) })
			time.Sleep(long)
			code, out, errOut := s.run("check")
			if code != exitFailed || errOut != "" || strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, c.kind+": ") {
				t.Errorf("%s isn't found: status %d: %s%s", c.kind, code, out, errOut)
			}
			before := s.positions()
			code, out, errOut = s.run("check", "--repair", "--dry-run")
			if code != exitFailed || errOut != "" || !strings.Contains(out, "would ") {
				t.Errorf("%s has no plan: status %d: %s%s", c.kind, code, out, errOut)
			}
			if after := s.positions(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("%s: a dry run changed the leases: %v, %v", c.kind, before, after)
			}
			code, out, errOut = s.run("check", "--repair", "--yes")
			plan, done := strings.Index(out, "the plan:"), strings.Index(out, "done: ")
			if code != exitOK || errOut != "" || plan < 0 || done < plan {
				t.Errorf("%s isn't repaired: status %d: %s%s", c.kind, code, out, errOut)
			}
			if code, out, _ := s.run("check"); code != exitOK || !strings.Contains(out, "no damage found") {
				t.Errorf("%s is still there: status %d: %s", c.kind, code, out)
			}
			want := map[string]string{}
			for _, text := range pairs(c.want) {
				token, position, _ := strings.Cut(text, ":")
				for i, p := range s.live {
					token = strings.ReplaceAll(token, fmt.Sprintf("@%d", i), p.ID)
					token = strings.ReplaceAll(token, fmt.Sprintf("{%d}", i), p.Range.Min)
				}
				want[token] = position
			}
			if got := s.positions(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: after the repair the leases are %v, want %v", c.kind, got, want)
			}
		})
	}
	for _, k := range leases.Kinds {
		if repaired[k.Kind] != k.Repaired {
			t.Errorf("%s: listed as repaired: %t; repaired here: %t", k.Kind, k.Repaired, repaired[k.Kind])
		}
	}
}

// In the JSON of `leases ls`, the key of a number must contain its unit. It isn't ageSeconds,
// which `lag` has for the oldest unread change.
func TestLeasesLsNamesTheUnitOfItsNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		time.Sleep(long)
		code, out, errOut := s.run("ls", "--json")
		if code != exitOK || strings.Count(out, `"writtenSecondsAgo": 3600,`) != 3 || strings.Contains(out, `"age`) {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		if code, out, _ := s.run("ls"); code != exitOK || strings.Count(out, "1h0m0s ago") != 3 {
			t.Errorf("status %d: %s", code, out)
		}
	})
}

// pairs splits a text such as "token:LSN n token:beginning" into its pairs of token and
// position.
func pairs(s string) []string {
	all := strings.Split(strings.ReplaceAll(s, "LSN ", "LSN\x00"), " ")
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "\x00", " ")
	}
	return all
}

// owned sets the owner of the n-th lease, as if that host had written it just now.
func (s *leaseScene) owned(n int, owner string) {
	s.edit(func(db *store.DB) {
		l := whole(s.live[n], 10*(n+1))
		l.Owner = owner
		s.put(db, s.codec.Encode(l))
	})
}

func TestLeasesThatAHostWorksOnAreNotChangedUnlessForced(t *testing.T) {
	const ours, foreign = "host-1/0123abcd", "dotnet-host"
	for _, owner := range []string{ours, foreign} {
		synctest.Test(t, func(t *testing.T) {
			s := leasesOf(t)
			file := filepath.Join(t.TempDir(), "leases.json")
			if code, _, errOut := s.run("export", "-o", file); code != exitOK {
				t.Fatal(errOut)
			}
			s.owned(1, owner)
			id := s.live[1].ID
			refused := [][]string{
				{"reset", id, "--to", "beginning"},
				{"reset", "--all", "--to", "beginning"},
				{"delete", id},
				{"delete", "--all"},
				{"import", file},
				{"convert", "--to", "java-latest-version", "--to-processor", "q"},
			}
			if owner == foreign {
				refused = append(refused, []string{"release", id}, []string{"release", "--all"})
			}
			for _, args := range refused {
				code, out, errOut := s.run(args...)
				if code != exitFailed || out != "" || !strings.Contains(errOut, "lease "+id+" is owned by "+protocol.Instance(owner)) || !strings.Contains(errOut, "--force: ") {
					t.Errorf("%v of %s's: status %d: %s%s", args, owner, code, out, errOut)
				}
			}
			// The owner has not written the lease for longer than its expiration, so the
			// command may change it.
			time.Sleep(61 * time.Second)
			if code, out, errOut := s.run("reset", id, "--to", "beginning", "--dry-run"); code != exitOK {
				t.Errorf("an expired lease: status %d: %s%s", code, out, errOut)
			}
			s.owned(1, owner)
			code, out, errOut := s.run("reset", id, "--to", "after:3", "--force", "--yes")
			if code != exitOK || !strings.Contains(errOut, "delivers changes until then") {
				t.Errorf("forced: status %d: %s%s", code, out, errOut)
			}
			if got := s.positions()[id]; got != "LSN 3" {
				t.Errorf("forced: it is at %s", got)
			}
			s.owned(1, owner)
			if code, out, _ := s.run("release", id, "--force"); code != exitOK || !strings.Contains(out, "is free; it was live") {
				t.Errorf("a forced release: status %d: %s", code, out)
			}
		})
	}
}
