package simulation

import (
	"context"
	"fmt"
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
	visitors map[int]*host // foreign hosts, by their number in the plan
	survey   *survey       // nil without an estimator
	follower *follower     // nil without a reader
	setBack  time.Duration // by how much the store's clock was set back
	limited  int           // number of writes of items that may expire
	// endExpiry ends the recording of expired items. It is nil if no item
	// expires in the run.
	endExpiry func()

	mu                     sync.Mutex    // guards the fields below
	leasesDown, sourceDown time.Duration // the ends of outages
	awayUntil              time.Time     // the end of the last absence of all hosts
	topology               int           // number of splits and merges
	recent                 feed.Range    // keys of a split or merge, which later ones concern; zero if there was none
	opensDown              time.Duration // the end of a time in which most attempts to open an observer fail
	started                time.Time     // the marker whose first start is over; see settled
	discarding             bool          // the leases are to be discarded, so no other host may join
}

// simulate runs a scenario in the current bubble and returns its statistics.
func (s *scenario) simulate(ctx context.Context, e engine, keepTrace bool) summary {
	w := s.world(ctx, e, keepTrace)
	r := &run{scenario: s, world: w, writes: newDraw(s.seed, 0, "writes"), items: map[string][]itemWrite{}, visitors: map[int]*host{}}
	r.calmAt = time.Now().Add(s.active)
	w.faults, w.handle, w.observer, w.configure = r.faults, r.handle, s.observer, r.configure
	w.opening, w.atClose = r.opens, r.atClose
	if s.has(tornListings) {
		w.torn = r.torn
	}
	w.refuseDeletes(s.has(refusedDeletes))
	if s.has(startMoves) {
		w.arrived = r.startMoves
	}
	if err := r.open(ctx); err != nil {
		w.fails("cannot open the leases: %v", err)
	}
	if s.has(timeToLive) {
		r.watchExpiry() //nolint:contextcheck // end stops it
	}
	r.prepare(ctx)
	if s.has(estimates) {
		r.startSurvey() //nolint:contextcheck // end stops it
	}
	if s.has(readers) || s.has(prefixReaders) {
		r.follow(ctx)
	}
	r.act(ctx)
	r.rest(ctx)
	r.end()
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
		r.happen(ctx, e)
	}
	r.sleepUntil(r.calmAt)
}

func (r *run) sleepUntil(t time.Time) { r.sleep(time.Until(t)) }

// sleep makes the run's own goroutine wait for about d.
func (r *run) sleep(d time.Duration) { r.world.sleep("run", d) }

// happen executes one event.
func (r *run) happen(ctx context.Context, e event) {
	w := r.world
	switch e.kind {
	case eventWrite:
		r.write(ctx)
	case eventJoin:
		if r.away() {
			return
		}
		r.join(e.n) //nolint:contextcheck // a host ends by a crash or a leave, not with the context that started it
	case eventLeave:
		if hosts := w.living(); len(hosts) > 1 {
			hosts[e.n%len(hosts)].leave()
		}
	case eventCrash, eventCrashWrite, eventCrashAnswer:
		r.crash(e) //nolint:contextcheck // a host ends by a crash or a leave, not with the context that started it
	case eventPause:
		if hosts := w.living(); len(hosts) > 0 {
			h := hosts[e.n%len(hosts)]
			w.inject()
			w.occurs(pauses)
			h.trace("pause", "", "", int64(e.d))
			h.pause()
			w.later(operatorParty, "resume "+h.id, e.d, h.resume)
		}
	case eventSplit:
		r.changePartitions(ctx, changeSplit, e.n)
	case eventSplitForeign:
		r.splitForeign(ctx, e.n)
	case eventMerge:
		r.changePartitions(ctx, changeMerge, e.n)
	case eventChange:
		r.changePartitions(ctx, change(e.d), e.n)
	case eventStoreClock:
		r.setBack += max(0, -e.d)
		r.world.jumpStoreClock(e.d)
	case eventHostClock:
		r.stepHostClock(e)
	case eventSuspend:
		r.suspendHost(e)
	case eventAbsence:
		r.empty(e) //nolint:contextcheck // as for a crash
	case eventDiscard:
		r.discard(e) //nolint:contextcheck // as for a crash
	case eventDeleteLease:
		r.deleteLease(ctx, e.n)
	case eventRedrive:
		r.redrive(ctx, e.n%5-1)
	case eventDropLetter:
		r.dropLetters(ctx, e.n)
	case eventEdit:
		r.editLease(ctx, e.n)
	case eventVisit:
		p := r.scenario.foreign[e.n]
		r.visitors[e.n] = w.visit(p.java, p.habits).host //nolint:contextcheck // as for a join
		w.occurs(foreignHosts)
	case eventDismiss:
		if f := r.visitors[e.n]; f != nil {
			r.dismiss(f, r.scenario.foreign[e.n].crash)
		}
	case eventLeaseOutage:
		r.fallsOut(&r.leasesDown, e.at+e.d)
		w.occurs(leaseOutages)
	case eventSourceOutage:
		r.fallsOut(&r.sourceDown, e.at+e.d)
		w.occurs(sourceOutages)
	case eventOpenOutage:
		r.fallsOut(&r.opensDown, e.at+e.d)
	case eventPowerLoss:
		if err := w.engine.powerLoss(ctx); err != nil {
			w.fails("%v", err)
		}
		w.occurs(powerLosses)
		w.trace.add("operator", "power loss", "", "", 0)
	}
}

