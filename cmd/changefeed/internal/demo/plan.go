package demo

import (
	"math/rand/v2"
	"time"
)

// plan is the course of a run. The seed determines it. Moments are shares of the first
// wave: 0.5 is when half of the records are written.
type plan struct {
	// wave is the minimum duration of the first wave.
	wave time.Duration
	// joins are the moments at which the second and further hosts join.
	joins []float64
	// split is when a partition is split. splitAt selects the partition by its index, as
	// a share of the partitions at that moment.
	split, splitAt float64
	// crash is when a host crashes, and victim is its index.
	crash  float64
	victim int
	seed   uint64
}

// perRecord and the bounds of a wave give a run of any size a duration that can be
// watched. The flights are written in ten seconds.
const (
	perRecord = 500 * time.Microsecond
	minWave   = 4 * time.Second
	maxWave   = 12 * time.Second
)

func newPlan(seed uint64, records, hosts int) plan {
	draw := rand.New(rand.NewPCG(seed, 0x6465_6d6f))
	p := plan{
		wave:    min(max(time.Duration(records)*perRecord, minWave), maxWave),
		split:   0.40 + 0.15*draw.Float64(),
		splitAt: draw.Float64(),
		crash:   0.65 + 0.20*draw.Float64(),
		victim:  draw.IntN(hosts),
		seed:    seed,
	}
	for i := 1; i < hosts; i++ {
		p.joins = append(p.joins, 0.40*(float64(i)-0.6*draw.Float64())/float64(hosts-1))
	}
	return p
}

// updates reports whether the second wave updates the record in a row. It does for about
// every fourth.
func (p plan) updates(row int) bool {
	return rand.NewPCG(p.seed, uint64(row)).Uint64()%4 == 0
}
