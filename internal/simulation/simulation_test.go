package simulation

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/race"
)

var (
	simSeeds   = flag.Int("sim.seeds", 0, "simulation seeds to run (default 300; 50 with -short or -race)")
	simFirst   = flag.Uint64("sim.first", 1, "first seed")
	simSeed    = flag.Uint64("sim.seed", 0, "run only this seed")
	simTrace   = flag.Bool("sim.trace", false, "print the trace of the seed")
	simShrink  = flag.Bool("sim.shrink", false, "with -sim.seed: leave out all parts of the seed that its failure does not need")
	simRepeat  = flag.Int("sim.repeat", 40, "seeds that TestSeedRepeatsItself runs on 1, 2 and 4 processors")
	simRule    = flag.String("sim.rule", "", "judge by this rule alone; docs/simulation.md lists the rules")
	simFeature = flag.String("sim.feature", "", "run only seeds with this feature; docs/simulation.md lists the features")
)

// seeds returns the number of seeds of a test that runs all of them by default.
func seeds() int {
	switch {
	case *simSeeds > 0:
		return *simSeeds
	case testing.Short() || race.Enabled:
		return 50
	}
	return 300
}

// TestSimulation runs the processor under all faults and judges every seed by
// the table of rules.
func TestSimulation(t *testing.T) {
	if *simFeature != "" && !slices.ContainsFunc(allFeatures, func(f feature) bool { return f.name == *simFeature }) {
		t.Fatalf("there is no feature %q; docs/simulation.md lists the features", *simFeature)
	}
	if *simRule != "" && !slices.ContainsFunc(allRules, func(r rule) bool { return r.name == *simRule }) {
		t.Fatalf("there is no rule %q; docs/simulation.md lists the rules", *simRule)
	}
	if *simSeed != 0 {
		runOneSeed(t)
		return
	}
	total := &totals{}
	runSeeds(nextSeeds(*simFirst, seeds()), func(seed uint64) bool {
		total.add(runPlan(t, planOf(seed), false))
		return !total.failed()
	})
	t.Log(total)
	if f := total.failure; f != nil {
		replay(t, f)
		return
	}
	if *simFeature == "" {
		total.contains(t)
	}
}

// runOneSeed runs the seed of -sim.seed.
func runOneSeed(t *testing.T) {
	p := planOf(*simSeed)
	s := runPlan(t, p, true)
	if *simShrink && len(s.violations) > 0 {
		p = shrink(t, p, s.violations[0].rule)
		s = runPlan(t, p, true)
	}
	if *simTrace {
		t.Logf("%s", s.trace)
	}
	t.Logf("%s\n%s", newScenario(p), s)
	for _, v := range s.violations {
		t.Errorf("seed %d: %s", p.seed, v)
	}
}

// nextSeeds returns a function that returns n seeds, one at a time, and then false. If
// -sim.feature is set, each seed has the feature. The function may be called
// concurrently.
func nextSeeds(first uint64, n int) func() (uint64, bool) {
	var mu sync.Mutex
	next := first
	return func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		for *simFeature != "" && n > 0 && !newScenario(planOf(next)).has(*simFeature) {
			next++
		}
		next++
		n--
		return next - 1, n >= 0
	}
}

// runSeeds calls run for each seed that next returns, on all processors, until run
// returns false.
func runSeeds(next func() (uint64, bool), run func(seed uint64) bool) {
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed, ok := next(); ok && run(seed); seed, ok = next() {
			}
		})
	}
	wg.Wait()
}

// contains checks that the seeds contain enough events on average.
func (t *totals) contains(test *testing.T) {
	const enough, forEveryFeature = 300, 3000
	if t.seeds < enough { // fewer seeds have no meaningful average
		return
	}
	for _, c := range []struct {
		what         string
		sum, atLeast int
	}{
		{"hosts", t.hosts, 3},
		{"partitions", t.partitions, 4},
		{"changes", t.writes.changes, 1000},
		{"splits and merges", t.topology, 1},
		{"crashes", t.crashes, 2},
		{"faults", t.faults, 20},
		{"lease moves", t.moves, 3},
	} {
		if c.sum < c.atLeast*t.seeds {
			test.Errorf("%d seeds contained %d %s; want at least %d a seed", t.seeds, c.sum, c.what, c.atLeast)
		}
	}
	share := func(n int) float64 { return float64(n) / float64(t.writes.changes) }
	if r, d := share(t.writes.rewrites), share(t.writes.deletes); d < 0.15 || d > 0.25 || r+d < 0.4 || r+d > 0.6 {
		test.Errorf("%.2f of the changes rewrite an item and %.2f delete one; want about 0.3 and 0.2", r, d)
	}
	if t.seeds < forEveryFeature {
		return // TestEveryFeatureIsDrawn checks at least that the seeds can have each feature
	}
	for _, f := range allFeatures {
		// A feature of one seed in a hundred is missing from 3,000 seeds with a
		// probability of 1e-13.
		if o := t.features[f.name]; o.seeds == 0 || o.times == 0 {
			test.Errorf("%d seeds have the feature %q, and it occurred %d times", o.seeds, f.name, o.times)
		}
	}
	n := t.features[foreignHosts].seeds
	if n < t.seeds/10 {
		test.Errorf("%d of %d seeds had foreign hosts", n, t.seeds)
	}
	for _, what := range []string{stolenLeases, takenLeases, fallen, droppedFields} {
		if t.occurred[what] < n {
			test.Errorf("%d seeds with foreign hosts had %d %s", n, t.occurred[what], what)
		}
	}
}

