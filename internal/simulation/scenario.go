package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// scenario is the configuration and the events that a seed determines.
type scenario struct {
	worldConfig // engine, start, passes, clean and ignoresContext are set later

	partitions int
	offset     time.Duration
	rate       float64
	startKind  feed.StartKind
	startAfter time.Duration // for a start time: the time from the start of the run to it
	late       bool          // manual checkpoints also come from other goroutines, after the handler returned
	filter     bool
	// active is the time in which events happen. Then everything comes to rest.
	active     time.Duration
	events     []event
	odds       odds
	faultLevel faultLevel
	still      time.Duration // how long the rest is observed
	// foreign contains the hosts of other implementations, in the order in which they
	// join.
	foreign []visit

	// Functions of a user: the documents to write, and the handler of each host or the
	// observer of each worker.
	document func(n int) (feed.PartitionKey, map[string]any)
	handler  func(host string) changefeed.Handler
	observer func(host string, l lease.Lease) (changefeed.Observer, error)
}

// odds contains the probabilities of faults, per call or per batch.
type odds struct {
	request        float64 // a fault of a request to the source or the lease store
	torn           float64
	fails          float64
	panics         float64
	slow           float64
	ignoresContext float64 // a slow handler ignores its context
	manual         float64 // the handler checkpoints a batch, with manual checkpoints
}

// event is an event at a moment of the run.
type event struct {
	at   time.Duration
	kind eventKind
	n    int
	d    time.Duration
}

type eventKind int

const (
	eventWrite eventKind = iota
	eventJoin
	eventLeave
	eventCrash       // at once
	eventCrashWrite  // at the n-th lease write from now, before it is applied
	eventCrashAnswer // at the n-th lease write from now, after it is applied
	eventPause
	eventSplit
	eventMerge
	eventDeleteLease
	eventEdit // another tool writes a property
	eventLeaseOutage
	eventSourceOutage
	eventPowerLoss // the engine loses everything that is not synced
	eventVisit     // the n-th foreign host joins
	eventDismiss   // the n-th foreign host leaves
)

// faultLevel is the kind of faults in a run.
type faultLevel int

const (
	calm    faultLevel = iota // no faults; hosts join and leave, partitions split and merge
	crashes                   // only crashes of hosts
	rough                     // all faults
)

// visit is the plan of a foreign host.
type visit struct {
	from, to time.Duration
	crash    bool // at the end; otherwise it leaves
	begin    func(*world) *host
}

// newScenario draws a seed's scenario. foreign draws the plans of foreign hosts; nil
// means none.
func newScenario(seed uint64, foreign func(seed uint64, active time.Duration) []visit) *scenario {
	d := newDraw(seed, 0, "scenario")
	s := &scenario{worldConfig: worldConfig{seed: seed, times: drawTimes(&d)}}
	kind := rough
	switch p := d.float(); {
	case p < 0.08:
		kind = calm
	case p < 0.2:
		kind = crashes
	}
	s.faultLevel = kind
	t := s.times
	s.partitions = 1 + d.intn(8)
	s.offset = d.span(-10*time.Minute, 10*time.Minute)
	margin := max(t.expiration/10, 2*time.Second)
	s.rate = (2*d.float() - 1) * 0.95 * float64(margin) / float64(t.expiration)
	s.clockless = d.chance(0.05)
	if d.chance(0.25) {
		s.mode = feed.AllVersionsAndDeletes
	}
	s.startKind = feed.StartNow
	if s.mode == feed.LatestVersion {
		s.startKind = []feed.StartKind{feed.StartNow, feed.StartNow, feed.StartBeginning, feed.StartTime}[d.intn(4)]
	}
	s.startAfter = d.span(-5*time.Second, 30*time.Second)
	switch {
	case d.chance(0.25):
		s.checkpoint.Manual = true
	case d.chance(0.2):
		s.checkpoint = changefeed.Checkpointing{Changes: d.between(10, 200), Interval: d.span(time.Second, 10*time.Second)}
	}
	late := newDraw(seed, 0, "late checkpoints") // a stream of its own, so that the seed's other draws stay the same
	s.late = s.checkpoint.Manual && late.chance(0.7)
	s.filter = d.chance(0.15)
	s.waits = d.chance(0.3)
	s.maxItems = []int{0, 1, 5, 20, 100}[d.intn(5)]
	s.readAhead = []int{-1, 0, 200, 2000}[d.intn(4)]
	s.active = t.expiration * time.Duration(d.between(6, 10))
	s.still = 6 * t.acquire
	s.odds = drawOdds(&d, kind)
	s.events = drawEvents(&d, s, kind)
	if foreign != nil {
		s.foreign = foreign(seed, s.active)
	}
	for i, p := range s.foreign {
		s.events = append(s.events, event{at: p.from, kind: eventVisit, n: i}, event{at: p.to, kind: eventDismiss, n: i})
	}
	s.events = sorted(s.events)
	s.drawDialect()
	s.drawRefusal()
	return s
}

