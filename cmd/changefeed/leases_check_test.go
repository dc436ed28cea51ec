package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
)

// Hosts at localhost and at 127.0.0.1 have separate leases, and each group delivers
// everything. `leases check` must name the other endpoint, and another processor is none.
func TestLeasesCheckNamesLeasesUnderAnotherAccountHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		add := func(processor, host string) {
			k := lease.Key{Processor: processor, Identity: s.identity}
			k.Identity.AccountHost = host
			codec, err := lease.NewCodec(lease.DotNet, k, false)
			if err != nil {
				t.Fatal(err)
			}
			s.edit(func(db *store.DB) { s.put(db, codec.Encode(whole(s.live[0], 10))) })
		}
		add("p2", s.identity.AccountHost)
		time.Sleep(long)
		if code, out, errOut := s.run("check", "--processor", "p"); code != exitOK {
			t.Errorf("beside another processor: status %d: %s%s", code, out, errOut)
		}
		add("p", "127.0.0.1")
		for _, args := range [][]string{{"check", "--processor", "p"}, {"check", "--processor", "p", "--repair", "--yes"}} {
			code, out, errOut := s.run(args...)
			if code != exitFailed || !strings.HasPrefix(out, "other account host: ") || !strings.Contains(out, "127.0.0.1") {
				t.Errorf("%v: status %d: %s%s", args, code, out, errOut)
			}
		}
	})
}

// Somebody edited a position. Hosts fail to read it again and again, so `leases check` must
// name it, and the remedy must work.
func TestLeasesCheckNamesAPositionThatNobodyCanRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		for _, position := range []feed.Continuation{"no position", `"-1"`} {
			s.edit(func(db *store.DB) {
				l := whole(s.live[0], 10)
				l.Continuation = position
				s.put(db, s.codec.Encode(l))
			})
			time.Sleep(long)
			code, out, errOut := s.run("check")
			if code != exitFailed || !strings.HasPrefix(out, "unreadable position: ") || !strings.Contains(out, fmt.Sprintf("%q of lease %s", position, s.live[0].ID)) {
				t.Errorf("%s: status %d: %s%s", position, code, out, errOut)
			}
		}
		if code, out, errOut := s.run("reset", s.live[0].ID, "--to", "beginning", "--yes"); code != exitOK {
			t.Fatalf("status %d: %s%s", code, out, errOut)
		}
		if code, out, errOut := s.run("check"); code != exitOK {
			t.Errorf("after the remedy: status %d: %s%s", code, out, errOut)
		}
	})
}

// An older copy of the store was restored, so leases have positions that the feed has not
// reached. Hosts report that and stand still. `leases check` must name these leases, and the
// remedy must work.
func TestLeasesCheckNamesAPositionAfterTheEndOfTheFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		s.edit(func(db *store.DB) { s.put(db, s.codec.Encode(whole(s.live[0], 11))) })
		time.Sleep(long)
		code, out, errOut := s.run("check")
		if code != exitFailed || !strings.HasPrefix(out, "unreadable position: ") || !strings.Contains(out, `the position "11" of lease `+s.live[0].ID+" is not in the feed") ||
			!strings.Contains(out, "after the end of the feed") || strings.Count(out, "is not in the feed") != 1 {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		if code, out, errOut := s.run("reset", s.live[0].ID, "--to", "beginning", "--yes"); code != exitOK {
			t.Fatalf("status %d: %s%s", code, out, errOut)
		}
		if code, out, errOut := s.run("check"); code != exitOK {
			t.Errorf("after the remedy: status %d: %s%s", code, out, errOut)
		}
	})
}

// `leases check` must report why a lock remains. Either the lease container lets nothing
// expire, or the lock has no time to live.
func TestLeasesCheckReportsWhyALockStays(t *testing.T) {
	for ttl, why := range map[string]string{`,"ttl":30`: "the lease container's time to live is off", "": "the lock has no time to live of its own"} {
		synctest.Test(t, func(t *testing.T) {
			s := leasesOf(t)
			s.edit(func(db *store.DB) { s.put(db, fmt.Appendf(nil, `{"id":%q%s}`, s.codec.LockID(), ttl)) })
			time.Sleep(long)
			if code, out, errOut := s.run("check"); code != exitFailed || !strings.HasSuffix(out, why+"\n") {
				t.Errorf("status %d: %s%s; want %q", code, out, errOut, why)
			}
		})
	}
}

func TestLeasesCheckCountsOneLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		s.edit(func(db *store.DB) {
			for _, p := range s.live[1:] {
				s.drop(db, s.codec.LeaseID(p.ID))
			}
		})
		code, out, errOut := s.run("check", "--range", "-"+s.live[0].Range.Max)
		if code != exitOK || out != "no damage found in the 1 lease of the processor \"p\"\n" {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
	})
}

