package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// view is what follows from the ledger up to one of its entries: the documents in the lease
// store, what hosts may conclude from answers, and which changes have been delivered. It
// judges nothing, and depends only on the entries and the configuration of the world. For
// each entry, advance concludes what the rules must know, and step moves the view behind it.
type view struct {
	worldConfig
	entries []entry
	n       int // index of the current entry
	now     time.Duration
	began   map[any]int // the entries in which facts began

	live     []feed.Partition
	journal  *journal
	forward  time.Duration // the sum of the forward jumps of the store's clock
	jumpedAt int           // the entry of the last of them
	hosts    map[*host]*hostView
	order    []*host // ours, in the order in which they joined
	foreign  bool    // whether a foreign host has joined
	counting int     // the entry from which requests are counted
	states   states

	docs      map[string]lease.Lease // the stored lease documents, by token
	leases    map[string]*leaseView
	sent      map[*leaseWrite]*sending
	creates   int // number of creates that are in progress
	double    []doubling
	discard   int           // the entry in which a lease was last discarded
	deleted   int           // the entry in which somebody last deleted a lease that was not gone
	changedAt time.Duration // when the owner of a lease or the host that wants it last changed, or a worker last started

	marker   bool
	astray   []feed.Range // keys without a lease that may start again from now, so that versions are lost
	unmarkAt int          // the entry in which the marker was last deleted
	floors   []markFloor  // for a start from now; the newest is the last
	unmarked []feed.Range // keys whose leases were discarded, or never created, since the marker was created

	tenures  map[tenureKey]*tenure
	holdings map[tenureKey]*holding
	uses     map[*use]bool // those that have not ended; true if the context has
	workers  map[*worker]*workerView
	matched  map[*batch]matching   // by what the worker was due
	called   map[*checkpoint]int64 // what was confirmed when a checkpoint was called
	limited  map[*read][]*record   // changes of a page that is on its way, whose items have a time to live

	letters, formerLetters []*letterView       // those that exist, and those that were deleted
	sentLetters            map[*letter]*tenure // the tenure in which each was sent
}

// leaseView is what is known of a lease that exists or existed.
type leaseView struct {
	n        int            // the entry of its last write
	last     lease.Lease    // its last version
	versions map[string]int // the entries that applied its versions, by ETag
	made     time.Duration  // when it was last created
	owned    time.Duration  // when its owner last wrote it, or -1
	read     time.Duration  // when its changes were last read
	foreign  int            // the entry in which a foreign host last replaced or deleted it
	strange  bool           // a foreign host or an operator has created it
	byJump   int            // the entry in which it was acquired or discarded after a jump of the store's clock
}

// clockStep is a step of a host's wall clock.
type clockStep struct{ at, by time.Duration }

// hostView is what is known of a host.
type hostView struct {
	joined, left   time.Duration // left is -1 before
	crashed, ended bool
	steps          []clockStep   // of the wall clock
	woke           time.Duration // when its last suspension ended; -1 while it lasts
	marked         bool          // a listing has shown the marker
	lists          int           // number of listings received
	discarding     bool
	refused        bool // an answer has shown a lease with a live owner to a host that discards
	unmarked       bool // it has deleted the marker
}

// ahead returns by how much the host's wall clock was ahead at t.
func (h *hostView) ahead(t time.Duration) (sum time.Duration) {
	for _, s := range h.steps {
		if s.at <= t {
			sum += s.by
		}
	}
	return sum
}

// fellBehind reports whether one of the host's clocks has fallen behind since t.
func (h *hostView) fellBehind(t time.Duration) bool {
	return h.slept(t) || slices.ContainsFunc(h.steps, func(s clockStep) bool { return s.by < 0 && s.at > t })
}

// slept reports whether the host has been suspended since t, or is so now.
func (h *hostView) slept(t time.Duration) bool { return h.woke < 0 || h.woke > t }

// newView returns the view before the first entry.
func newView(w *world) *view {
	v := &view{
		worldConfig: w.worldConfig, entries: w.ledger.entries, n: -1, journal: newJournal(w.worldConfig), hosts: map[*host]*hostView{},
		docs: map[string]lease.Lease{}, leases: map[string]*leaseView{}, sent: map[*leaseWrite]*sending{}, discard: -1, deleted: -1,
		unmarkAt: -1, began: map[any]int{}, uses: map[*use]bool{}, unmarked: []feed.Range{feed.Full()},
		tenures: map[tenureKey]*tenure{}, holdings: map[tenureKey]*holding{}, workers: map[*worker]*workerView{},
		matched: map[*batch]matching{}, called: map[*checkpoint]int64{}, limited: map[*read][]*record{},
		sentLetters: map[*letter]*tenure{},
	}
	v.journal.now = v.store
	return v
}

