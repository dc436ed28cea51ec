package simulation

import (
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// tenure is a host's right to a lease. It contains only what the host can conclude from
// the answers that it received.
type tenure struct {
	host      *host
	token, id string // id and r identify the lease's partition or range
	r         feed.Range
	// attempt is when the host sent its last successful write of the lease. ahead is by
	// how much its wall clock was ahead then.
	attempt, ahead time.Duration
	known          int // the entry that applied the newest version that the host knows
	// inferred reports whether the host concluded from a conflict that its acquire was
	// applied. Its next successful write then begins the tenure, however late it is.
	inferred bool
	// givenUp reports whether the host has sent a release or a delete of the lease.
	givenUp bool
	// askedAt is when the host first saw a hand-over request in the lease, or -1.
	askedAt time.Duration
	// previousWrite is when the previous owner, a live foreign host, last wrote the lease
	// that this host stole, or -1 if the lease was not stolen.
	previousWrite time.Duration
}

type tenureKey struct {
	host  *host
	token string
}

// holding is what else follows for one lease on one host.
type holding struct {
	attempt   attempt       // the first try of an acquire whose answer was lost
	freeChild string        // the ETag of the free child that a create of the host has met
	stolen    time.Duration // when the live foreign owner last wrote the lease that the host acquired, or -1
	inFlight  int           // number of the owner's writes in progress
	worker    *worker       // the last one
	lost      *read         // the last read that missed dropped changes
	paging    *paging       // of the last read
}

func (v *view) on(h *host, token string) *holding {
	key := tenureKey{h, token}
	if v.holdings[key] == nil {
		v.holdings[key] = &holding{stolen: -1}
	}
	return v.holdings[key]
}

// knowledge is what answers have shown to a host about one version of a lease.
type knowledge struct {
	now   time.Time // the store's time of the last listing that showed it; zero if it has none
	clear bool      // a listing showed it without an ancestor
}

type knownKey struct {
	host *host
	version
}

// knows returns what the host knows of the version of a lease.
func (v *view) knows(h *host, l lease.Lease) (knowledge, bool) {
	k, known := v.known[knownKey{h, version{l.Token, l.ETag}}]
	return k, known
}

// listed records the answer to a listing.
func (v *view) listed(f *listing) {
	h := v.hostOf(f.host)
	h.marked = h.marked || !f.got.Initialized.IsZero()
	h.refused = h.discarding && slices.ContainsFunc(f.got.Leases, func(l lease.Lease) bool { return v.isLive(l, f.got.Now) })
	v.counted.lists[f.host]++
	for _, l := range f.got.Leases {
		k := knownKey{f.host, version{l.Token, l.ETag}}
		clear := !slices.ContainsFunc(f.got.Leases, func(a lease.Lease) bool { return ancestor(a, l) })
		known := knowledge{f.got.Now, clear || v.known[k].clear}
		v.known[k], v.known[knownKey{f.host, version{token: l.Token}}] = known, known
	}
}

// listedExpired reports whether a listing of the host showed the document as expired. The
// store's clock may have been set back since.
func (v *view) listedExpired(h *host, l lease.Lease) bool {
	k, known := v.knows(h, l)
	return known && !k.now.IsZero() && k.now.Sub(l.Modified) >= v.times.takeover()
}

// seenFree reports whether an answer showed the document to the host as free, as expired, or
// as a foreign owner's. Then the host may acquire or steal it. The listing's clock decides,
// because the store's clock may have been set since.
func (v *view) seenFree(h *host, token, etag string) bool {
	k, known := v.known[knownKey{h, version{token, etag}}]
	at, stored := v.applied[version{token, etag}]
	if !known || !stored {
		return false
	}
	seen := v.entries[at].fact.(*application).doc //nolint:errcheck // applied has the entries of applications
	return !lease.Ours(seen.Owner) || k.now.IsZero() || k.now.Sub(seen.Modified) >= v.times.takeover()
}

// attempt is a try of an acquire. etag is the ETag that it replaces. Later tries of the same
// acquire have the same one.
type attempt struct {
	at, ahead time.Duration
	etag      string
}

// trustedAt reports whether the host trusted its lease at a time: its last successful write
// was recent enough by both clocks.
func (v *view) trustedAt(t *tenure, at time.Duration) bool {
	passed := at - t.attempt
	return max(passed, passed+v.hostOf(t.host).ahead(at)-t.ahead) < v.times.trust()
}

func (v *view) trusted(t *tenure) bool { return t != nil && v.trustedAt(t, v.now) }

// holds reports whether the host trusts its lease and has sent neither a release nor a
// delete.
func (v *view) holds(t *tenure) bool { return v.trusted(t) && !t.givenUp }

// lapsed reports whether the trust had ended by the host's wall clock before that was set
// back. The host may have noticed it, or not.
func (v *view) lapsed(t *tenure) bool {
	return slices.ContainsFunc(v.hostOf(t.host).steps, func(s clockStep) bool { return s.at >= t.attempt && !v.trustedAt(t, s.at-1) })
}

// confirmed reports whether a host may use its lease. A lease that was not stolen needs
// no confirmation. A stolen lease needs a successful write that was sent late enough. By
// then the previous owner, if it followed our protocol, would have stopped.
func (v *view) confirmed(t *tenure) bool {
	return t.previousWrite < 0 || t.attempt-t.previousWrite >= v.times.trust()
}

// overwritten reports whether a foreign host has replaced or deleted the document since the
// version that the host knows. The host learns of it only at its next write.
func (v *view) overwritten(t *tenure) bool { return t != nil && v.lease(t.token).foreign > t.known }

// overtaken reports whether another host has acquired the lease since the version that the
// host knows, because a jump of the store's clock made the lease look expired.
func (v *view) overtaken(t *tenure) bool { return t != nil && v.lease(t.token).byJump > t.known }

// begun returns the tenure that begins with a write, whose first attempt was at. answer is
// the version that the host now knows.
func (v *view) begun(w *leaseWrite, at attempt, answer lease.Lease) *tenure {
	return &tenure{
		host: w.host, token: w.lease.Token, id: w.lease.PartitionID, r: w.lease.Range.OrFull(), attempt: at.at, ahead: at.ahead,
		known: v.applied[version{answer.Token, answer.ETag}], askedAt: -1, previousWrite: v.on(w.host, w.lease.Token).stolen,
	}
}

// sending is what follows from the state in which a host sends a write.
type sending struct {
	n         int
	at, ahead time.Duration
	discards  bool // the host sends it while it discards the leases
	// replaces reports whether the host sends the write while it replaces a gone lease: a
	// delete of a leftover, the create of a child, or a write of a child that exists.
	replaces bool
	// acquires reports whether the write acquires a lease that an answer has shown to the
	// host as free or expired.
	acquires bool
	before   lease.Lease   // the replaced document, once the write is applied
	age      time.Duration // of that document
}

// owners reports whether a host sends the write only as the owner, one at a time. The
// create of a free lease is not such a write, nor is a write by which a host replaces a gone
// lease.
func (v *view) owners(w *leaseWrite) bool {
	return !v.writes[w].replaces && (w.op != opCreate || w.lease.Owner != "")
}

// mine reports whether the host writes itself as the lease's owner.
func (w *leaseWrite) mine() bool {
	return w.host != nil && w.host.text() != "" && w.lease.Owner == w.host.text()
}

// releases reports whether the write gives up the lease of its host.
func (v *view) releases(w *leaseWrite) bool {
	return !v.writes[w].replaces && (w.op == opDelete || w.op == opUpdate && w.lease.Owner == "")
}

// sending returns what follows from the state in which a host sends a write.
func (v *view) sending(w *leaseWrite) *sending {
	h := v.hostOf(w.host)
	s := &sending{n: v.n, at: v.now, ahead: h.ahead(v.now)}
	if w.host == nil || w.host.foreign || h.crashed {
		return s
	}
	s.discards = h.discarding && w.op == opDelete
	s.replaces = v.replaces(w)
	s.acquires = w.op == opUpdate && w.mine() && !v.holds(v.tenures[tenureKey{w.host, w.lease.Token}]) && v.seenFree(w.host, w.lease.Token, w.lease.ETag)
	return s
}

// sent records that a write leaves its host.
func (v *view) sent(w *leaseWrite) {
	if w.op == opCreate && w.host != nil {
		v.creates++
	}
	if v.hostOf(w.host).crashed || w.host == nil || w.host.foreign {
		return
	}
	if v.owners(w) {
		v.on(w.host, w.lease.Token).inFlight++
	}
	if t := v.tenures[tenureKey{w.host, w.lease.Token}]; t != nil && v.releases(w) {
		t.givenUp = true
	}
}

// replaces reports whether the host sends the write while it replaces a gone lease, and not
// as the owner of the lease that it writes.
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
	for key, t := range v.tenures {
		if key.host != h || !v.holds(t) {
			continue
		}
		a := lease.Lease{Token: key.token, PartitionID: t.id, Range: t.r}
		if ancestor(a, l) && (v.isGone(t.id, t.r) || v.hasChild(a)) {
			return true
		}
	}
	return false
}

