package main

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// All commands use the same names for modes, and refuse the former name of one by naming
// the present one.
func TestARetiredModeIsRefusedByItsPresentName(t *testing.T) {
	dir := shop(t, time.Hour)
	code, out, errOut := command(t, tailOf(dir, "--mode", modeAVAD, "--from", "after:0")...)
	if code != exitOK || errOut != "" || out == "" {
		t.Fatalf("status %d: %s%s", code, out, errOut)
	}
	for _, args := range [][]string{
		tailOf(dir, "--from", "after:0"),
		{"leases", "check", "--data", dir, "--database", "shop", "--container", "orders"},
		{"replicate", "--data", dir, "--from", "shop/none", "--to", "shop/copy"},
	} {
		if _, _, errOut := command(t, append(args, "--mode", modeAVAD)...); strings.Contains(errOut, "--mode") {
			t.Errorf("%v doesn't know %s: %s", args, modeAVAD, errOut)
		}
		if code, _, errOut := command(t, append(args, "--mode", retiredMode)...); code != exitUsage || !strings.Contains(errOut, "--mode all-versions has another name now; use --mode avad") {
			t.Errorf("%v: status %d: %s", args, code, errOut)
		}
		if code, _, errOut := command(t, append(args, "--mode", "some")...); code != exitUsage || !strings.Contains(errOut, `--mode is "some": it must be latest or avad`) {
			t.Errorf("%v: status %d: %s", args, code, errOut)
		}
	}
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
		if code != exitOK || errOut != "" || strings.Contains(ls, `"token"`) {
			t.Errorf("status %d: %s", code, errOut)
		}
		for name, text := range map[string]string{"lag": lag, "ls": ls} {
			var listed struct{ Leases []map[string]any }
			if err := json.Unmarshal([]byte(text), &listed); err != nil || len(listed.Leases) != len(s.live) {
				t.Fatalf("%s: %v in %s", name, err, text)
			}
			for i, l := range listed.Leases {
				if l["lease"] != s.live[i].ID {
					t.Errorf("%s: lease %d is %v; want the name %s", name, i, l, s.live[i].ID)
				}
			}
		}
	})
}
