package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestLeasesComeBackFromAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		file := filepath.Join(t.TempDir(), "leases.json")
		if code, out, errOut := s.run("export", "--output", file); code != exitOK || !strings.Contains(out, "wrote 3 leases") {
			t.Fatalf("status %d: %s%s", code, out, errOut)
		}
		if code, _, errOut := s.run("export", "--output", file); code != exitFailed || !strings.Contains(errOut, "exists") {
			t.Errorf("a second export over the first: status %d: %s", code, errOut)
		}
		want := s.positions()
		// Change the leases so that they differ from the file in every way. One is
		// further ahead, one is missing, one is additional, and the marker is missing.
		s.edit(func(db *store.DB) {
			s.put(db, s.codec.Encode(whole(s.live[0], 99)))
			s.drop(db, s.codec.LeaseID(s.live[1].ID))
			s.put(db, s.codec.Encode(part("F0", "F1", 5)))
			s.drop(db, s.codec.MarkerID())
		})
		if code, out, errOut := s.run("import", file, "--dry-run"); code != exitOK || strings.Count(out, "would ") != 5 {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		if code, out, errOut := s.run("import", file, "--yes"); code != exitOK {
			t.Fatalf("status %d: %s%s", code, out, errOut)
		}
		if got := s.positions(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the leases are %v, want %v", got, want)
		}
		if code, out, _ := s.run("check"); code != exitOK {
			t.Errorf("after the import: %s", out)
		}
		// An import under another processor's name creates new leases. The leases of the
		// first processor remain.
		if code, out, errOut := s.run("import", file, "--processor", "q", "--yes"); code != exitOK || strings.Count(out, "done: create") != 4 {
			t.Errorf("another processor: status %d: %s%s", code, out, errOut)
		}
		if code, _, errOut := s.run("ls"); code != exitFailed || !strings.Contains(errOut, `--processor "p"`) || !strings.Contains(errOut, `--processor "q"`) {
			t.Errorf("two processors: status %d: %s", code, errOut)
		}
		// If the monitored container was recreated, the positions in the file are not
		// valid for it.
		var f map[string]any
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &f)
		}
		if err != nil {
			t.Fatal(err)
		}
		f["monitored"].(map[string]any)["containerRid"] = "AAAAAAAAAAA="
		if text, err = json.Marshal(f); err != nil {
			t.Fatal(err)
		}
		write(t, file, string(text))
		if code, _, errOut := s.run("import", file, "--processor", "r"); code != exitFailed || !strings.Contains(errOut, "was recreated") {
			t.Errorf("another container: status %d: %s", code, errOut)
		}
		write(t, file, "{}")
		if code, _, errOut := s.run("import", file); code != exitFailed || !strings.Contains(errOut, "not a file of `changefeed leases export`") {
			t.Errorf("no export: status %d: %s", code, errOut)
		}
		for _, want := range []string{"file " + file + ".not does not exist;", "`changefeed leases export --output FILE`"} {
			if code, _, errOut := s.run("import", file+".not"); code != exitFailed || !strings.Contains(errOut, want) {
				t.Errorf("no file: status %d: %s; want %s", code, errOut, want)
			}
		}
	})
}

func TestLeasesAreResetAndDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		var end int64
		s.edit(func(db *store.DB) {
			c, err := db.Container(t.Context(), "shop", "orders")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 50 {
				r, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%d","customer":"%d"}`, i, i), storetype.WriteOptions{})
				if err != nil {
					t.Fatal(err)
				}
				end = max(end, r.LSN)
			}
		})
		id := s.live[2].ID
		for to, want := range map[string]string{
			"beginning": "beginning", "after:7": "LSN 7", "2000-01-01": "2000-01-01T00:00:00Z",
		} {
			if code, out, errOut := s.run("reset", id, "--to", to, "--yes"); code != exitOK || s.positions()[id] != want {
				t.Errorf("to %s: status %d, at %s: %s%s", to, code, s.positions()[id], out, errOut)
			}
		}
		if code, out, errOut := s.run("reset", "--all", "--to", "now", "--yes"); code != exitOK {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		var highest int64
		for token, position := range s.positions() {
			var lsn int64
			if _, err := fmt.Sscanf(position, "LSN %d", &lsn); err != nil {
				t.Errorf("now of %s is %q", token, position)
			}
			highest = max(highest, lsn)
		}
		if highest < end {
			t.Errorf("now is LSN %d, and LSN %d is written", highest, end)
		}
		s.edit(func(db *store.DB) { s.put(db, s.codec.Encode(whole(s.retired, 4))) })
		if code, _, errOut := s.run("reset", s.live[0].ID, "--to", "beginning"); code != exitFailed || !strings.Contains(errOut, "waits for the end of its parent "+s.retired.ID) {
			t.Errorf("a child: status %d: %s", code, errOut)
		}
		if code, out, errOut := s.run("delete", s.retired.ID, "--yes"); code != exitOK || len(s.positions()) != 3 {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		if code, _, errOut := s.run("delete", "nonsense"); code != exitUsage || !strings.Contains(errOut, "lease nonsense does not exist; the existing ones are ") {
			t.Errorf("status %d: %s", code, errOut)
		}
		// An unreadable document can be deleted by its id, which the commands print.
		broken := s.codec.LeaseID("broken")
		s.edit(func(db *store.DB) { s.put(db, fmt.Appendf(nil, `{"id":%q,"version":77}`, broken)) })
		if _, out, _ := s.run("check"); !strings.Contains(out, "the document "+broken+" cannot be read") {
			t.Errorf("check says %s", out)
		}
		if code, out, errOut := s.run("delete", broken, "--yes"); code != exitOK || !strings.Contains(out, broken) {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		if code, out, errOut := s.run("delete", "--all", "--yes"); code != exitOK || !strings.HasPrefix(out, "the plan:\n  delete the marker\n") || !strings.Contains(out, "\ndone: delete the marker\ndone: delete lease ") || strings.Count(out, "done: ") != 4 {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		if code, _, errOut := s.run("ls"); code != exitFailed || !strings.Contains(errOut, "there are no leases of shop/orders in shop/leases") {
			t.Errorf("status %d: %s", code, errOut)
		}
	})
}

func TestLeasesAreConvertedThereAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		want := s.positions()
		refused := func(why string, args ...string) {
			t.Helper()
			if code, out, errOut := s.run(append([]string{"convert"}, args...)...); code != exitFailed || out != "" || !strings.Contains(errOut, why) {
				t.Errorf("%v: status %d: %s%s; want it to say %q", args, code, out, errOut, why)
			}
		}
		refused("have the same ids", "--to", "java-latest-version")
		refused("already are in .NET's dialect", "--to", "dotnet")
		code, out, errOut := s.run("convert", "--to", "java-latest-version", "--to-processor", "j", "--dry-run")
		if code != exitOK || !strings.Contains(out, `    - ContinuationToken: "\"10\""`) || !strings.Contains(out, `    + ContinuationToken: {"V":1,`) || strings.Contains(out, "done") {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		for _, hop := range [][]string{
			{"--to", "java-latest-version", "--to-processor", "j"},
			{"--processor", "j", "--to", "java-handle-changes"},
			{"--processor", "j", "--dialect", "java-handle-changes", "--to", "dotnet", "--to-processor", "back"},
		} {
			if code, out, errOut := s.run(append([]string{"convert", "--yes"}, hop...)...); code != exitOK || strings.Count(out, "done: create lease") != 3 || strings.Count(out, "done: delete lease") != 3 {
				t.Fatalf("%v: status %d: %s%s", hop, code, out, errOut)
			}
		}
		if got := s.positions(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the leases are %v, want %v", got, want)
		}
		if code, out, _ := s.run("check"); code != exitOK || !strings.Contains(out, `3 leases of the processor "back"`) {
			t.Errorf("status %d: %s", code, out)
		}
		// A marker is left from the first dialect, so a conversion back to that dialect
		// fails. The command in the error message must delete the marker, and no lease.
		hint := "leases delete --all --processor j --dialect java-latest-version"
		if code, out, errOut := s.run("convert", "--processor", "back", "--to", "java-latest-version", "--to-processor", "j"); code != exitFailed || out != "" || !strings.Contains(errOut, "`changefeed "+hint+"`") {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		if code, out, errOut := s.run(append(strings.Fields(hint)[1:], "--yes")...); code != exitOK || out != "the plan:\n  delete the marker\nit skips no changes\ndone: delete the marker\n" {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		if got := s.positions(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the leases are %v, want %v", got, want)
		}
		// This dialect cannot represent a lease for a part of a partition. So the
		// conversion must write nothing.
		s.edit(func(db *store.DB) {
			back, err := lease.NewCodec(lease.DotNet, lease.Key{Processor: "back", Identity: s.identity}, false)
			if err != nil {
				t.Fatal(err)
			}
			s.put(db, back.Encode(part("F0", "F1", 5)))
		})
		if code, out, errOut := s.run("convert", "--processor", "back", "--to", "java-handle-changes"); code != exitFailed || out != "" || !strings.Contains(errOut, "cannot convert lease F0-F1") {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
	})
}

// A lease whose range begins at the first key has a token that begins with "-". Commands
// accept it as an argument, although it looks like a flag.
func TestLeasesAtTheStartAreNamedByTheirTokens(t *testing.T) {
	s := leasesOf(t)
	token := "-" + s.live[0].Range.Max
	s.edit(func(db *store.DB) {
		s.drop(db, s.codec.LeaseID(s.live[0].ID))
		s.put(db, s.codec.Encode(part("", s.live[0].Range.Max, 10)))
	})
	for _, args := range [][]string{
		{"reset", token, s.live[1].ID, "--to", "after:5", "--yes"},
		{"release", token},
		{"release", "--dry-run", token, "--timeout", "5s"},
		{"delete", token, "--dry-run"},
		{"delete", token, "--yes"},
	} {
		if code, out, errOut := s.run(args...); code != exitOK || !strings.Contains(out, "lease "+view.LeaseName(token)) {
			t.Errorf("%v: status %d: %s%s", args, code, out, errOut)
		}
	}
	// The value of a flag is not a token, even if it begins with "-". Other arguments
	// that begin with "-" are unknown flags.
	if code, out, errOut := s.run("release", "--processor", "-FF", "--all"); code != exitFailed || !strings.Contains(errOut, `of the processor "-FF"`) {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	if code, out, errOut := s.run("release", "-x"); code != exitUsage || !strings.Contains(errOut, "unknown flag -x") {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
}

// If a conversion is killed at any step, the same command run again finishes it.
func TestLeasesConvertResumesAfterAnInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		to, err := lease.NewCodec(lease.JavaHandleChanges, lease.Key{Processor: "p", Identity: s.identity}, false)
		if err != nil {
			t.Fatal(err)
		}
		convert := []string{"convert", "--to", "java-handle-changes", "--yes"}
		// Create the state after a kill at which one new lease and the lock existed.
		s.edit(func(db *store.DB) {
			s.put(db, to.Encode(whole(s.live[0], 10)))
			s.put(db, to.Lock())
		})
		if code, _, errOut := s.run(convert...); code != exitFailed || !strings.Contains(errOut, "the target is locked") {
			t.Errorf("locked: status %d: %s", code, errOut)
		}
		s.edit(func(db *store.DB) { s.drop(db, to.LockID()) })
		if code, out, errOut := s.run(append(convert, "--dry-run")...); code != exitOK || !strings.Contains(out, "lease "+s.live[0].ID+" exists already") {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
		// Create the state after a kill at which all new leases existed and one old lease
		// was deleted.
		s.edit(func(db *store.DB) {
			s.put(db, to.Encode(whole(s.live[1], 20)))
			s.put(db, to.Encode(whole(s.live[2], 30)))
			s.put(db, to.Marker())
			s.drop(db, s.codec.LeaseID(s.live[0].ID))
		})
		if code, out, errOut := s.run(convert...); code != exitOK || strings.Contains(out, "create") || strings.Count(out, "done: delete lease") != 2 {
			t.Errorf("status %d: %s%s", code, out, errOut)
		} else if strings.Contains(errOut, "no lease covers") {
			t.Errorf("it reports a deleted lease as a hole: %s", errOut)
		}
		if got := s.positions(); len(got) != 3 {
			t.Errorf("the leases are %v", got)
		}
		// If a host uses the target, its leases do not come from an earlier attempt of
		// this conversion. The conversion must then fail.
		other := leasesOf(t)
		other.edit(func(db *store.DB) {
			to, err := lease.NewCodec(lease.JavaHandleChanges, lease.Key{Processor: "p", Identity: other.identity}, false)
			if err != nil {
				t.Fatal(err)
			}
			other.put(db, to.Encode(whole(other.live[0], 77)))
		})
		if code, out, errOut := other.run(convert...); code != exitFailed || out != "" || !strings.Contains(errOut, "at another position") {
			t.Errorf("status %d: %s%s", code, out, errOut)
		}
	})
}

// Azure Functions' processor has no name by default, but processors of this project need
// one. A conversion to another dialect must be able to give the leases a name.
func TestLeasesOfAProcessorWithoutANameAreMovedToOneWithAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		nameless, err := lease.NewCodec(lease.DotNet, lease.Key{Identity: s.identity}, false)
		if err != nil {
			t.Fatal(err)
		}
		s.edit(func(db *store.DB) {
			for i, p := range s.live {
				s.put(db, nameless.Encode(whole(p, 1+i)))
			}
			s.put(db, nameless.Marker())
		})
		file := filepath.Join(t.TempDir(), "leases.json")
		for _, args := range [][]string{
			{"export", "--processor", "", "-o", file},
			{"import", file, "--processor", "named", "--yes"},
			{"check", "--processor", "named"},
			{"delete", "--all", "--processor", "", "--yes"},
		} {
			if code, out, errOut := s.run(args...); code != exitOK {
				t.Fatalf("%v: status %d: %s%s", args, code, out, errOut)
			}
		}
		if code, _, errOut := s.run("ls", "--processor", ""); code != exitFailed || !strings.Contains(errOut, `of the processor ""`) {
			t.Errorf("status %d: %s", code, errOut)
		}
		if code, out, _ := s.run("ls", "--processor", "named"); code != exitOK || !strings.Contains(out, "LSN 3") {
			t.Errorf("status %d: %s", code, out)
		}
	})
}
