package simulation

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed"
)

// eventDiscard ends all hosts, and starts one that discards the leases.
var eventDiscard = &eventKind{func(_ context.Context, r *run, e event) { r.discard(e) }}

func (s *scenario) drawDiscards(d *draw) {
	s.add(d, 1, eventDiscard, 0.1, 0.5)
	if d.chance(0.5) {
		s.add(d, 1, eventDiscard, 0, 0.03) // in the first start
	}
	if s.faultLevel == rough {
		s.odds.late = 0.15 // the leases and the marker may be created after a discard
	}
}

// discards makes the host discard the leases. The channel is closed when it begins its first
// start.
func (h *host) discards() <-chan struct{} {
	over := make(chan struct{})
	h.settings.discards = true
	h.afresh = sync.OnceFunc(func() { close(over) })
	return over
}

// discard ends all hosts. Later it starts one that discards the leases. An operator starts
// it again if it is refused or crashes, or then starts one that does not discard.
func (r *run) discard(e event) {
	r.mu.Lock()
	again := r.barred
	r.barred = true
	r.mu.Unlock()
	if again {
		return
	}
	r.endHosts(e.n)
	r.world.trace.add("operator", "discard", "", "", 0)
	ended := r.world.everyHost()
	d := newDraw(r.scenario.seed, uint64(e.id), "discard")
	wait := e.d
	if d.chance(0.5) {
		wait = r.scenario.times.timeout // late requests may arrive during or after the discard
	}
	r.world.later(operatorParty, "discard", d.span(0, wait), func() {
		for _, h := range ended {
			<-h.done
		}
		for r.tryDiscard(&d) {
			r.world.sleep("discard", d.span(time.Millisecond, r.scenario.times.expiration/2))
		}
		r.mu.Lock()
		r.barred = false
		r.mu.Unlock()
		if len(r.world.living()) == 0 || !r.world.isCalm() && d.chance(0.5) {
			r.world.join("host-after")
		}
	})
}

// tryDiscard starts a host that discards the leases, and waits until it has discarded them
// or has ended. It reports whether the operator tries again.
func (r *run) tryDiscard(d *draw) bool {
	r.world.sleep("discard", d.span(time.Microsecond, time.Millisecond))
	if time.Until(r.calmAt) < r.scenario.times.expiration {
		return false
	}
	crashes, at, point := r.scenario.faultLevel != calm && d.chance(0.4), d.between(1, 2*r.scenario.partitions+4), crashBefore
	if d.chance(0.5) {
		point = crashAfter
	}
	var over <-chan struct{}
	h := r.world.joinPrepared("host-discard", func(h *host) {
		over = h.discards()
		if crashes {
			h.crashesIn(at, point)
		}
	})
	again := d.chance(0.7)
	select {
	case <-over:
		r.world.occurs(discards)
		return false
	case <-h.dead:
		return again
	case <-h.done:
		config, ok := errors.AsType[*changefeed.ConfigError](h.err)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.leaving = h.leaving || ok && config.Field == "DiscardLeases" // it is refused, so the host is stopped for good
		return h.err != nil
	}
}

func judgeUnmark(v *view, m *mark, breach report) {
	h := v.hostOf(m.host)
	breach(!m.exists && !h.crashed && (!h.discarding || h.refused), "%s deletes the marker; a lease has a live owner: %t", m.host.id, h.refused)
}

func judgeDiscard(v *view, w *leaseWrite, breach report) {
	breach(v.sent[w].discards && !v.hostOf(w.host).unmarked, "the lease is discarded before the marker")
}

func judgeDiscarded(v *view, a *application, s *sending, breach report) {
	live := v.isLive(s.before, v.store().Truncate(time.Second)) && !v.listedExpired(a.host, s.before)
	breach(s.discards && live, "the discarded lease of %q has age %s", s.before.Owner, s.age)
}

func judgeStart(v *view, e entry, breach report) {
	h := startsAfresh(e)
	if h == nil || !v.hostOf(h).discarding || v.hostOf(h).crashed {
		return
	}
	breach(!v.hostOf(h).unmarked, "%s starts without the delete of the marker", h.id)
	for token := range v.docs {
		breach(v.lease(token).made < v.hostOf(h).joined, "%s starts without the discard of lease %s", h.id, token)
	}
}
