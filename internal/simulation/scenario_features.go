package simulation

import (
	"fmt"
	"slices"

	"github.com/changefeed-go/changefeed/lease"
)

// featureOf returns the feature with a name. It returns an error if there is none.
func featureOf(name string) (*feature, error) {
	if i := slices.IndexFunc(features, func(f feature) bool { return f.name == name }); i >= 0 {
		return &features[i], nil
	}
	return nil, fmt.Errorf("no feature is named %q; docs/simulation.md lists the features", name)
}

// has reports whether the scenario has a feature.
func (s *scenario) has(name string) bool { return s.features[name] }

// drawFeatures draws which features of the table the scenario has, and sets them.
func (s *scenario) drawFeatures() {
	s.features = map[string]bool{}
	for i := range features {
		f := &features[i]
		d := newDraw(s.seed, 0, "feature", f.name)
		if !d.chance(f.share) || s.plan.where == forUser && !f.users || s.plan.without[f.name] || !s.meets(f.needs) {
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
