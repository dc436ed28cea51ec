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

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
)

// leaseScene is a store with a monitored container of three partitions, of which two came out of a
// split, and the leases of the processor "p", all of them right.
type leaseScene struct {
	t        *testing.T
	dir      string
	identity feed.Identity
	codec    lease.Codec
	live     []feed.Partition // by their ranges
	retired  feed.Partition
}

// leasesOf makes the scene. The leases are free, at LSN 10, 20 and 30.
func leasesOf(t *testing.T) *leaseScene {
	t.Helper()
	s := &leaseScene{t: t, dir: filepath.Join(t.TempDir(), "data")}
	checkStore(t, s.dir, func(db *store.DB) {
		ctx := t.Context()
		if _, err := db.CreateDatabase(ctx, store.DatabaseProperties{ID: "shop"}); err != nil {
			t.Fatal(err)
		}
		orders, err := db.CreateContainer(ctx, "shop", store.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 2})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.CreateContainer(ctx, "shop", store.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}}); err != nil {
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
			s.put(db, s.codec.Encode(whole(p, 10*(i+1))))
		}
		s.put(db, s.codec.Marker())
	})
	return s
}

// whole is the lease of a partition, free, at an LSN; part that of a range.
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
	if _, err := s.leases(db).Upsert(s.t.Context(), nil, body, store.WriteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *leaseScene) drop(db *store.DB, id string) {
	s.t.Helper()
	if _, err := s.leases(db).Delete(s.t.Context(), feed.PartitionKey{id}, id, store.WriteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// edit changes the store by hand.
func (s *leaseScene) edit(do func(db *store.DB)) {
	s.t.Helper()
	checkStore(s.t, s.dir, do)
}

// run runs `changefeed leases` on the scene.
func (s *leaseScene) run(args ...string) (code int, out, errOut string) {
	s.t.Helper()
	return command(s.t, append([]string{"leases"}, append(args, "--data", s.dir, "--database", "shop", "--container", "orders")...)...)
}

// positions are the leases by token, as `leases ls` prints them.
func (s *leaseScene) positions() map[string]string {
	s.t.Helper()
	code, out, errOut := s.run("ls", "--json")
	if code != exitOK {
		s.t.Fatalf("ls: status %d: %s", code, errOut)
	}
	var listing struct {
		Leases []struct{ Token, Position, State string }
	}
	if err := json.Unmarshal([]byte(out), &listing); err != nil {
		s.t.Fatalf("%v in %s", err, out)
	}
	m := map[string]string{}
	for _, l := range listing.Leases {
		m[l.Token] = l.Position
	}
	return m
}

// long is time enough for everything that takes time with leases.
const long = time.Hour

func TestLeasesCheckFindsTenKindsOfDamageAndRepairsNine(t *testing.T) {
	// What is expected of positions: "@n" is the n-th live partition's id.
	for _, c := range []struct {
		kind   string
		damage func(s *leaseScene, db *store.DB)
		want   string // the leases after the repair
	}{
		{"hole", func(s *leaseScene, db *store.DB) {
			s.drop(db, s.codec.LeaseID(s.live[1].ID))
		}, "@0:LSN 10 @1:beginning @2:LSN 30"},
		{"hole", func(s *leaseScene, db *store.DB) { // a part of a partition
			s.drop(db, s.codec.LeaseID(s.live[2].ID))
			s.put(db, s.codec.Encode(part(s.live[2].Range.Min, "FD", 30)))
		}, "@0:LSN 10 @1:LSN 20 FD-FF:beginning {2}-FD:LSN 30"},
		{"overlap", func(s *leaseScene, db *store.DB) {
			s.put(db, s.codec.Encode(part("01", s.live[1].Range.Max, 5))) // it reaches over the border of 0 and 1, and holds 1
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
		{"orphan", func(s *leaseScene, db *store.DB) { // in whose keys nobody else is
			s.put(db, s.codec.Encode(whole(feed.Partition{ID: "99", Range: s.live[1].Range}, 15)))
			s.drop(db, s.codec.LeaseID(s.live[1].ID))
		}, "@0:LSN 10 @1:LSN 15 @2:LSN 30"},
		{"child beside its parent", func(s *leaseScene, db *store.DB) {
			s.put(db, s.codec.Encode(whole(s.retired, 15)))
		}, "@0:LSN 10 @1:LSN 15 @2:LSN 30"},
		{"child beside its parent", func(s *leaseScene, db *store.DB) { // whose sibling was never made
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
		{"missing marker", func(s *leaseScene, db *store.DB) {
			s.drop(db, s.codec.MarkerID())
		}, "@0:LSN 10 @1:LSN 20 @2:LSN 30"},
		{"stuck lock", func(s *leaseScene, db *store.DB) {
			id := strings.TrimSuffix(s.codec.MarkerID(), ".info") + ".lock"
			s.put(db, fmt.Appendf(nil, `{"id":%q,"ttl":30}`, id))
		}, "@0:LSN 10 @1:LSN 20 @2:LSN 30"},
	} {
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
			if code, out, _ := s.run("check"); code != exitOK || !strings.Contains(out, "nothing is wrong") {
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
}

// pairs splits "token:LSN n token:beginning" into its pairs.
func pairs(s string) []string {
	all := strings.Split(strings.ReplaceAll(s, "LSN ", "LSN\x00"), " ")
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "\x00", " ")
	}
	return all
}
