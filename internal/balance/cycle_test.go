package balance

import (
	"testing"
	"time"
)

func TestPaceOfQuickCycles(t *testing.T) {
	const none = 0
	ask := Cycle{Wanted: 1}
	for _, c := range []struct {
		name   string
		cycles []Cycle
		want   []time.Duration // the delay after each cycle; without one, the next cycle is a regular one
	}{
		{"nothing happened", []Cycle{{Regular: true}, {Regular: true, Acquired: 7}}, []time.Duration{none, none}},
		{"one step further each time", []Cycle{ask, ask, ask, ask, ask}, []time.Duration{1, 2, 4, 8, 8}},
		{"from 1 again after a regular cycle", []Cycle{ask, ask, ask, {Regular: true, Wanted: 1}, ask}, []time.Duration{1, 2, 4, 1, 2}},
		{"a lease that is still wanted", []Cycle{{Regular: true, Wanted: 3}, {WantsOut: true}, {WantsOut: true}, {}}, []time.Duration{1, 2, 4, none}},
		{"conflicts, and still something acquired", []Cycle{ask, ask, {Conflicts: 16, Acquired: 1}, {Conflicts: 16}}, []time.Duration{1, 2, 1, 2}},
		{"conflicts alone continue", []Cycle{{Conflicts: 1}, {Conflicts: 1}, {Conflicts: 16}}, []time.Duration{1, 2, 4}},
	} {
		var p Pace
		for i, cycle := range c.cycles {
			next, pause, quick := p.After(cycle)
			if pause != c.want[i]*time.Second || quick != (pause > 0) {
				t.Errorf("%s: cycle %d is followed after %v (%v), want %v s", c.name, i, pause, quick, int(c.want[i]))
			}
			p = next
		}
	}
}