// deletesLost reports whether the host deletes a lease that names it as the owner, but which
// it has lost: its trust has ended by itself, and a listing of the host shows the document
// as expired. Then the host's own text protects the lease no more than that of another host.
func (v *view) deletesLost(w *leaseWrite) bool {
	t := v.tenures[tenureKey{w.host, w.lease.Token}]
	lost := t == nil || !t.givenUp && !v.trusted(t)
	return w.op == opDelete && lost && !v.clockless && v.seenFree(w.host, w.lease.Token, w.lease.ETag)
}

// answered records that a host receives the answer to a write, or gives up waiting for it.
func (v *view) answered(w *leaseWrite) {
	if w.host == nil {
		return
	}
	if w.op == opCreate {
		v.creates--
	}
	if w.host.foreign || v.hostOf(w.host).crashed {
		return
	}
	key, s, on := tenureKey{w.host, w.lease.Token}, v.writes[w], v.on(w.host, w.lease.Token)
	if v.owners(w) {
		on.inFlight--
	}
	current, conflict := conflictWith(w.err)
	h, owner := v.hostOf(w.host), w.host.text()
	switch {
	case w.err == nil:
		on.attempt = attempt{}
		v.succeeded(w)
		return
	case conflict:
		// The host judges the current document by its last listing.
		v.known[knownKey{w.host, version{current.Token, current.ETag}}] = v.known[knownKey{w.host, version{token: current.Token}}]
		h.refused = h.refused || s.discards && current.Owner != ""
		// The partitions may have merged back before the create was sent. If the network
		// delivered the create twice, the child that it met is its own.
		if w.op == opCreate && current.Owner == "" && (s.replaces || v.replaces(w)) {
			on.freeChild = current.ETag
		}
		if owner != "" && current.Owner == owner {
			if on.attempt.etag == w.lease.ETag && !v.holds(v.tenures[key]) {
				v.tenures[key] = v.begun(w, on.attempt, current)
				v.tenures[key].inferred = true
			}
			v.sawRequest(v.tenures[key], current)
			return
		}
		if v.owners(w) {
			delete(v.tenures, key) // another host owns the lease, and the worker has learned that
		}
	}
	// Attempts on the same document are one acquire while the trust from the first one
	// would last. After that, the host has begun a new acquire.
	if s.acquires && (on.attempt.etag != w.lease.ETag || s.at-on.attempt.at >= v.times.trust()) {
		on.attempt = attempt{at: s.at, ahead: s.ahead, etag: w.lease.ETag}
	}
}

