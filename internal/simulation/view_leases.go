package simulation

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// This file concludes from the writes of leases: the documents and the marker in the lease
// store, the changes that the leases promise, and what hosts know of their leases.

// apply records that the store applies a write.
func (v *view) apply(a *application) {
	token, s := a.lease.Token, v.sent[a.leaseWrite]
	before, l := s.before, v.lease(token)
	foreign := a.host != nil && a.host.foreign
	if foreign && a.op != opCreate {
		l.foreign = v.n
	}
	if a.op != opUpdate {
		v.doubles(a)
		l.strange = !a.ours()
	}
	if a.host == nil && !protocol.StopOf(before).IsZero() && protocol.StopOf(a.doc).IsZero() {
		for w, known := range v.workers {
			if w.lease.Token == token {
				known.stopped = -1
			}
		}
	}
	if a.op == opDelete || a.host != nil && (a.op == opCreate || a.doc.Owner != before.Owner || a.doc.Wanted() != before.Wanted()) {
		v.changedAt = v.now
	}
	if a.op == opDelete {
		delete(v.docs, token)
		if s.discards {
			if v.jumpedAt > l.n {
				l.byJump = v.n
			}
			v.discards(before)
		} else if a.host == nil || foreign && !v.isGone(before) {
			v.deleted = v.n
			v.strays(before.Range.OrFull())
		}
		return
	}
	switch {
	case a.ours() && a.op == opUpdate && a.doc.Owner == a.host.text() && a.doc.Owner != before.Owner:
		v.acquired(a)
	case a.ours() && a.op == opCreate:
		l.made = v.now
		v.startsAgain(a)
		if v.began[a.leaseWrite] < v.discard { // the changes up to its position are not delivered again
			for _, r := range v.journal.between(a.doc.Range.OrFull(), 0, v.lsn(a.doc)) {
				r.delivery = r.or(r.before)
			}
		}
	}
	if a.host != nil {
		l.last = a.doc
	}
	if a.doc.Owner != "" && (foreign || a.host != nil && a.doc.Owner == a.host.text()) {
		l.owned = v.now
	}
	v.docs[token], l.n, l.versions[a.doc.ETag] = a.doc, v.n, v.n
	if o := v.workers[v.on(a.host, token).worker]; o != nil && a.doc.Continuation != "" {
		o.stored = max(o.stored, v.lsn(a.doc))
	}
}

// acquired records whether one of our hosts has stolen the lease that it acquires, and whether
// a jump of the store's clock allowed it: forward, or back since the host listed the lease.
func (v *view) acquired(a *application) {
	s, on, l := v.sent[a.leaseWrite], v.on(a.host, a.doc.Token), v.lease(a.doc.Token)
	on.stolen = -1
	if owner := s.before.Owner; owner != "" && !protocol.Ours(owner) && s.age < v.times.takeover() {
		on.stolen = v.entries[l.n].at
	}
	if s.before.Owner != "" && (on.seen[s.before.ETag].now.After(v.store()) || v.jumpedAt > l.n) {
		l.byJump = v.n
	}
}

// markFloor is the LSN of each partition when the marker was created. Changes of the keys
// with greater LSNs must be delivered, if the start is now.
type markFloor struct {
	keys     []feed.Range
	counters []counter
}

// marked records that the marker was created or deleted. A host that deletes it discards the
// leases, and keys without a lease start at the next marker, too. If a create of the marker
// arrives late, after a discard, the next host finds the marker but no leases, and replaces
// them as lost ones.
func (v *view) marked(m *markApplied) {
	switch {
	case !m.exists:
		v.unmarkAt = v.n
		if v.marker {
			v.unmarked = v.uncoveredIn(feed.Full(), "")
		}
	case !v.marker:
		if v.began[m.mark] < v.unmarkAt {
			v.strays(feed.Full())
		}
		v.floors = append(v.floors, markFloor{v.unmarked, m.counters})
		v.unmarked = nil
	}
	v.marker = m.exists
}

// discards records a discard. Keys that no other lease covers start over.
func (v *view) discards(l lease.Lease) {
	v.discard = v.n
	for _, r := range v.uncoveredIn(l.Range.OrFull(), "") {
		for token, known := range v.leases {
			if _, stored := v.docs[token]; !stored && r.Contains(known.last.Range.OrFull()) {
				known.last = lease.Lease{}
			}
		}
		v.journal.restarts++
		for _, c := range v.journal.between(r, 0, math.MaxInt64) {
			c.before, c.delivery, c.restarted = c.or(c.before), delivery{}, v.journal.restarts
		}
		if !v.marker {
			v.unmarked = append(v.unmarked, r)
		} else if n := len(v.floors); n > 0 {
			v.floors = append(v.floors, markFloor{[]feed.Range{r}, v.floors[n-1].counters})
		}
	}
}