// advance moves the view to the next entry. It returns false after the last one.
func (v *view) advance() bool {
	if v.n+1 == len(v.entries) {
		return false
	}
	v.n++
	e := v.entries[v.n]
	v.now = e.at
	if !e.ends {
		v.began[e.fact] = v.n
	}
	switch f := e.fact.(type) {
	case *leaseWrite:
		if !e.ends {
			v.sent[f] = v.sending(f)
		}
	case *application:
		s := v.sent[f.leaseWrite]
		s.before = v.docs[f.lease.Token]
		s.age = v.age(s.before)
	case *served:
		v.serves(f)
	case *use:
		if f.batch != nil && !e.ends {
			v.compare(f.batch)
		}
	}
	return true
}

// store returns the time of the current entry by the service's clock.
func (v *view) store() time.Time { return v.entries[v.n].store }

// step moves the view behind the current entry.
func (v *view) step() { //nolint:gocyclo // one case for each kind of fact
	e := v.entries[v.n]
	if h := startsAfresh(e); h != nil {
		v.hostOf(h).discarding = false
	}
	switch f := e.fact.(type) {
	case *commit:
		v.journal.wrote(f)
	case *topology:
		v.live = f.live
	case *join:
		v.hosts[f.host] = &hostView{joined: v.now, left: -1, discarding: f.host.settings.discards}
		if v.foreign = v.foreign || f.host.foreign; !f.host.foreign {
			v.order = append(v.order, f.host)
		}
	case *crash:
		v.hostOf(f.host).crashed = true
		maps.DeleteFunc(v.uses, func(u *use, _ bool) bool { return u.host == f.host })
		maps.DeleteFunc(v.tenures, func(key tenureKey, _ *tenure) bool { return key.host == f.host })
	case *leave:
		v.hostOf(f.host).left = v.now
	case *returned:
		v.hostOf(f.host).ended = true
	case *suspend:
		h := v.hostOf(f.host)
		if h.woke = -1; e.ends {
			h.woke = v.now
		}
	case *wallStep:
		v.hostOf(f.host).steps = append(v.hostOf(f.host).steps, clockStep{v.now, f.by})
	case *storeStep:
		if f.by > 0 {
			v.forward, v.jumpedAt = v.forward+f.by, v.n
		}
	case *listing:
		if e.ends && f.err == nil {
			v.listed(f)
		}
	case *leaseWrite:
		v.writes(f, e)
	case *straggler:
		if f.op == opCreate {
			v.creates += e.change()
		}
	case *application:
		v.apply(f)
	case *mark:
		if e.ends && !f.exists && f.err == nil {
			v.hostOf(f.host).unmarked = true
		}
	case *markApplied:
		v.marked(f)
	case *read:
		v.reads(f, e.ends)
	case *skip:
		if r := v.on(f.host, f.token).lost; r != nil {
			for _, c := range v.journal.between(keysOf(v.live, r.req), lsnAt(r.req.From.Continuation()), lsnAt(f.oldest)) {
				c.lost = true
			}
		}
	case *worker:
		v.works(f, e.ends)
	case *opened:
		v.workers[f.worker].opened = true
	case *use:
		v.used(f, e.ends)
	case *cut:
		if _, lasts := v.uses[f.use]; lasts {
			v.uses[f.use] = true
		}
	case *batch:
		if e.ends && !v.hostOf(f.host).crashed {
			v.handled(f)
		}
	case *letter, *lettersRead, *mailed:
		v.corresponds(e)
	case *verdict:
		v.decides(f)
	case *checkpoint:
		if w := v.workers[f.worker]; !e.ends {
			v.called[f] = w.confirmed
		} else if f.err == nil && !v.hostOf(f.host).crashed {
			w.confirmed = max(w.confirmed, f.lsn)
		}
	case *count:
		v.counting = v.n
	case observation:
		f.concludes(v, e.ends)
	}
}

// observation is a fact of a feature that says itself what follows from it.
type observation interface {
	// concludes moves the view behind the begin or the end of the fact.
	concludes(v *view, ends bool)
}

// change returns 1 when a fact begins, and -1 when it ends.
func (e entry) change() int {
	if e.ends {
		return -1
	}
	return 1
}

// startsAfresh returns the host that begins its first start with an entry, or goes on with it.
// A host that discards the leases has then discarded them.
func startsAfresh(e entry) *host {
	switch f := e.fact.(type) {
	case *lists:
		return f.host
	case *mark:
		if !e.ends && f.exists {
			return f.host
		}
	case *leaseWrite:
		if !e.ends && f.op != opDelete {
			return f.host
		}
	}
	return nil
}