// dismiss ends a foreign host. It crashes, or it stops and releases its leases.
func (r *run) dismiss(f *host, crash bool) {
	if crash {
		r.crashed++
		f.crash()
		return
	}
	f.trace("leave", "", "", 0)
	f.cancel()
}

// stopForeignHosts stops the foreign hosts before everything comes to rest.
func (r *run) stopForeignHosts() {
	for _, f := range r.world.everyForeignHost() {
		f.resume()
		f.cancel()
		<-f.done
	}
}

// fallsOut begins an outage.
func (r *run) fallsOut(what *time.Duration, until time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*what = until
}

// join starts a host. Some hosts have the same name.
func (r *run) join(n int) {
	name := fmt.Sprintf("host-%d", len(r.world.everyHost())+1)
	if n%5 == 0 {
		name = "host"
	}
	r.world.join(name)
}

// crash crashes a host: now or at one of its next writes. Often another host joins later.
// It always does if the host was the only one, so that a host is left at the end.
func (r *run) crash(e event) {
	hosts := r.world.living()
	if len(hosts) == 0 {
		return
	}
	h := hosts[e.n%len(hosts)]
	r.crashed++
	switch e.kind {
	case eventCrashWrite, eventCrashAnswer:
		at := crashBefore
		if e.kind == eventCrashAnswer {
			at = crashAfter
		}
		h.crashesIn(1+e.n%12, at)
	default:
		h.crash()
	}
	back := e.d / 2
	if e.at+back < r.scenario.active*95/100 && (e.n%3 > 0 || len(hosts) == 1) {
		name := h.instance
		r.world.later(operatorParty, "back "+h.id, back, func() {
			if !r.away() {
				r.world.join(name)
			}
		})
	}
}

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

// longestRetryDelay is the longest time between two attempts to open an observer: 30 s
// and a fifth.
const longestRetryDelay = 36 * time.Second

// rest waits until everything has come to rest, and observes it.
func (r *run) rest(ctx context.Context) {
	w := r.world
	r.stopForeignHosts()
	w.calm()
	r.sleep(w.times.timeout) // a host may still crash at a write in progress
	r.resumeLeases(ctx)
	r.redrive(ctx, allKeys)
	if len(w.living()) == 0 {
		w.join("host-last") //nolint:contextcheck // a host ends by a crash or a leave, not with the context that started it
	}
	r.sleep(w.times.recovery() + r.setBack)
	if r.scenario.has(failingOpens) {
		r.sleep(longestRetryDelay)
	}
	if r.redrive(ctx, allKeys) { // some leases may have been deleted, and healed meanwhile
		r.sleep(w.times.recovery())
	}
	if r.scenario.has(stoppedLeases) { // some may have been replaced by stopped children meanwhile
		r.resumeLeases(ctx)
		r.sleep(w.times.recovery())
	}
	if r.scenario.has(leaseLimits) && r.isShort() {
		w.occurs(leaseLimits)
		w.join("host-last") //nolint:contextcheck // a host ends by a crash or a leave, not with the context that started it
		r.sleep(w.times.recovery())
	}
	r.grantDeletes()
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
	r.expiredAtRest()
	w.rests(restHandled, since)
	if r.scenario.faultLevel == calm && !w.checkpoint.Manual && len(r.scenario.foreign) == 0 {
		w.rests(restPlanned, since)
	}
	if r.follower != nil {
		r.follower.finish(ctx)
	}
	r.surveyIdle(ctx)
	for _, h := range w.living() {
		h.leave()
	}
	r.await()
	w.rests(restFree, since)
	r.surveyStopped(ctx)
}

// isShort reports whether the live hosts may not own all leases, because each of them has as
// many as it may.
func (r *run) isShort() bool {
	w := r.world
	w.rests(restShort, time.Now())
	have, leases := map[string]int{}, usable(w.documents())
	for _, l := range leases {
		age := w.engine.now().Truncate(time.Second).Sub(l.Modified)
		if w.clockless {
			age = time.Since(w.stored(l.Token).at)
		}
		if age < w.times.takeover() {
			have[l.Owner]++
		}
	}
	free := len(leases)
	for _, h := range w.living() {
		free -= have[h.text()]
	}
	return free > 0
}

// end stops all hosts and waits for every goroutine. A goroutine may start another host
// meanwhile.
func (r *run) end() {
	if r.survey != nil {
		r.survey.end()
	}
	if r.follower != nil {
		r.follower.end()
	}
	for ended := -1; ended < len(r.world.everyHost()); {
		ended = len(r.world.everyHost())
		for _, h := range r.world.everyHost() {
			h.resume()
			h.cancel()
		}
		r.await()
		for _, f := range r.world.everyForeignHost() {
			f.crash()
			f.resume()
			<-f.done
		}
		r.world.pending.Wait()
	}
	if r.endExpiry != nil {
		r.endExpiry()
	}
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
	s.moves, s.visits = r.world.statistics()
	r.world.mu.Lock()
	s.faults, s.features = r.world.injected, map[string]int{}
	for _, f := range features {
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
	visits                      visits
	features                    map[string]int // how often each feature of the seed occurred, by name
	simulated                   time.Duration
	hash                        uint64
	violations                  []violation
	trace                       string
}