// promised returns the last LSN of a key before the marker, or before the configured start.
// Every later change must be delivered.
func (v *view) promised(k *keyLog) int64 {
	switch v.start.Kind() {
	case feed.StartTime:
		lsn, _ := k.before(v.start.Time())
		return lsn
	case feed.StartContinuation:
		return lsnAt(v.start.Continuation())
	case feed.StartNow:
		for _, f := range slices.Backward(v.floors) {
			i := slices.IndexFunc(f.counters, func(n counter) bool { return n.keys.Holds(k.epk) })
			if i >= 0 && slices.ContainsFunc(f.keys, func(r feed.Range) bool { return r.Holds(k.epk) }) {
				return f.counters[i].lsn
			}
		}
	case feed.StartBeginning:
	}
	return 0
}

// strays records that the keys of r that no lease covers may start again from now: their lease
// was deleted by hand, or the marker was created late, without it.
func (v *view) strays(r feed.Range) {
	if v.mode == feed.AllVersionsAndDeletes && v.start.Kind() == feed.StartNow {
		v.astray = append(v.astray, v.uncoveredIn(r, "")...)
	}
}

// isAstray reports whether the write creates a lease that starts again from now.
func (v *view) isAstray(a *application) bool {
	return a.op == opCreate && a.doc.Owner == "" && slices.ContainsFunc(v.astray, a.doc.Range.OrFull().Overlaps)
}

// startsAgain records that the changes before a lease that starts again from now are lost.
func (v *view) startsAgain(a *application) {
	if v.isAstray(a) {
		for _, r := range v.journal.between(a.doc.Range.OrFull(), 0, v.lsn(a.doc)) {
			r.lost = r.lost || !r.acked
		}
	}
}

// moment is when a host sends a write, and by how much its wall clock is ahead then.
type moment struct{ at, ahead time.Duration }

// tenure is a host's right to a lease, as far as the host can conclude it from answers.
type tenure struct {
	moment  // of the last successful write of the lease
	host    *host
	lease   lease.Lease // its token, partition and range
	known   int         // the entry that applied the newest version that the host knows
	givenUp bool        // the host has sent a release or a delete of the lease
	// inferred is true if the host concluded from a conflict that its acquire was applied.
	// Its next successful write then begins the tenure, however late it is.
	inferred bool
	wantedAt time.Duration // when the host first saw that the lease is wanted, or -1
	// previousWrite is when the previous owner, a live foreign host, last wrote the lease
	// that this host stole, or -1 if the lease was not stolen.
	previousWrite time.Duration
}

type tenureKey struct {
	host  *host
	token string
}

func (w *leaseWrite) key() tenureKey { return tenureKey{w.host, w.lease.Token} }

// holding is what else follows for one lease on one host.
type holding struct {
	attempt   moment               // the first try of an acquire whose answer was lost
	replaces  string               // the ETag that all tries of that acquire replace
	freeChild string               // the ETag of the free child that a create of the host has met
	stolen    time.Duration        // when the live foreign owner last wrote the lease that the host acquired, or -1
	inFlight  int                  // number of the owner's writes in progress
	seen      map[string]knowledge // of the lease's versions, by ETag; that of the last listing has none
	worker    *worker              // the last one
	lost      *read                // the last read that missed dropped changes
	paging    *paging              // of the last read
}

// knowledge is what answers have shown to a host about one version of a lease.
type knowledge struct {
	now   time.Time // the store's time of the last listing that showed it; zero if it has none
	clear int       // number of the last listing that showed it without an ancestor, from 1 on
}

func (v *view) on(h *host, token string) *holding {
	key := tenureKey{h, token}
	if v.holdings[key] == nil {
		v.holdings[key] = &holding{stolen: -1, seen: map[string]knowledge{}}
	}
	return v.holdings[key]
}

// listed records the answer to a listing.
func (v *view) listed(f *listing) {
	h := v.hostOf(f.host)
	h.marked = h.marked || !f.got.Initialized.IsZero()
	h.refused = h.discarding && slices.ContainsFunc(f.got.Leases, func(l lease.Lease) bool { return v.isLive(l, f.got.Now) })
	h.lists++
	for _, l := range f.got.Leases {
		seen := v.on(f.host, l.Token).seen
		k := knowledge{f.got.Now, seen[l.ETag].clear}
		if !slices.ContainsFunc(f.got.Leases, func(a lease.Lease) bool { return ancestor(a, l) }) {
			k.clear = h.lists
		}
		seen[l.ETag], seen[""] = k, k
	}
}

// listedExpired reports whether a listing of the host showed the document as expired. The
// store's clock may have been set back since.
func (v *view) listedExpired(h *host, l lease.Lease) bool {
	k := v.on(h, l.Token).seen[l.ETag]
	return !k.now.IsZero() && k.now.Sub(l.Modified) >= v.times.takeover()
}