// hostOf returns what is known of a host. An operator, an estimator and a reader do not join.
func (v *view) hostOf(h *host) *hostView {
	if v.hosts[h] == nil {
		v.hosts[h] = &hostView{left: -1}
	}
	return v.hosts[h]
}

// lease returns what is known of a lease.
func (v *view) lease(token string) *leaseView {
	if v.leases[token] == nil {
		v.leases[token] = &leaseView{owned: -1, versions: map[string]int{}}
	}
	return v.leases[token]
}

// alive returns our hosts that run and were not stopped.
func (v *view) alive() []*host {
	return slices.DeleteFunc(slices.Clone(v.order), func(h *host) bool { s := v.hosts[h]; return s.crashed || s.ended || s.left >= 0 })
}

// age returns the time since a lease was last written, by the store's clock if it has one.
func (v *view) age(l lease.Lease) time.Duration {
	if v.clockless {
		return v.now - v.entries[v.lease(l.Token).n].at
	}
	return v.store().Truncate(time.Second).Sub(l.Modified)
}

// isLive reports whether a host that discards must regard the owner of the lease as live.
func (v *view) isLive(l lease.Lease, now time.Time) bool {
	return l.Owner != "" && (v.clockless || now.Sub(l.Modified) < v.times.takeover())
}

// isGone reports whether a read of the lease would find its partition gone.
func (v *view) isGone(l lease.Lease) bool { return isGone(v.live, l.PartitionID, l.Range) }

// ancestor reports whether a shadows l: a's range contains that of l, or a is the
// partition's own lease for the same range.
func ancestor(a, l lease.Lease) bool {
	own := a.Range == l.Range && a.PartitionID != "" && l.PartitionID == ""
	return a.Token != l.Token && (own || a.Range != l.Range && a.Range.Contains(l.Range))
}

// shadowed reports whether the store holds an ancestor of l.
func (v *view) shadowed(l lease.Lease) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(v.docs)), func(a lease.Lease) bool { return ancestor(a, l) })
}

// without returns the stored leases without one, sorted by token.
func (v *view) without(token string) []lease.Lease {
	leases := slices.SortedFunc(maps.Values(v.docs), func(a, b lease.Lease) int { return strings.Compare(a.Token, b.Token) })
	return slices.DeleteFunc(leases, func(l lease.Lease) bool { return l.Token == token })
}

// usable returns the leases that no other lease shadows, sorted by token.
func (v *view) usable() []lease.Lease { return usable(v.without("")) }

// hasChild reports whether a lease within the range of l exists. A split that has begun goes
// on, even if the partitions have merged again.
func (v *view) hasChild(l lease.Lease) bool {
	return slices.ContainsFunc(v.without(""), func(x lease.Lease) bool { return protocol.IsAncestor(l, x) })
}

// uncoveredIn returns the parts of r that no lease covers, except for the lease but.
func (v *view) uncoveredIn(r feed.Range, but string) (gaps []feed.Range) {
	leases := v.without(but)
	for {
		gap, ok := uncovered(r, leases)
		if !ok {
			return gaps
		}
		gaps, leases = append(gaps, gap), append(leases, lease.Lease{Range: gap})
	}
}

// uncovered returns a part of r that no lease covers. It returns false if there is none.
func uncovered(r feed.Range, leases []lease.Lease) (feed.Range, bool) {
	for at := r.Min; at < r.Max; {
		next, end := at, r.Max
		for _, l := range leases {
			piece := l.Range.OrFull()
			if piece.Min <= at && piece.Max > next {
				next = piece.Max
			}
			if piece.Min > at && piece.Min < end {
				end = piece.Min
			}
		}
		if next == at {
			return feed.Range{Min: at, Max: end}, true
		}
		at = next
	}
	return feed.Range{}, false
}

// lsn returns the position of a lease as an LSN, or that of the lease's start.
func (v *view) lsn(l lease.Lease) int64 {
	if l.Continuation != "" {
		return lsnAt(l.Continuation)
	}
	if start := l.Start(v.defaultStart()); start.Kind() == feed.StartTime {
		return v.journal.before(start.Time(), l.Range.OrFull())
	}
	return 0
}

// defaultStart returns the start of a lease whose document records none. Our hosts record it,
// but foreign hosts, which have the same configuration, drop it.
func (v *view) defaultStart() feed.Start {
	if v.foreign {
		return v.start
	}
	return feed.Now()
}
