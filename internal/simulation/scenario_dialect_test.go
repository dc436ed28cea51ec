package simulation

import (
	"testing"

	"github.com/changefeed-go/changefeed/lease"
)

// The seeds prove nothing about dialects that they do not contain.
func TestSomeSeedsUseJavasDialects(t *testing.T) {
	count, splits := map[lease.Dialect]int{}, map[lease.Dialect]int{}
	onStore := 0
	for seed := range uint64(1000) {
		s := newScenario(planOf(seed))
		count[s.dialect]++
		for _, e := range s.events {
			if e.kind == eventSplit {
				splits[s.dialect]++
			}
			if e.kind == eventMerge && s.dialect == lease.JavaHandleChanges {
				t.Errorf("seed %d merges partitions, which %s does not support", seed, s.dialect)
			}
		}
		if s.dialect == lease.JavaLatestVersion && seed%storeEvery == 0 {
			onStore++
		}
	}
	for _, d := range []lease.Dialect{lease.JavaHandleChanges, lease.JavaLatestVersion} {
		if count[d] < 80 || splits[d] < 80 {
			t.Errorf("of 1000 seeds %d are in %s, with %d splits", count[d], d, splits[d])
		}
	}
	if onStore == 0 {
		t.Errorf("no seed in %s runs on the store's documents", lease.JavaLatestVersion)
	}
}