// seenFree reports whether an answer showed the document that a write replaces to the host as
// free, as expired by the clock of the listing, or as a foreign owner's, which may be stolen.
func (v *view) seenFree(w *leaseWrite) bool {
	k, known := v.on(w.host, w.lease.Token).seen[w.lease.ETag]
	at, stored := v.lease(w.lease.Token).versions[w.lease.ETag]
	if !known || !stored {
		return false
	}
	seen := v.entries[at].fact.(*application).doc //nolint:errcheck // versions has the entries of applications
	return !protocol.Ours(seen.Owner) || k.now.IsZero() || k.now.Sub(seen.Modified) >= v.times.takeover()
}

// trustedAt reports whether the last successful write was recent enough by both clocks.
func (v *view) trustedAt(t *tenure, at time.Duration) bool {
	passed := at - t.at
	return max(passed, passed+v.hostOf(t.host).ahead(at)-t.ahead) < v.times.trust()
}

func (v *view) trusted(t *tenure) bool { return t != nil && v.trustedAt(t, v.now) }

// holds reports whether the host trusts its lease and has not given it up.
func (v *view) holds(t *tenure) bool { return v.trusted(t) && !t.givenUp }

// lapsed reports whether trust had ended by the host's wall clock before that was set back.
func (v *view) lapsed(t *tenure) bool {
	return slices.ContainsFunc(v.hostOf(t.host).steps, func(s clockStep) bool { return s.at >= t.at && !v.trustedAt(t, s.at-1) })
}

// confirmed reports whether a write of a stolen lease was sent so late that the previous
// owner, if it followed our protocol, had stopped. A lease that was not stolen is confirmed.
func (v *view) confirmed(t *tenure) bool {
	return t.previousWrite < 0 || t.at-t.previousWrite >= v.times.trust()
}

// overwritten reports whether a foreign host has replaced or deleted the document since the
// version that the host knows. The host learns of it only at its next write.
func (v *view) overwritten(t *tenure) bool {
	return t != nil && v.lease(t.lease.Token).foreign > t.known
}

// overtaken reports whether the document was overwritten, or another host has acquired it
// because a jump of the store's clock made it look expired.
func (v *view) overtaken(t *tenure) bool {
	return v.overwritten(t) || t != nil && v.lease(t.lease.Token).byJump > t.known
}

// begun returns the tenure that begins with a write whose first try was made at first. answer
// is the version that the host now knows.
func (v *view) begun(w *leaseWrite, first moment, answer lease.Lease) *tenure {
	l := lease.Lease{Token: w.lease.Token, PartitionID: w.lease.PartitionID, Range: w.lease.Range.OrFull()}
	return &tenure{
		moment: first, host: w.host, lease: l, known: v.lease(answer.Token).versions[answer.ETag],
		wantedAt: -1, previousWrite: v.on(w.host, l.Token).stolen,
	}
}

// sending is what follows for a write from the state in which its host sends it.
type sending struct {
	moment
	discards bool          // the host sends it while it discards the leases
	replaces bool          // see view.replaces
	acquires bool          // the lease, which an answer has shown to the host as free or expired
	before   lease.Lease   // the replaced document, once the write is applied
	age      time.Duration // of that document
}

// owners reports whether a host sends the write only as the owner, one at a time. The create
// of a free lease is not such a write, nor is one by which a host replaces a gone lease.
func (v *view) owners(w *leaseWrite) bool {
	return !v.sent[w].replaces && (w.op != opCreate || w.lease.Owner != "")
}

// ours reports whether one of our hosts sends the write.
func (w *leaseWrite) ours() bool { return w.host != nil && !w.host.foreign }

// mine reports whether the host writes itself as the lease's owner.
func (w *leaseWrite) mine() bool {
	return w.host != nil && w.host.text() != "" && w.lease.Owner == w.host.text()
}

// frees reports whether the write leaves the lease without an owner. The host that sends it
// gives up its own lease, unless it replaces a gone one.
func (w *leaseWrite) frees() bool { return w.op == opDelete || w.op == opUpdate && w.lease.Owner == "" }

func (v *view) releases(w *leaseWrite) bool { return w.frees() && !v.sent[w].replaces }

// sending concludes what follows for a write when its host sends it.
func (v *view) sending(w *leaseWrite) *sending {
	h := v.hostOf(w.host)
	s := &sending{moment: moment{v.now, h.ahead(v.now)}}
	if w.ours() && !h.crashed {
		s.discards = h.discarding && w.op == opDelete
		s.replaces = v.replaces(w)
		s.acquires = w.op == opUpdate && w.mine() && !v.holds(v.tenures[w.key()]) && v.seenFree(w)
	}
	return s
}

