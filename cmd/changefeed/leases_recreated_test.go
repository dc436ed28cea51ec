package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// codecOf returns the codec for the leases of processor j in a dialect.
func codecOf(t *testing.T, d lease.Dialect, monitored feed.Identity) lease.Codec {
	t.Helper()
	c, err := lease.NewCodec(d, lease.Key{Processor: "j", Identity: monitored}, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The monitored container is deleted and recreated. In the dialect of Java's
// handleChanges, lease ids contain the container's name, so the old leases still match.
// Hosts reject them. Every command must report the reason, and a remedy that works.
func TestLeasesOfAContainerThatIsGoneAreNamedByEveryCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		java := codecOf(t, lease.JavaHandleChanges, s.identity)
		before := s.identity
		before.ContainerRID = "AAAAAGone"
		gone := codecOf(t, lease.JavaHandleChanges, before)
		s.edit(func(db *store.DB) {
			for i, p := range s.live {
				s.put(db, gone.Encode(gone.Stamped(whole(p, 10*(i+1)))))
			}
			s.put(db, java.Marker())
		})
		ofJava := func(args ...string) (code int, out, errOut string) {
			return s.run(append(args, "--processor", "j")...)
		}
		file := filepath.Join(t.TempDir(), "leases.json")
		const said = "was deleted and recreated: lease "
		code, out, errOut := ofJava("check", "--repair", "--yes")
		if code != exitFailed || strings.Count(out, "other container: the monitored container "+said) != 3 || !strings.Contains(out, "AAAAAGone") ||
			!strings.Contains(out, "changefeed leases delete --all") || strings.Contains(out, "done:") {
			t.Errorf("check: status %d: %s%s", code, out, errOut)
		}
		code, out, errOut = command(t, "lag", "--data", s.dir, "--database", "shop", "--container", "orders", "--processor", "j")
		if code != exitFailed || !strings.Contains(errOut, said) || strings.Contains(out, "unread (") {
			t.Errorf("lag: status %d: %s%s", code, out, errOut)
		}
		if code, out, errOut := ofJava("export", "--output", file); code != exitFailed || !strings.Contains(errOut, said) {
			t.Errorf("export: status %d: %s%s", code, out, errOut)
		}
		if code, out, errOut := ofJava("convert", "--to", "dotnet", "--to-processor", "q"); code != exitFailed || !strings.Contains(errOut, "which was deleted") {
			t.Errorf("convert: status %d: %s%s", code, out, errOut)
		}
		// The remedy is to reset the leases to a position in the new container.
		if code, out, errOut := ofJava("reset", "--all", "--to", "beginning", "--yes"); code != exitOK {
			t.Fatalf("reset: status %d: %s%s", code, out, errOut)
		}
		if code, out, errOut := ofJava("check"); code != exitOK {
			t.Errorf("after the reset: status %d: %s%s", code, out, errOut)
		}
		if code, out, errOut := ofJava("export", "--output", file); code != exitOK {
			t.Errorf("after the reset: status %d: %s%s", code, out, errOut)
		}
	})
}

// Two partitions with leases of handleChanges merge. These leases have no ranges, so
// their hosts wait forever. `leases check` must report that as damage.
func TestLeasesOfMergedPartitionsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		java := codecOf(t, lease.JavaHandleChanges, s.identity)
		s.edit(func(db *store.DB) {
			for i, p := range s.live {
				s.put(db, java.Encode(whole(p, 10*(i+1))))
			}
			s.put(db, java.Marker())
		})
		if code, out, errOut := s.run("check", "--processor", "j"); code != exitOK {
			t.Fatalf("status %d: %s%s", code, out, errOut)
		}
		s.edit(func(db *store.DB) {
			orders, err := db.Container(t.Context(), "shop", "orders")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := orders.Merge(t.Context(), s.live[0].ID, s.live[1].ID); err != nil {
				t.Fatal(err)
			}
		})
		for _, more := range [][]string{nil, {"--repair", "--yes"}} {
			code, out, errOut := s.run(append([]string{"check", "--processor", "j"}, more...)...)
			if code != exitFailed || strings.Count(out, "merged partition: ") != 2 || strings.Count(out, "not repaired: ") != 2 || strings.Contains(out, "done:") {
				t.Errorf("%v: status %d: %s%s", more, code, out, errOut)
			}
		}
	})
}

// A lease document without a range and a position may be of .NET's dialect or of Java's
// second one. Commands treat it as a lease of the dialect that the other leases have.
func TestLeasesCheckTakesALeaseWithoutAnyMarkForItsStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		java := codecOf(t, lease.JavaLatestVersion, s.identity)
		lower, upper := part("", s.live[0].Range.Max, 0), part(s.live[0].Range.Max, "FF", 7)
		s.edit(func(db *store.DB) {
			s.put(db, fmt.Appendf(nil, `{"id":%q,"LeaseToken":%q,"ContinuationToken":null,"timestamp":"2026-11-21T00:00:00Z","Owner":null,"version":1}`, java.LeaseID(lower.Token), lower.Token))
			s.put(db, java.Encode(upper))
			s.put(db, java.Marker())
		})
		code, out, errOut := s.run("check", "--processor", "j", "--repair", "--yes")
		if code != exitOK || !strings.Contains(out, "missing range: lease "+view.LeaseName(lower.Token)) || strings.Contains(out, "foreign") {
			t.Fatalf("status %d: %s%s", code, out, errOut)
		}
		s.edit(func(db *store.DB) {
			got, err := s.leases(db).Read(t.Context(), feed.PartitionKey{java.LeaseID(lower.Token)}, java.LeaseID(lower.Token), storetype.ReadOptions{})
			if err != nil || !strings.Contains(string(got.Body), `"feedRange":`) || strings.Contains(string(got.Body), `"FeedRange"`) {
				t.Errorf("%s, %v", got.Body, err)
			}
		})
	})
}