// Among .NET's leases there is a document of Java's second dialect, whose ids have the
// same form. Hosts of either implementation would fail or start over. `leases check` must
// name the dialect, and a conversion that helps.
func TestLeasesCheckNamesAForeignDialectAndTheConversionThatHelps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		java, err := lease.NewCodec(lease.JavaLatestVersion, lease.Key{Processor: "p", Identity: s.identity}, false)
		if err != nil {
			t.Fatal(err)
		}
		r := s.live[1].Range
		s.edit(func(db *store.DB) {
			s.drop(db, s.codec.LeaseID(s.live[1].ID))
			s.put(db, java.Encode(part(r.Min, r.Max, 20)))
		})
		time.Sleep(long)
		for _, args := range [][]string{{"check"}, {"check", "--repair", "--yes"}} {
			code, out, errOut := s.run(args...)
			if code != exitFailed || !strings.HasPrefix(out, "foreign dialect: 1 lease is in the dialect of Java's handleLatestVersionChanges") ||
				!strings.Contains(out, "`changefeed leases convert --dialect java-latest-version --to dotnet --to-processor NAME`") || strings.Contains(out, "done: ") {
				t.Errorf("%v: status %d: %s%s", args, code, out, errOut)
			}
		}
		// If --dialect is Java's, the message must count all leases in .NET's dialect.
		if code, out, _ := s.run("check", "--dialect", "java-latest-version"); code != exitFailed || !strings.Contains(out, "2 leases are in .NET's dialect") {
			t.Errorf("status %d: %s", code, out)
		}
		// The command that the message suggests must work.
		s.edit(func(db *store.DB) { s.put(db, s.codec.Lock()) })
		code, out, errOut := s.run("convert", "--dialect", "java-latest-version", "--to", "dotnet", "--to-processor", "q", "--yes")
		if code != exitOK || !strings.Contains(out, "done: create lease "+s.live[1].ID) {
			t.Fatalf("status %d: %s%s", code, out, errOut)
		}
		// What a conversion leaves alone was once left out in silence.
		for _, want := range []string{
			"changefeed: document " + s.codec.LeaseID(s.live[0].ID) + " is skipped: it is a lease in .NET's dialect, and not in the dialect of Java's handleLatestVersionChanges",
			"changefeed: document " + s.codec.LeaseID(s.live[2].ID) + " is skipped: it is a lease in .NET's dialect",
			"changefeed: document " + s.codec.LockID() + " is skipped: it is the lock",
			"changefeed: document " + s.codec.MarkerID() + " is skipped: it is the marker",
		} {
			if !strings.Contains(errOut, want) || strings.Count(errOut, "is skipped") != 4 {
				t.Errorf("the conversion does not say %q:\n%s", want, errOut)
			}
		}
		s.edit(func(db *store.DB) { s.drop(db, s.codec.LockID()) })
		if code, out, errOut := s.run("check", "--processor", "p"); code != exitFailed || strings.Contains(out, "foreign") || !strings.Contains(out, "hole") {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
	})
}

func TestLeasesCheckLeavesASplitUnderWayAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		s.edit(func(db *store.DB) {
			s.put(db, s.codec.Encode(whole(s.retired, 4)))
			for i := range 2 { // leases that were created just now
				s.put(db, s.codec.Encode(whole(s.live[i], 4)))
			}
		})
		code, out, errOut := s.run("check", "--repair", "--yes")
		if code != exitOK || !strings.Contains(out, "note: lease "+s.retired.ID+" is beside") {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		if got := s.positions(); len(got) != 4 {
			t.Errorf("the leases are %v", got)
		}
		time.Sleep(119 * time.Second)
		if code, out, _ := s.run("check"); code != exitOK {
			t.Errorf("a second before two expirations: %s", out)
		}
		time.Sleep(2 * time.Second)
		if code, out, _ := s.run("check"); code != exitFailed || !strings.HasPrefix(out, "child beside its parent: ") {
			t.Errorf("after two expirations: status %d: %s", code, out)
		}
	})
}

func TestLeasesCheckRepairsNoLeaseWhileAHostWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		s.edit(func(db *store.DB) {
			s.drop(db, s.codec.LeaseID(s.live[0].ID))
		})
		s.owned(1, "host-1/0123abcd")
		code, out, errOut := s.run("check", "--repair", "--yes")
		if code != exitFailed || !strings.HasPrefix(out, "hole: ") || !strings.Contains(errOut, "cannot repair: lease "+s.live[1].ID) || len(s.positions()) != 2 {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		s.edit(func(db *store.DB) { s.put(db, s.codec.Encode(whole(s.live[0], 1))); s.drop(db, s.codec.MarkerID()) })
		s.owned(1, "host-1/0123abcd")
		if code, out, errOut := s.run("check", "--repair", "--yes"); code != exitOK || !strings.Contains(out, "done: create the marker") {
			t.Errorf("the marker: status %d: %s%s", code, out, errOut)
		}
	})
}

func TestLeasesCheckAsksBeforeItRepairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		s.edit(func(db *store.DB) { s.drop(db, s.codec.MarkerID()) })
		code, out, errOut := s.run("check", "--repair") // without a terminal, the command cannot ask for confirmation
		if code != exitUsage || !strings.Contains(out, "the plan:\n  create the marker") || !strings.Contains(errOut, "use --yes") {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		if code, out, _ := s.run("check", "--json"); code != exitFailed || !strings.Contains(out, `"kind": "missing marker"`) || !strings.Contains(out, `"repairable": true`) {
			t.Errorf("status %d: %s", code, out)
		}
	})
}

func TestLeasesCheckLooksAtTheProcessorsRangeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		s.edit(func(db *store.DB) { s.drop(db, s.codec.LeaseID(s.live[2].ID)) })
		if code, out, _ := s.run("check"); code != exitFailed || !strings.HasPrefix(out, "hole: no lease covers "+view.RangeName(s.live[2].Range)) {
			t.Errorf("status %d: %s", code, out)
		}
		if code, out, _ := s.run("check", "--range", "-"+s.live[1].Range.Max); code != exitOK {
			t.Errorf("status %d: %s", code, out)
		}
		for _, r := range []string{"80", "80-20", "FF-"} {
			if code, _, errOut := s.run("check", "--range", r); code != exitUsage || !strings.Contains(errOut, "--range is") {
				t.Errorf("%s: status %d: %s", r, code, errOut)
			}
		}
	})
}
