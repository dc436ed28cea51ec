package simulation

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	simSeeds = flag.Int("sim.seeds", 0, "simulation seeds to run (default 5000; 300 with -short or -race)")
	simFirst = flag.Uint64("sim.first", 1, "first seed")
	simSeed  = flag.Uint64("sim.seed", 0, "run only this seed")
	simTrace = flag.Bool("sim.trace", false, "print the trace of the seed")
)

// seeds returns the number of seeds of a test that runs all of them by default.
func seeds() int {
	switch {
	case *simSeeds > 0:
		return *simSeeds
	case testing.Short() || raceEnabled:
		return 300
	}
	return 5000
}

// TestSimulation runs the processor under all faults and checks the invariants of the
// lease protocol in every seed.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		s := runSeed(t, *simSeed, true)
		if *simTrace {
			t.Logf("%s", s.trace)
		}
		t.Logf("%s\n%s", newScenario(*simSeed, drawForeign), s)
		for _, v := range s.violations {
			t.Errorf("seed %d: %s", *simSeed, v)
		}
		return
	}
	total := &totals{}
	var next atomic.Uint64
	next.Store(*simFirst)
	end := *simFirst + uint64(seeds())
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < end && !total.failed(); seed = next.Add(1) - 1 {
				total.add(runSeed(t, seed, false))
			}
		})
	}
	wg.Wait()
	t.Log(total)
	if f := total.failure; f != nil {
		replay(t, f.seed)
		return
	}
	total.contains(t)
}

// contains checks that the seeds contain enough events on average.
func (t *totals) contains(test *testing.T) {
	const enough = 300 // fewer seeds have no meaningful average
	if t.seeds < enough {
		return
	}
	for _, c := range []struct {
		what         string
		sum, atLeast int
	}{
		{"hosts", t.hosts, 3},
		{"partitions", t.partitions, 4},
		{"changes", t.changes, 1000},
		{"splits and merges", t.topology, 1},
		{"crashes", t.crashes, 2},
		{"faults", t.faults, 20},
		{"lease moves", t.moves, 3},
	} {
		if c.sum < c.atLeast*t.seeds {
			test.Errorf("%d seeds contained %d %s; want at least %d a seed", t.seeds, c.sum, c.what, c.atLeast)
		}
	}
	if t.onStore == 0 {
		test.Error("no seed ran on the store")
	}
	v := t.visits
	if n := t.foreign; n < t.seeds/10 || v.stolen < n || v.overwritten < n || v.dropped < n || v.fell < n {
		test.Errorf("%d of %d seeds had foreign hosts: %+v", t.foreign, t.seeds, v)
	}
}

// replay runs a failed seed again and prints its trace.
func replay(t *testing.T, seed uint64) {
	s := runSeed(t, seed, true)
	t.Logf("\n%s", tail(s.trace))
	t.Errorf("%s\nreplay: go test ./internal/simulation -run 'TestSimulation$' -sim.seed=%d -sim.trace", newScenario(seed, drawForeign), seed)
	for _, v := range s.violations {
		t.Errorf("seed %d: %s", seed, v)
	}
}

// runSeed runs one seed in a bubble of its own.
func runSeed(t *testing.T, seed uint64, keepTrace bool) (s summary) {
	synctest.Test(t, func(t *testing.T) {
		sc := newScenario(seed, drawForeign)
		e, err := sc.engine(t.Context())
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			return
		}
		s = sc.simulate(t.Context(), e, keepTrace)
	})
	return s
}

// totals contains the sums over the seeds.
type totals struct {
	mu                                                    sync.Mutex // guards the fields below
	seeds                                                 int
	hosts, partitions, changes, topology, crashes, faults int
	redelivered, moves, onStore, foreign                  int
	visits                                                visits
	simulated                                             time.Duration
	failure                                               *summary
}

func (t *totals) add(s summary) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seeds++
	t.hosts += s.hosts
	t.partitions += s.partitions
	t.changes += s.changes
	t.topology += s.topology
	t.crashes += s.crashes
	t.faults += s.faults
	t.redelivered += s.redelivered
	t.moves += s.moves
	t.simulated += s.simulated
	t.visits.add(s.visits)
	if s.visits.hosts > 0 {
		t.foreign++
	}
	if s.seed%storeEvery == 0 {
		t.onStore++
	}
	if len(s.violations) > 0 && (t.failure == nil || s.seed < t.failure.seed) {
		t.failure = &s
	}
}

func (t *totals) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure != nil
}

func (t *totals) String() string {
	n := float64(max(t.seeds, 1))
	return fmt.Sprintf("%d seeds (%d on the store, %d with foreign hosts: %+v), %s of simulated time; on average %.1f hosts, %.1f partitions, %.0f changes, "+
		"%.1f splits and merges, %.1f crashes, %.0f faults, %.1f lease moves, %.0f redeliveries",
		t.seeds, t.onStore, t.foreign, t.visits, t.simulated.Round(time.Minute), float64(t.hosts)/n, float64(t.partitions)/n, float64(t.changes)/n,
		float64(t.topology)/n, float64(t.crashes)/n, float64(t.faults)/n, float64(t.moves)/n, float64(t.redelivered)/n)
}

// A seed always gives the same run, to the nanosecond. Otherwise a failed seed could not
// be replayed.
func TestSeedRepeatsItself(t *testing.T) {
	seeds, times := uint64(50), 5
	if testing.Short() || raceEnabled {
		seeds, times = 10, 3
	}
	var next atomic.Uint64
	next.Store(*simFirst)
	end := *simFirst + seeds
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < end; seed = next.Add(1) - 1 {
				first := runSeed(t, seed, false)
				for range times - 1 {
					if again := runSeed(t, seed, false); again.hash != first.hash {
						t.Errorf("seed %d ran differently a second time (%s, then %s)", seed, first, again)
						break
					}
				}
			}
		})
	}
	wg.Wait()
}

func (s summary) String() string {
	return fmt.Sprintf("%d hosts, %d partitions, %d changes, %d splits and merges, %d crashes, %d faults, %d foreign hosts",
		s.hosts, s.partitions, s.changes, s.topology, s.crashes, s.faults, s.visits.hosts)
}
