package demo

import (
	"math/rand/v2"
	"time"
)

// plan determines when the events of a run happen. It depends only on the seed and the
// configuration. A moment is a share of the first wave: 0.5 is when half of the records
// have been written.
type plan struct {
	// wave is the minimum duration of the first wave.
	wave time.Duration
	// joins are the moments at which the second and further hosts join.
	joins []float64
	// split is the moment at which a partition is split. splitAt selects it: its index
	// divided by the number of partitions at that moment.
	split, splitAt float64
	// crash is the moment at which a host crashes. victim is the index of that host.
	crash  float64
	victim int
	seed   uint64
}

// perRecord is the time that a wave takes per record, within the bounds below. A run of
// any size then takes a time in which it can be watched. The built-in flights are written
// in ten seconds.
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

// updates reports whether the second wave updates the record with index row. It is true
// for about a quarter of the records.
func (p plan) updates(row int) bool {
	return rand.NewPCG(p.seed, uint64(row)).Uint64()%4 == 0
}
