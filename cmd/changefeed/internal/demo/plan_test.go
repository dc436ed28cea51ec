package demo

import (
	"fmt"
	"slices"
	"testing"
)

func TestPlansOfDifferentSeedsDiffer(t *testing.T) {
	victims, splits := map[int]int{}, map[int]int{}
	scripts := map[string]bool{}
	const seeds = 100
	for seed := range uint64(seeds) {
		p := newPlan(seed, 20_000, 3)
		victims[p.victim]++
		splits[int(p.splitAt*partitions)]++
		scripts[fmt.Sprint(p)] = true
		moments := append(slices.Clone(p.joins), p.split, p.crash)
		if !slices.IsSorted(moments) || moments[0] <= 0 || moments[len(moments)-1] >= 1 {
			t.Errorf("seed %d: things happen at %v, out of order or outside the first wave", seed, moments)
		}
		if p.victim >= 3 || int(p.splitAt*partitions) >= partitions {
			t.Errorf("seed %d: no such host or partition: %+v", seed, p)
		}
	}
	if len(scripts) != seeds || len(victims) != 3 || len(splits) != partitions {
		t.Errorf("%d seeds make %d plans, crash hosts %v and split partitions %v", seeds, len(scripts), victims, splits)
	}
}

func TestSameSeedSamePlan(t *testing.T) {
	if a, b := newPlan(7, 500, 5), newPlan(7, 500, 5); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%+v and %+v", a, b)
	}
}

func TestSecondWaveUpdatesAboutAQuarter(t *testing.T) {
	for seed := range uint64(20) {
		p := newPlan(seed, 20_000, 3)
		n := 0
		for row := range 20_000 {
			if p.updates(row) {
				n++
			}
		}
		if n < 4_700 || n > 5_300 {
			t.Errorf("seed %d updates %d of 20,000 records", seed, n)
		}
	}
}
