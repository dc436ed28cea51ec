package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// behind returns a scene whose last lease has not read five transactions, with the LSNs 31
// to 35.
func behind(t *testing.T) *leaseScene {
	t.Helper()
	s := leasesOf(t)
	s.edit(func(db *store.DB) {
		c, err := db.Container(t.Context(), "shop", "orders")
		if err != nil {
			t.Fatal(err)
		}
		for key, n := 0, 0; n < 5; key++ {
			if point, _ := epk.V2.Prefix([]epk.Component{epk.OfString(fmt.Sprint(key))}); !s.live[2].Range.Holds(point) {
				continue
			}
			if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"unread","customer":"%d"}`, key), storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			n++
		}
	})
	return s
}

// A plan must say what it skips before anybody confirms it, and nothing may happen without
// a confirmation.
func TestPlansSayWhatTheySkipAndNeedAConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := behind(t)
		file := filepath.Join(t.TempDir(), "leases.json")
		if code, _, errOut := s.run("export", "-o", file); code != exitOK {
			t.Fatal(errOut)
		}
		id, before := s.live[2].ID, s.positions()
		for _, c := range []struct {
			args []string
			want string
		}{
			{[]string{"reset", id, "--to", "now"}, "it skips the changes of at most 5 transactions\n"},
			{[]string{"reset", "--all", "--to", "now"}, "it skips the changes of at most 5 transactions\n"},
			{[]string{"reset", id, "--to", "after:33"}, "it skips the changes of at most 3 transactions\n"},
			{[]string{"reset", id, "--to", "after:30"}, "it skips no changes\n"},
			{[]string{"reset", s.live[0].ID, "--to", "beginning"}, "it delivers the changes of at most 1 transaction again\n"},
			{[]string{"delete", "--all"}, "hosts that start at now (the default) skip the changes of at most 5 transactions, and hosts that start at the beginning deliver all changes again\n"},
			{[]string{"delete", id}, "(the marker's time), unless they are configured with another start than now; it delivers the changes of at most 1 transaction again\n"},
			{[]string{"import", file}, "  write lease " + id + " again, at the same position (LSN 30)\nit skips no changes\n"},
			{[]string{"convert", "--to", "java-latest-version", "--to-processor", "q"}, "delete lease " + id + " of the source\nit skips no changes: the new leases have the positions of the old ones\n"},
		} {
			code, out, errOut := s.run(c.args...)
			if code != exitUsage || !strings.HasPrefix(out, "the plan:\n  ") || !strings.HasSuffix(out, c.want) || !strings.Contains(errOut, "use --yes") {
				t.Errorf("%v: status %d: %s%s", c.args, code, out, errOut)
			}
		}
		if after := s.positions(); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("the leases are %v, and were %v", after, before)
		}
	})
}

// A lease that was moved behind the marker's time does not come back where it was: hosts fill
// the hole from the marker's time on, and a plan once said that nothing is skipped.
func TestDeletingALeaseSaysWhatTheOneThatFillsTheHoleSkips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		first, second := s.live[0].ID, s.live[1].ID
		time.Sleep(long)
		s.edit(func(db *store.DB) {
			s.drop(db, s.codec.MarkerID())
			s.put(db, s.codec.Marker())
		})
		filled := "hosts fill the hole from " + time.Now().UTC().Add(-time.Second).Format(time.RFC3339) + " on (the marker's time), unless they are configured with another start than now; "
		if code, _, errOut := s.run("reset", second, "--to", "beginning", "--yes"); code != exitOK {
			t.Fatal(errOut)
		}
		for _, c := range []struct {
			args []string
			want string
		}{
			{[]string{second}, filled + "it skips the changes of at most 1 transaction"},
			{[]string{first}, filled + "it skips no changes"},
			{[]string{first, second, s.live[2].ID}, filled + "it skips the changes of at most 1 transaction"},
			{[]string{"--all"}, "hosts that start at now (the default) skip the changes of at most 1 transaction, and hosts that start at the beginning deliver all changes again"},
		} {
			if code, out, errOut := s.run(append([]string{"delete", "--dry-run"}, c.args...)...); code != exitOK || !strings.HasSuffix(out, "\n"+c.want+"\n") {
				t.Errorf("%v: status %d: %s%s", c.args, code, out, errOut)
			}
		}
		s.edit(func(db *store.DB) { s.drop(db, s.codec.MarkerID()) })
		if _, out, errOut := s.run("delete", "--dry-run", second); !strings.HasSuffix(out, "\nhosts that start at now (the default) skip the changes of at most 1 transaction, and hosts that start at the beginning deliver all changes again\n") {
			t.Errorf("%s%s", out, errOut)
		}
		// Another lease has the keys, and reads on from its own position.
		s.edit(func(db *store.DB) { s.put(db, s.codec.Encode(part(s.live[1].Range.Min, s.live[1].Range.Max, 20))) })
		if _, out, errOut := s.run("delete", "--dry-run", second); !strings.HasSuffix(out, "\nit skips the changes of at most 1 transaction\n") {
			t.Errorf("%s%s", out, errOut)
		}
	})
}

// The feed of all versions has no beginning, so a plan must not say that hosts may start there.
func TestDeletingALeaseOfAllVersionsSkipsWhatIsUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		s.edit(func(db *store.DB) {
			c, err := db.Container(t.Context(), "shop", "orders")
			if err != nil {
				t.Fatal(err)
			}
			p, err := c.Properties(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p.Retention = time.Hour
			if _, err := db.ReplaceContainer(t.Context(), "shop", p); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Upsert(t.Context(), nil, []byte(`{"id":"unread","customer":"1"}`), storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			for i, p := range s.live {
				l := whole(p, 10*(i+1))
				l.Mode = feed.AllVersionsAndDeletes
				s.put(db, s.codec.Encode(l))
			}
		})
		all := []string{s.live[0].ID, s.live[1].ID, s.live[2].ID}
		for _, args := range [][]string{{"--all"}, all} {
			if code, out, errOut := s.run(append([]string{"delete", "--dry-run"}, args...)...); code != exitOK || !strings.HasSuffix(out, "\nit skips the changes of at most 1 transaction\n") {
				t.Errorf("%v: status %d: %s%s", args, code, out, errOut)
			}
		}
	})
}

// A lease behind the end of its feed cannot be read, so a reset must refuse to move it there,
// as `tail --from` does.
func TestAResetBeyondTheEndOfTheFeedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		id, before := s.live[1].ID, s.positions()
		for _, more := range [][]string{{"--yes"}, {"--dry-run"}, {"--yes", "--force"}} {
			code, out, errOut := s.run(append([]string{"reset", s.live[0].ID, id, "--to", "after:9"}, more...)...)
			if code != exitOK {
				t.Errorf("status %d: %s%s", code, out, errOut)
			}
			code, out, errOut = s.run(append([]string{"reset", id, "--to", "after:9999"}, more...)...)
			if code != exitFailed || out != "" || !strings.Contains(errOut, "changefeed: lease "+id+" ends at LSN 20; after:9999 is beyond it") {
				t.Errorf("%v: status %d: %s%s", more, code, out, errOut)
			}
		}
		if s.positions()[id] != "LSN 9" {
			t.Errorf("%v, before %v", s.positions(), before)
		}
	})
}

// --dry-run shows the plan also while hosts work. It says that the plan is refused.
func TestADryRunShowsThePlanWhileHostsWork(t *testing.T) {
	for _, owner := range []string{"host-1/0123abcd", "dotnet-host"} {
		synctest.Test(t, func(t *testing.T) {
			s := behind(t)
			file := filepath.Join(t.TempDir(), "leases.json")
			if code, _, errOut := s.run("export", "-o", file); code != exitOK {
				t.Fatal(errOut)
			}
			s.owned(2, owner)
			id := s.live[2].ID
			for _, args := range [][]string{
				{"reset", "--all", "--to", "now"},
				{"delete", id},
				{"delete", "--all"},
				{"import", file},
				{"convert", "--to", "java-latest-version", "--to-processor", "q"},
			} {
				code, out, errOut := s.run(append(args, "--dry-run")...)
				if code != exitOK || !strings.HasPrefix(out, "would ") || !strings.Contains(out, "note: cannot "+args[0]+": lease "+id+" is owned by ") {
					t.Errorf("%v: status %d: %s%s", args, code, out, errOut)
				}
			}
			if code, out, errOut := s.run("release", id, "--dry-run"); code != exitOK || strings.Contains(out, "note: lease "+id) != (owner == "dotnet-host") {
				t.Errorf("release: status %d: %s%s", code, out, errOut)
			}
			// Another lease may be changed meanwhile.
			if code, out, errOut := s.run("reset", s.live[0].ID, "--to", "after:3", "--dry-run"); code != exitOK || strings.Contains(out, "note: ") {
				t.Errorf("status %d: %s%s", code, out, errOut)
			}
		})
	}
}

func TestLeasesAreListedRepeatedly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := behind(t)
		for _, more := range [][]string{nil, {"--json"}} {
			ctx, stop := context.WithTimeout(t.Context(), 12*time.Second)
			var out, errOut strings.Builder
			code := run(ctx, append([]string{"leases", "ls", "--watch", "--data", s.dir, "--database", "shop", "--container", "orders"}, more...), strings.NewReader(""), &out, &errOut)
			stop()
			text := out.String()
			if code != exitOK || errOut.String() != "" || strings.Count(text, "LSN 30") != 3 || more != nil && strings.Count(text, "\n") != 3 {
				t.Errorf("status %d: %s%s", code, text, errOut.String())
			}
			times := map[string]bool{}
			for _, at := range regexp.MustCompile(`(?m)^(?:\{"time":")?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z)`).FindAllStringSubmatch(text, -1) {
				times[at[1]] = true
			}
			if len(times) != 3 {
				t.Errorf("the lists do not begin with three times: %s", text)
			}
		}
	})
}

