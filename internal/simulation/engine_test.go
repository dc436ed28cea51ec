package simulation

import (
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/internal/race"
)

// engines are the engines that run the scripted tests: the engine in memory, and a server
// over the embedded store, reached over HTTP. The simulation also runs some seeds on the
// store in process.
var engines = []struct {
	name string
	make func(t *testing.T, s setting) engine
}{
	{"memory", func(_ *testing.T, s setting) engine {
		return newMemEngine(newStoreClock(s.offset, 0), memory.Options{Partitions: s.partitions, RefuseTimesAfterMerge: s.refusesTimes})
	}},
	{"cosmos", func(t *testing.T, s setting) engine {
		if s.why != "" {
			t.Skip("it needs " + s.why)
		}
		if s.partitions > 16 && race.Enabled {
			t.Skip("it takes a minute under the race detector")
		}
		return newCosmosEngine(t, s.partitions, s.mode)
	}},
}

// onEachEngine runs a script once for each engine, each time in a subtest and a
// testing/synctest bubble of its own.
func onEachEngine(t *testing.T, options []option, script func(t *testing.T, c worldConfig, e engine)) {
	t.Helper()
	for _, kind := range engines {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := worldConfig{seed: 7, times: defaultTimes(), rules: allRules}
				set := setting{partitions: 2}
				for _, o := range options {
					o(&c, &set)
				}
				script(t, c, kind.make(t, set))
			})
		})
	}
}
