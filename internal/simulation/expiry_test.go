package simulation

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// In seeds with a time to live, items expire in the embedded store. A write of an item may
// set, change or remove its time to live, and begins it anew.
//
// In latest version mode, the change feed no longer contains an expired item, so its last
// change may never be delivered. In all versions and deletes mode, the next purge deletes
// the item. A write of the item may come first: then its transaction also has the delete.

// lifetimes is the configuration of the time to live of items.
type lifetimes struct {
	// standard is the time to live in seconds of the items that have none of their own.
	// It is -1 if they never expire, and 0 if no item of the run expires.
	standard int
	longest  int           // the longest time to live of an item's own, in seconds
	purge    time.Duration // the interval between two purges; zero if there are none
	writes   int           // number of writes of items so far
	ends     func()        // ends the recording of expired items; nil if they are not recorded
}

func (s *scenario) lifetimes() *lifetimes { return stateOf[lifetimes](&s.states) }

// expiringEngine is an engine whose items may expire.
type expiringEngine interface {
	engine
	// expiries waits for deletes of expired items after a position, and returns them. It
	// leaves out the deletes in the transaction of another write. through is the position
	// up to which it has read.
	expiries(ctx context.Context, after feed.Continuation) (deletes []feed.Change, through feed.Continuation, err error)
}

// drawLifetimes draws the times to live. The longest is shorter than the rest at the end
// of a run, so that every item has expired when the run ends.
func (s *scenario) drawLifetimes(d *draw) {
	expiration := int(s.times.expiration / time.Second)
	*s.lifetimes() = lifetimes{
		standard: -1,
		longest:  d.between(expiration/4, 2*expiration),
		purge:    d.span(time.Second, s.times.expiration/2).Truncate(latticePeriod),
	}
	if d.chance(0.4) {
		s.lifetimes().standard = d.between(expiration/2, 2*expiration)
	}
}

// setLifetime sets, changes or removes the time to live of the item that w writes. When the
// faults have ended, it writes items that never expire.
func (r *run) setLifetime(w itemWrite) itemWrite {
	if w.document == nil {
		return w
	}
	times := r.scenario.lifetimes()
	times.writes++
	d := newDraw(r.scenario.seed, uint64(times.writes), "time to live")
	w.document = maps.Clone(w.document)
	switch p := d.float(); {
	case p < 0.1 || r.world.isCalm():
		w.document["ttl"] = -1
	case p < 0.5:
		w.ttl = max(0, times.standard)
	default:
		w.ttl = d.between(1, times.longest)
		w.document["ttl"] = w.ttl
	}
	return w
}

// expire lets items expire, and starts to record their deletes. endExpiry stops it and waits.
func (r *run) expire(context.Context) { //nolint:contextcheck // endExpiry stops it
	r.amend = r.setLifetime
	e, ok := r.world.engine.(expiringEngine)
	if !ok || r.world.mode != feed.AllVersionsAndDeletes {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	r.scenario.lifetimes().ends = func() {
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		r.world.recordExpiry(ctx, e)
	}()
}

func (r *run) endExpiry(context.Context) {
	if ends := r.scenario.lifetimes().ends; ends != nil {
		ends()
	}
}

// recordExpiry records the deletes of expired items, until ctx ends.
func (w *world) recordExpiry(ctx context.Context, e expiringEngine) {
	for after := continuation(0); ; {
		deletes, through, err := e.expiries(ctx, after)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.fails("cannot read the deletes of expired items: %v", err)
			return
		}
		for _, c := range deletes {
			w.commits(&commit{
				lsn: c.LSN, at: c.Time, epk: w.engine.epk(c.DeletedKey), purge: true,
				writes: []itemWrite{{key: c.DeletedKey, id: c.DeletedID}},
			})
			w.occurs(timeToLive)
			w.trace.add("store", "expire", c.DeletedKey.String()+"/"+c.DeletedID, "", c.LSN)
		}
		after = through
	}
}

// expiredAtRest observes that the store has deleted every item that expired more than a
// purge interval ago. It counts the expired items of latest version mode, where deletes are
// no changes.
func (r *run) expiredAtRest(context.Context) {
	w := r.world
	if w.mode != feed.LatestVersion {
		w.ledger.add(&purged{every: r.scenario.lifetimes().purge})
		return
	}
	w.present.mu.Lock()
	n := len(w.present.changes.expired(w.engine.now()))
	w.present.mu.Unlock()
	for range n {
		w.occurs(timeToLive)
	}
}

// purged is the fact that the store has purged expired items until now.
type purged struct{ every time.Duration }

func judgePurge(v *view, c *commit, breach report) {
	item := c.writes[0].item()
	old := v.journal.newest[item]
	breach(c.purge && (old == nil || !old.hasExpired(c.at)), "the store deletes item %s, which has not expired", item)
}

func judgeServed(v *view, s *served, breach report) {
	for _, r := range v.limited[s.read] {
		breach(r.hasExpired(v.store()), "the page contains %s, which has expired at %s", r, r.expires)
	}
}

func judgePassed(v *view, a *application, s *sending, breach report) {
	p := v.on(a.host, a.doc.Token).paging
	moves := a.op == opUpdate && a.doc.Continuation != s.before.Continuation
	if p == nil || !moves || p.tenure == nil || p.tenure != v.tenures[a.key()] {
		return
	}
	for _, r := range p.limited {
		delivered := r.acked || r.before.acked || v.passes != nil && !v.passes(r.id)
		breach(r.lsn <= v.lsn(a.doc) && !delivered, "nobody acknowledged %s, which the host has read before it expired", r)
	}
}

func judgeExpired(v *view, p *purged, breach report) {
	late := v.journal.expired(v.store().Add(-p.every - time.Second))
	breach(len(late) > 0, "the store has not deleted the expired items of %v", late)
}

// expired returns the last change of each item that expired before cut, unless somebody has
// deleted the item or written it again. They are in order of time.
func (j *journal) expired(cut time.Time) (all []*record) {
	for _, r := range j.newest {
		if r.hasExpired(cut) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *record) int { return cmp.Compare(a.number, b.number) })
	return all
}
