package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/seeded"
	"github.com/changefeed-go/changefeed/lease"
)

// scenario is the configuration and the events that a seed determines.
type scenario struct {
	plan        plan
	worldConfig // engine, start, passes and clean are set later

	partitions int
	levels     int // number of components of hierarchical keys; zero without them
	offset     time.Duration
	rate       float64
	startKind  feed.StartKind
	startAfter time.Duration // for a start time: the time from the start of the run to it
	startLSN   int64         // for a continuation
	// cuts are the first and the last of the feedCuts parts of the keys that the processor
	// covers, in seeds with a feed range.
	cuts [2]int
	// active is the time in which events happen. Then everything comes to rest.
	active     time.Duration
	events     []event
	odds       odds
	faultLevel faultLevel
	still      time.Duration   // how long the rest is observed
	features   map[string]bool // by name
	states     states

	// Functions of a user: the documents to write, and the handler of each host or the
	// observer of each worker.
	document func(n int) (feed.PartitionKey, map[string]any)
	handler  func(host string) changefeed.Handler
	observer func(host string, l lease.Lease) (changefeed.Observer, error)
}

// odds contains the probabilities of faults, per call or per batch.
type odds struct {
	request        float64 // a fault of a request to the source or the lease store
	late           float64 // the create of a lease or of the marker arrives late
	torn           float64
	fails          float64
	panics         float64
	slow           float64
	ignoresContext float64 // a slow handler ignores its context
	part           float64 // the handler handles a part of a batch
	stop           float64 // the handler stops its lease
	poison         float64 // the handler can never handle an item
	manual         float64 // the handler checkpoints a batch, with manual checkpoints
}

// faultLevel is the kind of faults in a run.
type faultLevel int

const (
	calm    faultLevel = iota // no faults; hosts join and leave, partitions split and merge
	crashes                   // only crashes of hosts
	rough                     // all faults
)

// plan determines a scenario: by a seed, by what a seed may have, and, for a run that is made
// smaller, by the events to leave out.
type plan struct {
	seed     uint64
	features []feature    // those that the seed may have
	rules    []rule       // those that judge the run
	drop     map[int]bool // events, by their index among the scenario's events
	// overHTTP reports whether the hosts reach the engine over HTTP, on servers with this
	// machine's clock.
	overHTTP bool
	// disturbed reports whether goroutines run in an unusual order. It changes nothing in a
	// run.
	disturbed bool
}

