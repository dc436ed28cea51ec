package simulation

import (
	"context"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// run executes a scenario.
type run struct {
	scenario *scenario
	world    *world
	operator lease.Store // the lease store of an operator with a tool
	calmAt   time.Time

	handlers map[*host]changefeed.Handler // the user's; guarded by mu

	// Only the run's own goroutine uses these fields.
	writes   draw
	items    map[string][]itemWrite // existing items, by partition key
	nextItem int
	crashed  int
	restsIn  time.Duration // by how much longer everything takes to come to rest
	// amend changes the writes of a transaction. If nil, they stay as they are.
	amend func(itemWrite) itemWrite

	mu                     sync.Mutex    // guards the fields below
	leasesDown, sourceDown time.Duration // the ends of outages
	awayUntil              time.Time     // the end of the last absence of all hosts
	topology               int           // number of splits and merges
	recent                 feed.Range    // keys of a split or merge, which later ones concern; zero if there was none
	started                time.Time     // the marker whose first start is over; see settled
	barred                 bool          // a feature has ended all hosts, so no other one may join
}

// simulate runs a scenario in the current bubble and returns its statistics.
func (s *scenario) simulate(ctx context.Context, e engine, keepTrace bool) summary {
	w := s.world(ctx, e, keepTrace)
	r := &run{scenario: s, world: w, writes: newDraw(s.seed, 0, "writes"), items: map[string][]itemWrite{}}
	r.calmAt = time.Now().Add(s.active)
	w.faults, w.handle, w.observer, w.configure = r.faults, r.handle, s.observer, r.configure
	if err := r.open(ctx); err != nil {
		w.fails("cannot open the leases: %v", err)
	}
	r.reaches(ctx, whenOpened)
	r.prepare(ctx)
	r.reaches(ctx, whenPrepared)
	r.act(ctx)
	r.reaches(ctx, whenActed)
	r.rest(ctx)
	r.end(ctx)
	return r.summary()
}

// open opens the operator's lease store.
func (r *run) open(ctx context.Context) error {
	id, err := r.world.engine.source().Identity(ctx)
	if err != nil {
		return err
	}
	r.operator, err = r.world.engine.leases().Open(ctx, lease.Key{Processor: "sim", Identity: id, Mode: r.world.mode})
	return err
}

// prepare writes the changes that exist before the first host joins.
func (r *run) prepare(ctx context.Context) {
	for range 20 {
		r.write(ctx)
	}
}

// act executes the scenario's events.
func (r *run) act(ctx context.Context) {
	for _, e := range r.scenario.events {
		r.sleepUntil(r.world.trace.origin.Add(e.at))
		e.kind.happens(ctx, r, e)
	}
	r.sleepUntil(r.calmAt)
}

func (r *run) sleepUntil(t time.Time) { r.sleep(time.Until(t)) }

// sleep makes the run's own goroutine wait for about d.
func (r *run) sleep(d time.Duration) { r.world.sleep("run", d) }

// userHandler returns the user's handler of a host.
func (r *run) userHandler(h *host) changefeed.Handler {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handlers[h] == nil {
		if r.handlers == nil {
			r.handlers = map[*host]changefeed.Handler{}
		}
		r.handlers[h] = r.scenario.handler(h.id)
	}
	return r.handlers[h]
}

// rest waits until everything has come to rest, and observes it.
func (r *run) rest(ctx context.Context) {
	w := r.world
	w.calm()
	r.sleep(w.times.timeout) // a host may still crash at a write in progress
	r.resumeLeases(ctx)
	r.reaches(ctx, whenCalm)
	if len(w.living()) == 0 {
		w.join("host-last") //nolint:contextcheck // a host ends by a crash or a leave, not with the context that started it
	}
	r.sleep(w.times.recovery() + r.restsIn)
	r.reaches(ctx, whenRecovered)
	r.reaches(ctx, whenMended)
	w.rests(restCovered, time.Now())
	since := time.Now()
	r.sleep(w.times.expiration + time.Second)
	w.rests(restRead, since)
	w.ledger.add(&count{})
	r.sleep(r.scenario.still)
	w.rests(restStable, since)
	w.rests(restBalanced, since)
	w.rests(restCost, since)
	for range 10 {
		// The writes are apart in time, because the first one wakes a waiting read.
		r.sleep(r.writes.span(time.Millisecond, 20*time.Millisecond))
		r.write(ctx)
	}
	r.sleep(w.times.poll + 2*w.times.timeout)
	w.rests(restCost, since)
	w.rests(restStable, since)
	w.rests(restCovered, time.Now())
	w.rests(restHandled, since)
	if r.scenario.faultLevel == calm && !w.checkpoint.Manual {
		w.rests(restPlanned, since)
	}
	r.reaches(ctx, whenHandled)
	for _, h := range w.living() {
		h.leave()
	}
	r.await()
	w.rests(restFree, since)
	r.reaches(ctx, whenLeft)
}

// end stops all hosts and waits for every goroutine. A goroutine may start another host
// meanwhile.
func (r *run) end(ctx context.Context) {
	for ended := -1; ended < len(r.world.everyHost()); {
		ended = len(r.world.everyHost())
		for _, h := range r.world.everyHost() {
			h.resume()
			h.cancel()
		}
		r.await()
		r.world.pending.Wait()
	}
	r.reaches(ctx, whenEnded)
	if err := r.world.engine.close(); err != nil {
		r.world.fails("cannot close the engine: %v", err)
	}
}

// await waits until every Run has returned. It crashes a host whose Run does not.
func (r *run) await() {
	for _, h := range r.world.everyHost() {
		select {
		case <-h.done:
		case <-time.After(time.Hour):
			r.world.fails("%s: Run has not returned an hour after the stop", h.id)
			h.crash()
			<-h.done
		}
	}
}

func (r *run) summary() summary {
	found, v := r.world.judge()
	s := summary{
		seed: r.scenario.seed, hosts: len(r.world.everyHost()), partitions: r.scenario.partitions,
		writes: v.journal.writes, topology: r.topology, crashes: r.crashed,
		simulated: r.world.since(), hash: r.world.trace.hash(), violations: found,
	}
	s.moves = r.world.leaseMoves()
	r.world.mu.Lock()
	s.faults, s.occurred, s.features = r.world.injected, r.world.occurred, map[string]int{}
	for _, f := range r.scenario.plan.features {
		switch {
		case !r.scenario.has(f.name):
		case f.counted:
			s.features[f.name] = r.world.occurred[f.name]
		default:
			s.features[f.name] = 1
		}
	}
	r.world.mu.Unlock()
	if r.world.trace.keep {
		s.trace = r.world.trace.String()
	}
	return s
}

// summary contains the statistics of the run of one seed.
type summary struct {
	seed                        uint64
	hosts, partitions, topology int
	crashes, faults, moves      int
	writes                      writes
	features                    map[string]int // how often each feature of the seed occurred, by name
	occurred                    map[string]int // what else the run has counted, by name
	simulated                   time.Duration
	hash                        uint64
	violations                  []violation
	trace                       string
}
