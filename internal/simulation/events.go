package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// event is an event at a moment of the run.
type event struct {
	id   int // the event's index among the events of the seed
	at   time.Duration
	kind *eventKind
	n    int
	d    time.Duration
}

// eventKind is a kind of events: what happens at one. A host that an event starts ends by a
// crash or a leave, not with the context.
type eventKind struct {
	happens func(ctx context.Context, r *run, e event)
}

// These are the kinds of events of every run. Those of a single feature are defined beside
// what they do.
var (
	eventWrite = &eventKind{func(ctx context.Context, r *run, _ event) { r.write(ctx) }}
	eventJoin  = &eventKind{func(_ context.Context, r *run, e event) { r.join(e.n) }}
	eventLeave = &eventKind{func(_ context.Context, r *run, e event) {
		if hosts := r.world.living(); len(hosts) > 1 {
			hosts[e.n%len(hosts)].leave()
		}
	}}
	eventCrash      = &eventKind{func(_ context.Context, r *run, e event) { r.crash(e, (*host).crash) }}
	eventCrashWrite = &eventKind{func(_ context.Context, r *run, e event) { // at one of the next lease writes, before it is applied
		r.crash(e, func(h *host) { h.crashesIn(1+e.n%12, crashBefore) })
	}}
	eventCrashAnswer = &eventKind{func(_ context.Context, r *run, e event) { // at one of the next lease writes, after it is applied
		r.crash(e, func(h *host) { h.crashesIn(1+e.n%12, crashAfter) })
	}}
	eventSplit   = &eventKind{func(ctx context.Context, r *run, e event) { r.changePartitions(ctx, changeSplit, e.n) }}
	eventMerge   = &eventKind{func(ctx context.Context, r *run, e event) { r.changePartitions(ctx, changeMerge, e.n) }}
	eventChange  = &eventKind{func(ctx context.Context, r *run, e event) { r.changePartitions(ctx, change(e.d), e.n) }}
	eventAbsence = &eventKind{func(_ context.Context, r *run, e event) { r.empty(e) }} // all hosts end, and one joins later
)

// These are the kinds of events of features.
var (
	eventPause        = &eventKind{func(_ context.Context, r *run, e event) { r.pause(e) }}
	eventDeleteLease  = &eventKind{func(ctx context.Context, r *run, e event) { r.deleteLease(ctx, e.n) }}
	eventEdit         = &eventKind{func(ctx context.Context, r *run, e event) { r.editLease(ctx, e.n) }} // another tool writes a property
	eventLeaseOutage  = &eventKind{func(_ context.Context, r *run, e event) { r.fallsOut(&r.leasesDown, e, leaseOutages) }}
	eventSourceOutage = &eventKind{func(_ context.Context, r *run, e event) { r.fallsOut(&r.sourceDown, e, sourceOutages) }}
)

// add draws n events of a kind. from and to are parts of the active time.
func (s *scenario) add(d *draw, n int, k *eventKind, from, to float64) {
	for range n {
		span := float64(s.active)
		s.events = append(s.events, event{
			at:   d.span(time.Duration(from*span), time.Duration(to*span)+1),
			kind: k, n: int(d.next() >> 33), d: d.span(s.times.expiration/10, 2*s.times.expiration),
		})
	}
}

// remove removes all events of a kind.
func (s *scenario) remove(k *eventKind) {
	s.events = slices.DeleteFunc(s.events, func(e event) bool { return e.kind == k })
}

// pause freezes a host, which continues later.
func (r *run) pause(e event) {
	hosts := r.world.living()
	if len(hosts) == 0 {
		return
	}
	h := hosts[e.n%len(hosts)]
	r.world.inject()
	r.world.occurs(pauses)
	h.trace("pause", "", "", int64(e.d))
	h.pause()
	r.world.later(operatorParty, "resume "+h.id, e.d, h.resume)
}

// fallsOut begins an outage, which is a feature.
func (r *run) fallsOut(down *time.Duration, e event, feature string) {
	r.mu.Lock()
	*down = e.at + e.d
	r.mu.Unlock()
	r.world.occurs(feature)
}

// join starts a host, unless none may join. Some hosts have the same name.
func (r *run) join(n int) {
	if r.away() {
		return
	}
	name := fmt.Sprintf("host-%d", len(r.world.everyHost())+1)
	if n%5 == 0 {
		name = "host"
	}
	r.world.join(name)
}

// crash crashes a host as how says. Often another host joins later. It always does if the
// host was the only one, so that a host is left at the end.
func (r *run) crash(e event, how func(*host)) {
	hosts := r.world.living()
	if len(hosts) == 0 {
		return
	}
	h := hosts[e.n%len(hosts)]
	r.crashed++
	how(h)
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