// refusalShare is the share of the seeds with a start time, in memory and without foreign
// hosts, whose source refuses that time.
const refusalShare = 0.5

// drawRefusal draws whether the source refuses the start time. Then no change before it
// may be delivered. Foreign hosts do not respect that, nor the bound of a lease.
func (s *scenario) drawRefusal() {
	d := newDraw(s.seed, 0, "refusal")
	s.refuses = s.startKind == feed.StartTime && len(s.foreign) == 0 && s.seed%storeEvery != 0 && d.chance(refusalShare)
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

func drawOdds(d *draw, kind faultLevel) odds {
	o := odds{manual: 0.3 + 0.6*d.float()}
	if kind != rough {
		return o
	}
	o.request = 0.03 * d.float() * d.float() * 2
	o.torn = 0.1 * d.float()
	if d.chance(0.7) {
		o.fails, o.panics = 0.05*d.float(), 0.01*d.float()
	}
	if d.chance(0.5) {
		o.slow, o.ignoresContext = 0.03*d.float(), 0.4*d.float()
	}
	return o
}

func drawEvents(d *draw, s *scenario, kind faultLevel) []event {
	var events []event
	add := func(n int, k eventKind, from, to float64) {
		for range n {
			span := float64(s.active)
			events = append(events, event{
				at:   d.span(time.Duration(from*span), time.Duration(to*span)+1),
				kind: k, n: int(d.next() >> 33), d: d.span(s.times.expiration/10, 2*s.times.expiration),
			})
		}
	}
	add(1+d.intn(3), eventJoin, 0, 0.02)
	add(d.intn(4), eventJoin, 0, 0.8)
	add(d.intn(3), eventLeave, 0.1, 0.9)
	add(d.between(160, 580), eventWrite, 0, 1)
	add(d.intn(3), eventSplit, 0, 0.95)
	add(d.intn(2), eventMerge, 0, 0.95)
	if kind == calm {
		return sorted(events)
	}
	add(d.intn(2), eventCrash, 0, 0.95)
	add(1+d.intn(2), eventCrashWrite, 0, 0.95)
	add(d.between(0, 2), eventCrashAnswer, 0, 0.95)
	if kind == crashes {
		return sorted(events)
	}
	add(d.intn(4), eventPause, 0, 0.95)
	add(d.intn(3), eventEdit, 0, 0.95)
	if d.chance(0.3) {
		add(1, eventLeaseOutage, 0, 0.8)
	}
	if d.chance(0.3) {
		add(1, eventSourceOutage, 0, 0.8)
	}
	add(d.intn(3), eventPowerLoss, 0, 0.95)
	if s.mode == feed.LatestVersion && d.chance(0.35) {
		add(1, eventDeleteLease, 0, 0.9)
	}
	return sorted(events)
}

func sorted(events []event) []event {
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	return events
}

// storeEvery selects the seeds that run on the embedded store: the multiples of
// storeEvery. The other seeds run on the engine in memory.
const storeEvery = 20

// memory returns the scenario's engine in memory.
func (s *scenario) memory() *memEngine {
	return newMemEngine(newStoreClock(s.offset, s.rate), memory.Options{Partitions: s.partitions})
}

// world returns the scenario's world on an engine. It is called in the bubble.
func (s *scenario) world(e engine, keepTrace bool) *world {
	c := s.worldConfig
	c.engine, c.keepTrace = e, keepTrace
	c.ignoresContext, c.clean = s.odds.ignoresContext > 0, s.odds == odds{manual: s.odds.manual}
	switch s.startKind {
	case feed.StartNow, feed.StartContinuation:
	case feed.StartBeginning:
		c.start = feed.Beginning()
	case feed.StartTime:
		c.start = feed.At(e.now().Add(s.startAfter))
	}
	if s.filter {
		c.passes = func(id string) bool { return hashText(id)%4 != 0 }
	}
	return newWorld(c)
}

// String describes the configuration of a seed.
func (s *scenario) String() string {
	return fmt.Sprintf("seed %d: %d partitions, expiration %s, %s, %s, start %v refused %t, manual %t, filter %t, waits %t, clock %+.3f, clockless %t, %d foreign hosts",
		s.seed, s.partitions, s.times.expiration, s.mode, s.dialect, s.startKind, s.refuses, s.checkpoint.Manual, s.filter, s.waits, s.rate, s.clockless, len(s.foreign))
}