// replaces reports whether the host sends the write while it replaces a gone lease: a delete
// of a leftover, the create of a child, or a write of a child that exists.
func (v *view) replaces(w *leaseWrite) bool {
	h, l := w.host, w.lease
	switch {
	case v.hostOf(h).discarding || l.Owner == h.text() && !v.deletesLost(w):
		return false
	case w.op == opUpdate:
		// The host writes the child at once after the create that met it. Its trust in the
		// gone lease may end in between.
		return l.Owner == "" && l.ETag == v.on(h, l.Token).freeChild
	}
	for _, t := range v.tenures {
		if t.host == h && v.holds(t) && ancestor(t.lease, l) && (v.isGone(t.lease) || v.hasChild(t.lease)) {
			return true
		}
	}
	return false
}

// deletesLost reports whether the host deletes a lease that it has lost, though it is the
// owner by the text: trust has ended by itself, and a listing shows the lease as expired.
func (v *view) deletesLost(w *leaseWrite) bool {
	t := v.tenures[w.key()]
	lost := t == nil || !t.givenUp && !v.trusted(t)
	return w.op == opDelete && lost && !v.clockless && v.seenFree(w)
}

// writes records that a write leaves its host, or that the host no longer waits for it.
func (v *view) writes(w *leaseWrite, e entry) {
	if w.op == opCreate {
		v.creates += e.change()
	}
	if !w.ours() || v.hostOf(w.host).crashed {
		return
	}
	on, t := v.on(w.host, w.lease.Token), v.tenures[w.key()]
	if v.owners(w) {
		on.inFlight += e.change()
	}
	switch {
	case e.ends && w.err == nil:
		on.attempt, on.replaces = moment{}, ""
		v.succeeded(w, t)
	case e.ends:
		v.failed(w, t, on)
	case t != nil && v.releases(w):
		t.givenUp = true
	}
}

// succeeded updates the host's tenure after a successful write.
func (v *view) succeeded(w *leaseWrite, t *tenure) {
	s, owner := v.sent[w], w.host.text()
	switch {
	case w.frees():
		delete(v.tenures, w.key())
	case !w.mine():
		// Nobody's trust changes when a host asks for a lease, creates a child or frees a lease.
	case w.op == opUpdate && (s.before.Owner != owner || s.age >= v.times.takeover() || s.acquires && !v.clockless), t == nil || t.givenUp || t.inferred:
		v.tenures[w.key()] = v.begun(w, s.moment, w.answer)
	case v.trusted(t):
		t.moment, t.known = s.moment, v.lease(w.lease.Token).versions[w.answer.ETag]
	}
	if w.answer.Owner == owner {
		v.sawWanted(v.tenures[w.key()], w.answer)
	}
}

// failed updates what the host knows after a write that failed.
func (v *view) failed(w *leaseWrite, t *tenure, on *holding) {
	h, s, owner := v.hostOf(w.host), v.sent[w], w.host.text()
	if current, conflict := conflictWith(w.err); conflict {
		// The host judges the current document by its last listing.
		seen := v.on(w.host, current.Token).seen
		seen[current.ETag] = seen[""]
		h.refused = h.refused || s.discards && current.Owner != ""
		// The partitions may have merged back before the create was sent. If the network
		// delivered the create twice, the child that it met is its own.
		if w.op == opCreate && current.Owner == "" && (s.replaces || v.replaces(w)) {
			on.freeChild = current.ETag
		}
		if owner != "" && current.Owner == owner {
			if on.replaces == w.lease.ETag && !v.holds(t) {
				t = v.begun(w, on.attempt, current)
				t.inferred = true
				v.tenures[w.key()] = t
			}
			v.sawWanted(t, current)
			return
		}
		if v.owners(w) {
			delete(v.tenures, w.key()) // another host owns the lease, and the worker has learned that
		}
	}
	// Attempts on the same document are one acquire while the trust from the first one
	// would last. After that, the host has begun a new acquire.
	if s.acquires && (on.replaces != w.lease.ETag || s.at-on.attempt.at >= v.times.trust()) {
		on.attempt, on.replaces = s.moment, w.lease.ETag
	}
}

// sawWanted records when the host first saw that its lease is wanted. A lease that
// was deleted by hand and put back is not wanted any more.
func (v *view) sawWanted(t *tenure, l lease.Lease) {
	switch {
	case t == nil:
	case l.Wanted() == "":
		t.wantedAt = -1
	case t.wantedAt < 0:
		t.wantedAt = v.now
	}
}

// conflictWith returns the document that a write has met, if err is a conflict.
func conflictWith(err error) (lease.Lease, bool) {
	if conflict, ok := errors.AsType[*lease.ConflictError](err); ok {
		return conflict.Current, true
	}
	return lease.Lease{}, false
}
