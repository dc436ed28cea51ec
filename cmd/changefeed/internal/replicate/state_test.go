package replicate

import (
	"strings"
	"testing"
)

// Leases that belong to another replication tell nothing about this one. With them it would
// skip what the other one has copied, without a word.
func TestStateOfAnotherReplicationIsRefused(t *testing.T) {
	st := state{ID: stateID("copy"), FromRID: "from", ToRID: "to", SourceKey: []string{"/a"}, TargetKey: []string{"/b"}, Mode: "latest version"}
	if err := st.fits(st); err != nil {
		t.Errorf("its own state: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*state)
		want   string
	}{
		"another source":     {func(s *state) { s.FromRID = "x" }, "from another container"},
		"another target":     {func(s *state) { s.ToRID = "x" }, "into another container"},
		"another source key": {func(s *state) { s.SourceKey = []string{"/a", "/c"} }, "from key /a to /b, but this one is from /a,/c to /b"},
		"another target key": {func(s *state) { s.TargetKey = nil }, "from key"},
		"another mode":       {func(s *state) { s.Mode = "all versions and deletes" }, "mode latest version"},
	} {
		want := st
		c.change(&want)
		if err := st.fits(want); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "replicate:copy") {
			t.Errorf("%s: %v; want a refusal with %q and the document's id", name, err, c.want)
		}
	}
}
