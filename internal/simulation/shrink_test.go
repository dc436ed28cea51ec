package simulation

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// shrinkRuns is the largest number of runs by which shrink makes a seed smaller.
const shrinkRuns = 500

// shrinkEvents limits the number of runs of a seed with many events, because each run of
// it takes long. It is about the sum of the events of all runs.
const shrinkEvents = 200_000

// shrink makes a failing seed smaller, as long as it still breaks the rule. It
// leaves out features first, then as many events as possible: joins, writes, crashes,
// splits and all others. The result depends on the plan only.
func shrink(t *testing.T, p plan, rule string) plan {
	t.Helper()
	left := min(shrinkRuns, max(20, shrinkEvents/len(newScenario(p).events)))
	return smallest(p, func(p plan) (fails bool) {
		left--
		// A defect may also make a smaller plan panic. That is another failure.
		defer func() { fails = recover() == nil && fails }()
		return left >= 0 && slices.ContainsFunc(runPlan(t, p, false).violations, func(v violation) bool { return v.rule == rule })
	})
}

// smallest leaves out features and events of a plan while it still fails.
func smallest(p plan, fails func(plan) bool) plan {
	without := func(p plan, not func(f feature) bool) plan {
		p.features = slices.DeleteFunc(slices.Clone(p.features), not)
		return p
	}
	// Without its other features, the seed could have features that it lacks.
	whole := newScenario(p)
	p = without(p, func(f feature) bool { return !whole.has(f.name) })
	for _, has := range slices.Backward(p.features) {
		if !newScenario(p).has(has.name) {
			continue
		}
		if smaller := without(p, func(f feature) bool { return f.name == has.name }); fails(smaller) {
			p = smaller
		}
	}
	return dropEvents(p, fails)
}

// dropEvents drops events of a plan while it still fails: first halves of the events,
// then smaller and smaller parts, and at last single ones.
func dropEvents(p plan, fails func(plan) bool) plan {
	p.drop = map[int]bool{}
	for size := len(newScenario(p).events) / 2; size > 0; size /= 2 {
		for from := 0; ; {
			events := newScenario(p).events
			if from >= len(events) {
				break
			}
			smaller := p
			smaller.drop = maps.Clone(p.drop)
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

// A failure that needs two events and one feature must become a plan with these alone.
func TestSmallestKeepsOnlyTheCause(t *testing.T) {
	p := planOf(1)
	for !newScenario(p).has(pauses) || !newScenario(p).has(filters) {
		p.seed++
	}
	writes := slices.DeleteFunc(newScenario(p).events, func(e event) bool { return e.kind != eventWrite })
	cause := []time.Duration{writes[3].at, writes[len(writes)-9].at}
	runs := 0
	got := newScenario(smallest(p, func(p plan) bool {
		runs++
		s := newScenario(p)
		left := cause
		for _, e := range s.events {
			if e.kind == eventWrite && len(left) > 0 && e.at == left[0] {
				left = left[1:]
			}
		}
		return len(left) == 0 && s.has(filters)
	}))
	var at []time.Duration
	for _, e := range got.events {
		at = append(at, e.at)
	}
	if !slices.Equal(at, cause) {
		t.Errorf("the events at %v are left, want %v", at, cause)
	}
	for name := range got.features {
		if name != filters {
			t.Errorf("the feature %s is left", name)
		}
	}
	if runs > shrinkRuns {
		t.Errorf("%d runs were needed, more than %d", runs, shrinkRuns)
	}
}