// succeeded updates the host's tenure after a successful write.
func (v *view) succeeded(w *leaseWrite) {
	key, s := tenureKey{w.host, w.lease.Token}, v.writes[w]
	t, owner := v.tenures[key], w.host.text()
	switch {
	case w.op == opDelete || w.op == opUpdate && w.lease.Owner == "":
		delete(v.tenures, key)
	case !w.mine():
		// A hand-over request, a child or a freed lease changes nobody's trust.
	case w.op == opUpdate && (s.before.Owner != owner || s.age >= v.times.takeover() || s.acquires && !v.clockless), t == nil || t.givenUp || t.inferred:
		v.tenures[key] = v.begun(w, attempt{at: s.at, ahead: s.ahead}, w.answer)
	case v.trusted(t):
		t.attempt, t.ahead, t.known = s.at, s.ahead, v.applied[version{w.lease.Token, w.answer.ETag}]
	}
	if w.answer.Owner == owner {
		v.sawRequest(v.tenures[key], w.answer)
	}
}

// sawRequest records when the host first saw a hand-over request in its lease. If l has
// no request, it forgets the time. That happens when the document was deleted by hand and
// its owner recreated it without the request.
func (v *view) sawRequest(t *tenure, l lease.Lease) {
	switch {
	case t == nil:
	case l.Wanted() == "":
		t.askedAt = -1
	case t.askedAt < 0:
		t.askedAt = v.now
	}
}
