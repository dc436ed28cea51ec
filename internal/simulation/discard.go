package simulation

import (
	"errors"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed"
)

// discard is the discard of the leases by a host.
type discard struct {
	over chan struct{} // closed when the host begins its first start
	once sync.Once
}

func newDiscard() *discard { return &discard{over: make(chan struct{})} }

// startsAfresh is called when the host lists the partitions, or writes something else than a
// delete. A host that discards the leases has then begun its first start.
func (h *host) startsAfresh() {
	if h.discard != nil && !h.crashed() {
		h.discard.once.Do(func() { close(h.discard.over) })
	}
}

// refuses stops the host for good if err is the error of a refused discard.
func (h *host) refuses(err error) {
	config, ok := errors.AsType[*changefeed.ConfigError](err)
	if h.discard == nil || !ok || config.Field != "DiscardLeases" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaving, h.leftAt = true, time.Now()
}

// discard ends all hosts. Later it starts one that discards the leases. An operator starts
// it again if it is refused or crashes, or then starts one that does not discard.
func (r *run) discard(e event) {
	r.mu.Lock()
	again := r.discarding
	r.discarding = true
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
		r.discarding = false
		r.mu.Unlock()
		if len(r.world.living()) == 0 || !r.world.isCalm() && d.chance(0.5) {
			r.world.join("host-after")
		}
	})
}

// discards reports whether the leases are to be discarded.
func (r *run) discards() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.discarding
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
	h := r.world.joinPrepared("host-discard", func(h *host) {
		h.discard = newDiscard()
		if crashes {
			h.crashesIn(at, point)
		}
	})
	again := d.chance(0.7)
	select {
	case <-h.discard.over:
		r.world.occurs(discards)
		return false
	case <-h.dead:
		return again
	case <-h.done:
		return h.err != nil
	}
}