// A lease without a position was once said to skip an unknown number of changes.
func TestAResetToTheBeginningSkipsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		l := whole(s.live[0], 0)
		l.Continuation = ""
		s.edit(func(db *store.DB) { s.put(db, s.codec.Encode(l)) })
		time.Sleep(long)
		for to, want := range map[string]string{
			"beginning": "it skips no changes; what 1 lease delivers again is unknown: there is no position yet",
			"now":       "what 1 lease skips is unknown: there is no position yet",
		} {
			if code, out, errOut := s.run("reset", l.Token, "--to", to, "--dry-run"); code != exitOK || !strings.Contains(out, "\n"+want) {
				t.Errorf("%s: status %d: %s%s", to, code, out, errOut)
			}
		}
	})
}

// After splits and merges, the tokens of leases and the bounds of ranges have 32 digits. The
// list must be readable in a terminal of 120 columns even so, with long names of hosts and
// the position after a merge.
func TestALongListOfLeasesFitsATerminal(t *testing.T) {
	s := leasesOf(t)
	l := part(s.live[0].Range.Min, s.live[1].Range.Max, 1234567)
	s.edit(func(db *store.DB) {
		s.drop(db, s.codec.LeaseID(s.live[0].ID))
		s.drop(db, s.codec.LeaseID(s.live[1].ID))
		l.Owner = "mailer-shop-orders-production-7d9f6c8b5-x2k4q/0123abcd"
		s.put(db, s.codec.Encode(protocol.Wanted(l, "mailer-shop-orders-production-7d9f6c8b5-zz9pl/0123abcd")))
		merged := whole(s.live[2], 10)
		merged.Continuation = `"1234567;3FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF:7654321"`
		s.put(db, s.codec.Encode(merged))
	})
	for _, args := range [][]string{{"leases", "ls"}, {"lag"}} {
		_, out, _ := command(t, append(args, "--data", s.dir, "--database", "shop", "--container", "orders")...)
		column := map[string]int{}
		for line := range strings.SplitSeq(out, "\n") {
			if len(line) > 120 && !strings.Contains(line, "not read") {
				t.Errorf("%q", line)
			}
			for _, text := range []string{"WANTED BY", "mailer-s...8b5-zz9pl", "OWNER", "mailer-s...8b5-x2k4q", "POSITION", "LSN 1234567", `"1234567;3FFFFFFF...`} {
				if at := strings.Index(line, text); at >= 0 {
					column[text] = at
				}
			}
		}
		if column["OWNER"] == 0 || column["OWNER"] != column["mailer-s...8b5-x2k4q"] || column["POSITION"] != column["LSN 1234567"] || column["POSITION"] != column[`"1234567;3FFFFFFF...`] ||
			column["WANTED BY"] != column["mailer-s...8b5-zz9pl"] {
			t.Errorf("%v: the columns begin at %v:\n%s", args, column, out)
		}
	}
	// The short name is good for commands, too.
	if code, out, errOut := s.run("reset", view.LeaseName(l.Token), "--to", "after:5", "--yes", "--force"); code != exitOK || s.positions()[l.Token] != "LSN 5" {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
}

// The tokens of leases after splits and merges have up to 64 digits. Plans, findings and the
// lines of a release must have the short names of `leases ls`, but JSON the whole tokens.
func TestPlansAndFindingsHaveTheShortNamesOfTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		l := part(s.live[0].Range.Min, s.live[1].Range.Max, 10)
		s.edit(func(db *store.DB) {
			s.put(db, s.codec.Encode(l))
			s.drop(db, s.codec.LeaseID(s.live[2].ID))
		})
		time.Sleep(long)
		short := view.LeaseName(l.Token)
		for _, args := range [][]string{
			{"ls"},
			{"check"},
			{"check", "--repair", "--dry-run"},
			{"reset", short, "--to", "after:5", "--dry-run"},
			{"release", short},
			{"delete", "--all", "--dry-run"},
			{"reset", short, "--to", "after:5", "--yes"},
			{"reset", "none", "--to", "now", "--yes"},
		} {
			_, out, errOut := s.run(args...)
			if text := out + errOut; strings.Contains(text, "FFFFFFFFF") || !strings.Contains(text, short) {
				t.Errorf("%v: %s", args, text)
			}
		}
		if _, out, errOut := s.run("check", "--json"); !strings.Contains(out, l.Token) {
			t.Errorf("%s%s", out, errOut)
		}
	})
}
