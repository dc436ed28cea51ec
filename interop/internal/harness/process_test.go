package harness

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

// obedient is a shell script that answers commands as a process with hosts does.
const obedient = `echo ready
while read -r l; do case "$l" in
  quit) printf 'ok\tquit\n'; exit 0;;
  bad) printf 'failed\tbad\tbecause\n';;
  die) echo 'last words' >&2; exit 7;;
  *) printf 'change\tone\n'; printf 'ok\t%s\n' "$l";;
esac; done`

func launch(t *testing.T) (*Process, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	p, err := Launch(t.Context(), "host", nil, func(fields []string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, strings.Join(fields, " "))
	}, "sh", "-c", obedient)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

func TestProcessAnswersCommandsAndReportsFailures(t *testing.T) {
	p, seen := launch(t)
	if err := p.Command(t.Context(), "start a"); err != nil {
		t.Error(err)
	}
	if err := p.Command(t.Context(), "bad"); err == nil || !strings.Contains(err.Error(), "because") {
		t.Errorf("bad: %v", err)
	}
	if got := seen(); !slices.Equal(got, []string{"change one"}) {
		t.Errorf("the other lines are %q", got)
	}
	if err := p.Quit(t.Context()); err != nil {
		t.Error(err)
	}
	p.Kill() // this has no effect, because the process has ended
}

func TestCommandFailsIfTheProcessEnds(t *testing.T) {
	p, _ := launch(t)
	if err := p.Command(t.Context(), "die"); err == nil || !strings.Contains(err.Error(), "last words") {
		t.Errorf("die: %v", err)
	}
	if p.Command(t.Context(), "start a") == nil {
		t.Error("a command succeeds after the process has ended")
	}
}

func TestLaunchFailsIfTheProcessIsNeverReady(t *testing.T) {
	if _, err := Launch(t.Context(), "host", nil, func([]string) {}, "sh", "-c", "echo no >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "no") {
		t.Errorf("launch: %v", err)
	}
}
