package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// All commands use the same names for modes. In this release they also accept the former
// name of a mode, and write a warning.
func TestARetiredWordIsAcceptedWithAWarning(t *testing.T) {
	dir := shop(t, time.Hour)
	code, out, errOut := command(t, tailOf(dir, "--mode", modeAVAD, "--from", "after:0")...)
	if code != exitOK || errOut != "" || out == "" {
		t.Fatalf("status %d: %s%s", code, out, errOut)
	}
	code, same, errOut := command(t, tailOf(dir, "--mode", retiredMode, "--from", "after:0")...)
	if code != exitOK || !sameLines(same, out) || !strings.Contains(errOut, "warning: --mode all-versions is deprecated") || !strings.Contains(errOut, "--mode avad") {
		t.Errorf("status %d: %s%s; want the output\n%s", code, same, errOut, out)
	}
	for _, args := range [][]string{
		{"leases", "check", "--data", dir, "--database", "shop", "--container", "orders"},
		{"replicate", "--data", dir, "--from", "shop/none", "--to", "shop/copy"},
	} {
		if _, _, errOut := command(t, append(args, "--mode", modeAVAD)...); strings.Contains(errOut, "--mode") {
			t.Errorf("%v doesn't know %s: %s", args, modeAVAD, errOut)
		}
		if _, _, errOut := command(t, append(args, "--mode", retiredMode)...); !strings.Contains(errOut, "deprecated") {
			t.Errorf("%v: no warning of %s: %s", args, retiredMode, errOut)
		}
		if code, _, errOut := command(t, append(args, "--mode", "some")...); code != exitUsage || !strings.Contains(errOut, `--mode is "some": it must be latest or avad`) {
			t.Errorf("%v: status %d: %s", args, code, errOut)
		}
	}
}

// sameLines reports whether two texts consist of the same lines, in any order. The order
// of partitions in outputs is not defined.
func sameLines(a, b string) bool {
	lines, others := strings.Split(a, "\n"), strings.Split(b, "\n")
	slices.Sort(lines)
	slices.Sort(others)
	return slices.Equal(lines, others)
}

// The JSON of `lag` and of `leases ls` must use the same key for the name of a lease.
func TestALeasesNameHasOneKeyInJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		_, lag, errOut := command(t, "lag", "--data", s.dir, "--database", "shop", "--container", "orders", "--json")
		if errOut != "" {
			t.Error(errOut)
		}
		code, ls, errOut := s.run("ls", "--json")
		if code != exitOK || !strings.Contains(errOut, `warning: the key "token"`) {
			t.Errorf("status %d: %s", code, errOut)
		}
		for name, text := range map[string]string{"lag": lag, "ls": ls} {
			var listed struct{ Leases []map[string]any }
			if err := json.Unmarshal([]byte(text), &listed); err != nil || len(listed.Leases) != len(s.live) {
				t.Fatalf("%s: %v in %s", name, err, text)
			}
			for i, l := range listed.Leases {
				if l["lease"] != s.live[i].ID || name == "ls" && l["token"] != l["lease"] {
					t.Errorf("%s: lease %d is %v; want the name %s", name, i, l, s.live[i].ID)
				}
			}
		}
	})
}
