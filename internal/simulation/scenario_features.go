package simulation

import (
	"slices"

	"github.com/changefeed-go/changefeed/lease"
)

// has reports whether the scenario has a feature.
func (s *scenario) has(name string) bool { return s.features[name] }

// drawFeatures draws which features of the plan the scenario has, and sets them.
func (s *scenario) drawFeatures() {
	s.features = map[string]bool{}
	for _, f := range s.plan.features {
		d := newDraw(s.seed, 0, "feature", f.name)
		if !d.chance(f.share) || !s.meets(f.needs) {
			continue
		}
		s.features[f.name] = true
		if f.set != nil {
			f.set(s, &d)
		}
	}
	if s.dialect == lease.JavaHandleChanges {
		s.remove(eventMerge) // the dialect supports no merges
	}
}

// meets reports whether the scenario meets all needs of a feature.
func (s *scenario) meets(needs []need) bool {
	return !slices.ContainsFunc(needs, func(n need) bool { return !n.met(s) })
}
