package simulation

import (
	"slices"
	"testing"
	"time"
)

// A feature of users' runs that is missing from the table of all features would be tested
// nowhere, and have no row in docs/simulation.md.
func TestUsersFeaturesAreInTheTableOfAllFeatures(t *testing.T) {
	for _, f := range features {
		if !slices.ContainsFunc(allFeatures, func(o feature) bool { return o.name == f.name }) {
			t.Errorf("the feature %q is not in allFeatures", f.name)
		}
	}
	named := map[string]bool{}
	for _, f := range allFeatures {
		if named[f.name] {
			t.Errorf("the feature %q is twice in allFeatures", f.name)
		}
		named[f.name] = true
	}
}

// drawLarge draws up to 32 partitions, and up to 16 hosts that run at the same time.
func (s *scenario) drawLarge(d *draw) {
	s.partitions = d.between(16, 32)
	s.add(d, d.between(9, 13), eventJoin, 0, 0.3)
}

// transactions is the number of transactions in a seed with many of them.
const transactions = 5000

// drawManyTransactions draws 5,000 transactions. There are few partitions, so each has
// thousands of transactions. A handler that gets one or five changes at a time would not
// handle all of them before the end of the run.
func (s *scenario) drawManyTransactions(d *draw) {
	s.partitions = d.between(1, 3)
	if s.maxItems == 1 || s.maxItems == 5 {
		s.maxItems = 20
	}
	s.add(d, transactions, eventWrite, 0, 1)
}

// drawRefusedMoves draws a start time up to 40 s after the start of the run. Until some
// time after it, hosts join and end, and partitions change. So the leases get other owners
// and children while their positions are before the start time.
func (s *scenario) drawRefusedMoves(d *draw) {
	s.startAfter = d.span(5*time.Second, 40*time.Second)
	end := float64(s.startAfter+20*time.Second) / float64(s.active)
	s.add(d, d.between(1, 3), eventJoin, 0, end)
	s.add(d, d.between(1, 3), eventLeave, 0, end)
	s.add(d, d.between(1, 3), eventSplit, 0, end)
	s.add(d, d.between(0, 2), eventMerge, 0, end)
	s.add(d, 60, eventWrite, 0, end)
	if s.faultLevel != calm {
		s.add(d, d.between(0, 2), eventCrash, 0, end)
		s.add(d, d.between(0, 2), eventCrashWrite, 0, end)
	}
}