// newScenario draws the scenario of a plan.
func newScenario(p plan) *scenario {
	d := newDraw(p.seed, 0, "scenario")
	s := &scenario{plan: p, worldConfig: worldConfig{seed: p.seed, disturbed: p.disturbed, rules: p.rules, times: drawTimes(&d)}}
	switch p := d.float(); {
	case p < 0.08:
		s.faultLevel = calm
	case p < 0.2:
		s.faultLevel = crashes
	default:
		s.faultLevel = rough
	}
	t := s.times
	s.partitions = 1 + d.intn(8)
	s.offset = d.span(-10*time.Minute, 10*time.Minute)
	margin := max(t.expiration/10, 2*time.Second)
	s.rate = (2*d.float() - 1) * 0.95 * float64(margin) / float64(t.expiration)
	s.startKind = []feed.StartKind{feed.StartNow, feed.StartNow, feed.StartBeginning, feed.StartTime}[d.intn(4)]
	s.startAfter = d.span(-5*time.Second, 30*time.Second)
	s.maxItems, s.readAhead = drawPages(&d)
	s.active = t.expiration * time.Duration(d.between(6, 10))
	s.still = 6 * t.acquire
	s.odds.manual = 0.3 + 0.6*d.float()
	s.drawEvents(&d)
	s.drawFeatures()
	if s.plan.overHTTP {
		s.offset, s.rate = 0, 0
	}
	slices.SortStableFunc(s.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for i := range s.events {
		s.events[i].id = i
	}
	s.events = slices.DeleteFunc(s.events, func(e event) bool { return s.plan.drop[e.id] })
	return s
}

// drawPages draws the sizes of pages and of the pages that are read ahead.
func drawPages(d *draw) (maxItems, readAhead int) {
	return []int{0, 1, 5, 20, 100}[d.intn(5)], []int{-1, 0, 200, 2000}[d.intn(4)]
}

func drawTimes(d *draw) times {
	all := []times{
		defaultTimes(),
		{acquire: 6 * time.Second, renew: 5 * time.Second, expiration: 20 * time.Second, timeout: 4 * time.Second},
		{acquire: 4 * time.Second, renew: 2 * time.Second, expiration: 10 * time.Second, timeout: 3 * time.Second},
		{acquire: 10 * time.Second, renew: 8 * time.Second, expiration: 30 * time.Second, timeout: 5 * time.Second},
	}
	t := all[d.intn(len(all))]
	t.drain = d.span(t.expiration/10, t.expiration/2)
	t.poll = d.span(t.expiration/20, t.expiration/8)
	return t
}

// drawEvents draws the events that every seed has.
func (s *scenario) drawEvents(d *draw) {
	s.add(d, 1+d.intn(3), eventJoin, 0, 0.02)
	s.add(d, d.intn(4), eventJoin, 0, 0.8)
	s.add(d, d.intn(3), eventLeave, 0.1, 0.9)
	s.add(d, d.between(130, 490), eventWrite, 0, 1)
	s.add(d, d.intn(3), eventSplit, 0, 0.95)
	s.add(d, d.intn(2), eventMerge, 0, 0.95)
	if s.faultLevel != calm {
		s.add(d, d.intn(2), eventCrash, 0, 0.95)
		s.add(d, 1+d.intn(2), eventCrashWrite, 0, 0.95)
		s.add(d, d.between(0, 2), eventCrashAnswer, 0, 0.95)
	}
}

// memory returns the scenario's engine in memory.
func (s *scenario) memory() *memEngine {
	return newMemEngine(newStoreClock(s.offset, s.rate), memory.Options{Partitions: s.partitions, KeyPaths: s.paths()})
}

// world returns the scenario's world on an engine. It is called in the bubble.
func (s *scenario) world(ctx context.Context, e engine, keepTrace bool) *world {
	c := s.worldConfig
	c.engine, c.keepTrace, c.keyPaths = e, keepTrace, s.paths()
	c.clean = s.faultLevel != rough
	switch s.startKind {
	case feed.StartNow:
	case feed.StartContinuation:
		c.start = feed.After(continuation(s.startLSN))
	case feed.StartBeginning:
		c.start = feed.Beginning()
	case feed.StartTime:
		c.start = feed.At(e.now().Add(s.startAfter))
	}
	if s.has(filters) {
		c.passes = func(id string) bool { return seeded.Hash(0, id)%4 != 0 }
	}
	var err error
	if s.has(feedRanges) {
		c.keys, err = s.cut(ctx, e)
	}
	w := newWorld(c)
	if err != nil {
		w.fails("cannot cut the keys: %v", err)
	}
	return w
}

// feedCuts is the number of parts of the keys from which a feed range is made.
const feedCuts = 16

// cut returns the feed range of the scenario.
func (s *scenario) cut(ctx context.Context, e engine) (feed.Range, error) {
	parts, err := feed.SplitRange(ctx, e.source(), feed.Full(), feedCuts)
	if err != nil {
		return feed.Range{}, err
	}
	return feed.Range{Min: parts[s.cuts[0]].Min, Max: parts[s.cuts[1]].Max}, nil
}

// String describes the configuration of a seed.
func (s *scenario) String() string {
	var has []string
	for _, f := range s.plan.features {
		if s.has(f.name) {
			has = append(has, f.name)
		}
	}
	return fmt.Sprintf("seed %d: %d partitions, expiration %s, %s, start %v, clock %+.3f, %d events; %s",
		s.seed, s.partitions, s.times.expiration, s.mode, s.startKind, s.rate, len(s.events), strings.Join(has, ", "))
}
