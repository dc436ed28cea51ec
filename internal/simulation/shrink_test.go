package simulation

import (
	"maps"
	"slices"
	"testing"
)

// shrinkRuns is the largest number of runs by which shrink makes a seed smaller.
const shrinkRuns = 300

// shrink makes a failing seed smaller, as long as it still violates the invariant. It
// leaves out features first, then as many events as possible: joins, writes, crashes,
// splits and all others. The result depends on the plan only.
func shrink(t *testing.T, p plan, invariant int) plan {
	t.Helper()
	left := shrinkRuns
	fails := func(p plan) bool {
		left--
		return left >= 0 && slices.ContainsFunc(runPlan(t, p, false).violations, func(v violation) bool { return v.invariant == invariant })
	}
	for _, f := range slices.Backward(features) {
		if !newScenario(p).has(f.name) {
			continue
		}
		smaller := p
		smaller.without = maps.Clone(p.without)
		if smaller.without == nil {
			smaller.without = map[string]bool{}
		}
		smaller.without[f.name] = true
		if fails(smaller) {
			p = smaller
		}
	}
	return dropEvents(p, fails)
}

// dropEvents drops events of a plan while it still fails: first halves of the events,
// then smaller and smaller parts, and at last single ones.
func dropEvents(p plan, fails func(plan) bool) plan {
	for size := len(newScenario(p).events) / 2; size > 0; size /= 2 {
		for from := 0; ; {
			events := newScenario(p).events
			if from >= len(events) {
				break
			}
			smaller := p
			smaller.drop = maps.Clone(p.drop)
			if smaller.drop == nil {
				smaller.drop = map[int]bool{}
			}
			for _, e := range events[from:min(from+size, len(events))] {
				smaller.drop[e.id] = true
			}
			if fails(smaller) {
				p = smaller
			} else {
				from += size
			}
		}
	}
	return p
}