// Some of the first 3,000 seeds must have each feature, or `make sim` would never test it.
// This test only draws the seeds, which takes a fraction of a second, because the seeds
// that `go test` runs are too few for the rare features.
func TestEveryFeatureIsDrawn(t *testing.T) {
	drawn := map[string]bool{}
	for seed := range uint64(3000) {
		for name := range newScenario(planOf(seed + 1)).features {
			drawn[name] = true
		}
	}
	for _, f := range allFeatures {
		if !drawn[f.name] {
			t.Errorf("no seed has the feature %q", f.name)
		}
	}
}

// replay reports a failed seed. Then it runs the seed again, without the parts that its
// failure does not need, and prints its trace.
func replay(t *testing.T, f *summary) {
	for _, v := range f.violations {
		t.Errorf("seed %d: %s", f.seed, v)
	}
	p := shrink(t, planOf(f.seed), f.violations[0].rule)
	s := runPlan(t, p, true)
	t.Logf("\n%s", tail(s.trace))
	t.Errorf("%s\nmade smaller: %s\nreplay: go test ./internal/simulation -run 'TestSimulation$' -sim.seed=%d -sim.trace -sim.shrink",
		newScenario(planOf(f.seed)), newScenario(p), f.seed)
	for _, v := range s.violations {
		t.Errorf("seed %d, made smaller: %s", f.seed, v)
	}
}

// runPlan runs one plan in a bubble of its own.
func runPlan(t *testing.T, p plan, keepTrace bool) (s summary) {
	if *simRule != "" {
		p.rules = slices.DeleteFunc(slices.Clone(p.rules), func(r rule) bool { return r.name != *simRule })
	}
	synctest.Test(t, func(t *testing.T) {
		sc := newScenario(p)
		e, err := sc.engine(t.Context())
		if err != nil {
			t.Errorf("seed %d: %v", p.seed, err)
			return
		}
		s = sc.simulate(t.Context(), e, keepTrace)
	})
	return s
}

// occurrence counts the seeds that have a feature, and how often it occurred in them.
type occurrence struct{ seeds, times int }

// totals contains the sums over the seeds.
type totals struct {
	mu                                                  sync.Mutex // guards the fields below
	seeds                                               int
	hosts, partitions, topology, crashes, faults, moves int
	writes                                              writes
	features                                            map[string]occurrence
	occurred                                            map[string]int
	simulated                                           time.Duration
	failure                                             *summary
}

func (t *totals) add(s summary) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seeds++
	t.hosts += s.hosts
	t.partitions += s.partitions
	t.writes.add(s.writes)
	t.topology += s.topology
	t.crashes += s.crashes
	t.faults += s.faults
	t.moves += s.moves
	t.simulated += s.simulated
	if t.features == nil {
		t.features, t.occurred = map[string]occurrence{}, map[string]int{}
	}
	for what, n := range s.occurred {
		t.occurred[what] += n
	}
	for name, times := range s.features {
		o := t.features[name]
		o.seeds++
		o.times += times
		t.features[name] = o
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
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %s of simulated time; on average %.1f hosts, %.1f partitions, %.0f changes, "+
		"%.1f splits and merges, %.1f crashes, %.0f faults, %.1f lease moves, %.0f redeliveries\n",
		t.seeds, t.simulated.Round(time.Minute), float64(t.hosts)/n, float64(t.partitions)/n, float64(t.writes.changes)/n,
		float64(t.topology)/n, float64(t.crashes)/n, float64(t.faults)/n, float64(t.moves)/n, float64(t.writes.redelivered)/n)
	fmt.Fprintf(&b, "changes: %+v\n", t.writes)
	for _, what := range []string{foreignJoins, stolenLeases, takenLeases, fallen, droppedFields} {
		fmt.Fprintf(&b, "%d %s\n", t.occurred[what], what)
	}
	fmt.Fprintf(&b, "%8s %9s  feature\n", "seeds", "times")
	for _, f := range allFeatures {
		o := t.features[f.name]
		fmt.Fprintf(&b, "%8d %9d  %s\n", o.seeds, o.times, f.name)
	}
	return b.String()
}

// A seed always gives the same run, to the nanosecond, however many processors there are
// and however busy they are. Otherwise a failed seed could not be replayed.
func TestSeedRepeatsItself(t *testing.T) {
	seeds := *simRepeat
	if testing.Short() || race.Enabled {
		seeds = min(seeds, 10)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	first := map[uint64]summary{}
	for _, processors := range []int{1, 2, 4} {
		runtime.GOMAXPROCS(processors)
		runSeeds(nextSeeds(*simFirst, seeds), func(seed uint64) bool {
			p := planOf(seed)
			p.disturbed = processors > 1
			s := runPlan(t, p, false)
			mu.Lock()
			defer mu.Unlock()
			if _, ran := first[seed]; !ran {
				first[seed] = s
			}
			if s.hash != first[seed].hash || !slices.Equal(s.violations, first[seed].violations) {
				t.Errorf("seed %d ran differently on %d processors (%s, then %s)", seed, processors, first[seed], s)
			}
			return true
		})
	}
}

func (s summary) String() string {
	return fmt.Sprintf("%d hosts, %d partitions, %d changes, %d splits and merges, %d crashes, %d faults, %d foreign hosts",
		s.hosts, s.partitions, s.writes.changes, s.topology, s.crashes, s.faults, s.occurred[foreignJoins])
}

func (w *writes) add(o writes) {
	w.changes += o.changes
	w.rewrites += o.rewrites
	w.deletes += o.deletes
	w.expired += o.expired
	w.redelivered += o.redelivered
}
