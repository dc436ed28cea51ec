package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// checker checks the invariants of the lease protocol at every step of a simulation. It
// keeps a copy of the lease documents, built from the applied writes, and the answers
// that each host received. The invariants are:
//
//	 1 exclusive use         no two workers use overlapping ranges
//	 2 no skip               every change up to a position is acknowledged
//	 3 delivery              every change after the marker is handled
//	 4 order                 a worker receives changes in order and without gaps
//	 5 forward               a position never decreases
//	 6 owners                a host changes Owner, hand-over requests and properties
//	                         only where the protocol allows it
//	 7 trust                 no use after a release, a delete, or the end of trust;
//	                         no new batch after a hand-over request was seen
//	 8 gone leases           are deleted only when their children exist, at their position
//	 9 shadowed leases       are not acquired
//	10 free leases           have no worker on their last owner (part of 7)
//	11 coverage, 12 stability and 13 cost are checked at rest, see check_rest.go
//	14 one write             a host sends one write of a lease at a time
//	15 moves                 redeliver no change; an expired lease is acquired in time
//	16 prompt reads          a worker reads again at once if more changes may follow
//	17 drain                the context of a handler ends when the drain timeout of a stop
//	                        is over, and at no other time while the host trusts the lease
//	18 checkpoints          Batch.Checkpoint returns nil only for a stored position, see
//	                        check_checkpoints.go
//	19 bounds                a position has a bound if the source refused the start time
//	20 estimates             the estimator's lag is that of the journal; it is known at rest
//	21 readers               a reader returns every change of its range in order, and
//	                         resumes from its position
//	22 discards              delete the marker first, then every lease that has no live
//	                         owner; see check_discard.go
//	23 time to live          no page contains an expired item; a change that was read before
//	                         its item expired is acknowledged; the next purge deletes an
//	                         expired item; see check_expiry.go
//
// Exclusive use is not checked after an operation that breaks it by the protocol. See
// operatorDeletes.
type checker struct {
	world *world

	mu        sync.Mutex // guards the fields below; never held during I/O
	exclusive bool
	// overlapped reports whether a foreign host has created a lease that overlaps another
	// one in part.
	overlapped bool
	docs       map[string]lease.Lease // the stored lease documents, by token
	history    map[string][]lease.Lease
	marker     bool
	markedAt   time.Time            // time at which the marker was last created
	started    bool                 // whether the first start is over; see settled
	floors     []markFloor          // for a start from now; the newest is the last
	unmarked   []feed.Range         // keys whose leases were discarded, or never created, since the marker was created
	madeAt     map[string]time.Time // time of the create of each lease, by token
	discardAt  time.Time            // time at which a lease was last discarded
	unmarkAt   time.Time            // time at which the marker was last deleted
	lateMark   bool                 // see checker.marked
	tenures    map[tenureKey]*tenure
	inFlight   map[tenureKey]int
	acquiring  map[tenureKey]attempt
	// freeChildren holds the ETag of each free child that a create of the host has met.
	freeChildren map[tenureKey]string
	creates      int // number of creates that are in progress
	uses         []*use
	workers      map[tenureKey]*simObserver // the last worker of each lease on each host
	// otherOwner holds the channels that are closed when a lease gets another owner, by
	// token.
	otherOwner map[string]chan struct{}
	steals     map[tenureKey]time.Time // for stolen leases: the previous owner's last write
	orderly    bool                    // exclusive use is also checked between our hosts and foreign ones
	visits     visits
	lastRead   map[string]time.Time
	due        map[tenureKey]dueRead
	jumpedAt   time.Time              // time at which the store's clock last jumped forward
	jumped     time.Duration          // by how much it has jumped forward in all
	lost       map[tenureKey]lostRead // the last reads of each lease that missed dropped changes
	reads      map[tenureKey]dueRead  // each worker's last read, due or not
	limited    map[tenureKey]limitedReads
	lastWrite  map[string]time.Time // time of the owner's last write, by token
	writtenAt  map[string]time.Time // time of anybody's last write, by token
	deletedAt  time.Time            // time of an operator's last delete
	// overwritten contains the ETags of documents that foreign hosts replaced or deleted.
	overwritten map[string]bool
	// overtook contains the ETags of documents that another host acquired because the
	// store's clock had jumped forward.
	overtook  map[string]bool
	changedAt time.Time // time at which an owner or a hand-over request last changed, or a worker last started
	moves     int
	found     []violation
	cost      costs
}

// attempt is the first try of an acquire whose answer was lost. since is its time, and
// etag is the ETag that it replaces. Later tries of the acquire have the same ETag.
type attempt struct {
	since time.Time
	ahead time.Duration // of the host's wall clock, at that time
	etag  string
}

// violation describes an invariant that did not hold: its number, the time since the
// start of the run, and a message.
type violation struct {
	invariant int
	at        time.Duration
	text      string
}

func (v violation) String() string {
	return fmt.Sprintf("invariant %d at %.6f s: %s", v.invariant, v.at.Seconds(), v.text)
}

func newChecker(w *world) *checker {
	return &checker{
		world: w, exclusive: true,
		docs: map[string]lease.Lease{}, history: map[string][]lease.Lease{},
		tenures: map[tenureKey]*tenure{}, inFlight: map[tenureKey]int{}, acquiring: map[tenureKey]attempt{}, freeChildren: map[tenureKey]string{}, steals: map[tenureKey]time.Time{},
		lastRead: map[string]time.Time{}, due: map[tenureKey]dueRead{}, lost: map[tenureKey]lostRead{}, reads: map[tenureKey]dueRead{}, lastWrite: map[string]time.Time{}, writtenAt: map[string]time.Time{},
		overwritten: map[string]bool{}, overtook: map[string]bool{}, limited: map[tenureKey]limitedReads{},
		unmarked: []feed.Range{feed.Full()}, madeAt: map[string]time.Time{},
		workers: map[tenureKey]*simObserver{}, otherOwner: map[string]chan struct{}{},
		cost: newCosts(),
	}
}

// violate records the violation of an invariant, given by its number. The caller holds
// c.mu.
func (c *checker) violate(invariant int, format string, args ...any) {
	if len(c.found) < 20 {
		c.found = append(c.found, violation{
			invariant: invariant, at: time.Since(c.world.trace.origin), text: fmt.Sprintf(format, args...),
		})
	}
}

// fail locks c.mu and records the violation of an invariant, given by its number.
func (c *checker) fail(invariant int, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violate(invariant, format, args...)
}

func (c *checker) violations() []violation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]violation(nil), c.found...)
}

// moved returns the number of times that the owner of a lease changed.
func (c *checker) moved() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moves
}

func (c *checker) failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.found) > 0
}

// leaseWrite is one write of a host to the lease store.
type leaseWrite struct {
	host   *host
	op     string
	lease  lease.Lease
	start  time.Time
	ahead  time.Duration // by how much the host's wall clock was ahead at start
	before lease.Lease   // the replaced document; set when the store applies the write
	age    time.Duration
	// discards reports whether the host sends the write while it discards the leases.
	discards bool
	// replaces reports whether the host sends the write while it replaces a gone lease: a
	// delete of a leftover, the create of a child, or a write of a child that exists.
	replaces bool
	// acquires reports whether the write acquires a lease that a listing of the host shows
	// as free or expired.
	acquires bool
}

// tenure returns the host's right to use a lease that it acquired or renewed by w.
// first is the attempt with which the right begins. answer is the document in the store's answer. A foreign
// host may have replaced it before the answer arrived. The caller holds c.mu.
func (c *checker) tenure(w *leaseWrite, first attempt, answer lease.Lease) *tenure {
	return &tenure{
		host: w.host, attempt: first.since, ahead: first.ahead, id: w.lease.PartitionID, r: w.lease.Range.OrFull(),
		previousWrite: c.steals[tenureKey{w.host, w.lease.Token}],
		overwritten:   c.overwritten[answer.ETag],
		overtaken:     c.overtook[answer.ETag],
	}
}

// ownersWrite reports whether the write is one that a host sends only as the owner, one
// at a time. The create of a free lease is not such a write: a child, a lease at
// bootstrap, or a lease that heals a gap. The host that creates it does not own it. So a
// host may split a parent that was created late while its worker on the shadowed child
// releases the child. The same holds for the other writes of a host that replaces a lease.
func (w *leaseWrite) ownersWrite() bool {
	return !w.replaces && (w.op != opCreate || w.lease.Owner != "")
}

// sent checks a write before it leaves the host.
func (c *checker) sent(h *host, op string, l lease.Lease) *leaseWrite {
	w := &leaseWrite{host: h, op: op, lease: l, start: time.Now(), ahead: h.clock.ahead()}
	if h.crashed() {
		return w
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.discardSends(w)
	key := tenureKey{h, l.Token}
	w.replaces = c.replaces(w)
	if w.ownersWrite() {
		c.inFlight[key]++
		if c.inFlight[key] > 1 {
			c.violate(14, "%s: %d writes of lease %s at a time", h.id, c.inFlight[key], l.Token)
		}
	}
	t := c.tenures[key]
	mine := h.text() != "" && l.Owner == h.text()
	w.acquires = op == opUpdate && mine && !c.holds(t) && c.seenFree(h, l)
	if w.acquires {
		c.acquiresOne(h, l.Token)
	}
	switch op {
	case opCreate:
		c.creates++
		if l.Owner == "" && h.starting() && !c.deletedAt.IsZero() {
			// The host creates the leases that its first listing did not show. It cannot
			// detect that the lease has existed and was deleted by hand.
			c.exclusive = false
		}
		if mine && (!c.trusted(t) || !c.confirmed(t)) {
			c.violate(6, "%s: puts back lease %s, which it does not trust", h.id, l.Token)
		}
		c.childSent(h, l)
	case opDelete:
		if !w.replaces {
			c.checkGiveUp(h, t, l.Token, "delete")
		}
	case opUpdate:
		switch {
		case w.replaces:
		case l.Owner == "":
			c.checkGiveUp(h, t, l.Token, "release")
		// After a conflict that shows that an acquire was applied, the host writes the
		// lease once more. The tenure begins with that write. It may be late if nobody
		// wrote in between.
		case mine && t != nil && !t.givenUp && !t.unproven && !c.trusted(t) && !w.acquires:
			c.violate(7, "%s: writes lease %s after trust ended", h.id, l.Token)
		}
	}
	return w
}

// seenFree reports whether a listing of the host shows the document that l replaces as free,
// as expired, or as a foreign owner's. Then the host may acquire or steal it. The listing's
// clock decides, because the store's clock may have been set since.
func (c *checker) seenFree(h *host, l lease.Lease) bool {
	return h.hasListed(func(listing lease.Listing) bool {
		return slices.ContainsFunc(listing.Leases, func(seen lease.Lease) bool {
			return seen.Token == l.Token && seen.ETag == l.ETag && (!lease.Ours(seen.Owner) || listing.Now.IsZero() || listing.Now.Sub(seen.Modified) >= c.world.times.takeover())
		})
	})
}

// checkGiveUp checks a release or a delete at the moment at which the host sends it. The
// host's worker must have stopped. At the first try, the host must still trust the lease.
func (c *checker) checkGiveUp(h *host, t *tenure, token, what string) {
	if t != nil && !t.givenUp && !c.trusted(t) {
		c.violate(7, "%s: sends a %s of lease %s after trust ended", h.id, what, token)
	}
	if t != nil && !c.confirmed(t) {
		c.violate(7, "%s: sends a %s of the stolen lease %s before it is confirmed", h.id, what, token)
	}
	for _, u := range c.uses {
		if u.host == h && u.token == token && u.ctx.Err() == nil {
			c.violate(7, "%s: sends a %s of lease %s during a %s", h.id, what, token, u.what)
		}
	}
	if t != nil {
		t.givenUp = true
	}
}

// addLateCreates adds by to the number of creates whose callers have given up but which
// have not arrived yet. It ignores other calls.
func (c *checker) addLateCreates(which call, by int) {
	if which.op != opCreate {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.creates += by
}

// answered records that the host received the answer to a write, or gave up waiting for
// it.
func (c *checker) answered(w *leaseWrite, answer lease.Lease, err error) {
	if w.host.crashed() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := tenureKey{w.host, w.lease.Token}
	if w.ownersWrite() && c.inFlight[key] > 0 {
		c.inFlight[key]--
	}
	if w.op == opCreate {
		c.creates--
	}
	owner := w.host.text()
	if current, ok := conflictWith(err); ok && w.discards && current.Owner != "" {
		w.host.discard.refused = true
	}
	if err == nil {
		delete(c.acquiring, key)
		c.succeeded(w, key, answer, owner)
		return
	}
	if current, ok := conflictWith(err); ok {
		w.host.updateListings(current)
		// The partitions may have merged back before the create was sent. If the network
		// delivered the create twice, the child that it met is its own.
		if w.op == opCreate && current.Owner == "" && (w.replaces || c.replaces(w)) {
			c.freeChildren[key] = current.ETag
		}
	}
	if current, ok := conflictWith(err); ok && owner != "" && current.Owner == owner {
		if first, tried := c.acquiring[key]; tried && first.etag == w.lease.ETag && !c.holds(c.tenures[key]) {
			c.tenures[key] = c.tenure(w, first, current)
			c.tenures[key].unproven = true
		}
		c.sawRequest(c.tenures[key], current)
		return
	} else if ok && owner != "" && w.ownersWrite() {
		delete(c.tenures, key) // another host owns the lease, and the worker has learned that
	}
	// Attempts on the same document are one acquire while the trust from the first one
	// would last. After that, the host has begun a new acquire.
	if first := c.acquiring[key]; w.acquires && (first.etag != w.lease.ETag || w.start.Sub(first.since) >= c.world.times.trust()) {
		c.acquiring[key] = attempt{since: w.start, ahead: w.ahead, etag: w.lease.ETag}
	}
}

// succeeded updates the host's tenure after a successful write.
func (c *checker) succeeded(w *leaseWrite, key tenureKey, answer lease.Lease, owner string) {
	t := c.tenures[key]
	switch {
	case w.op == opDelete || w.op == opUpdate && w.lease.Owner == "":
		delete(c.tenures, key)
	case owner == "" || w.lease.Owner != owner:
		// A hand-over request, a child or a freed lease changes nobody's trust.
	case w.op == opUpdate && (w.before.Owner != owner || w.age >= c.world.times.takeover() || w.acquires && !c.world.clockless):
		c.tenures[key] = c.tenure(w, attempt{since: w.start, ahead: w.ahead}, answer)
	case t == nil || t.givenUp || t.unproven:
		c.tenures[key] = c.tenure(w, attempt{since: w.start, ahead: w.ahead}, answer)
	case c.trusted(t):
		t.attempt, t.ahead = w.start, w.ahead
	}
	if owner != "" && answer.Owner == owner {
		c.sawRequest(c.tenures[key], answer)
	}
}

// sawRequest records when the host first saw a hand-over request in its lease. If l has
// no request, it forgets the time. That happens when the document was deleted by hand and
// its owner recreated it without the request.
func (c *checker) sawRequest(t *tenure, l lease.Lease) {
	switch {
	case t == nil:
	case l.Wanted() == "":
		t.askedAt = time.Time{}
	case t.askedAt.IsZero():
		t.askedAt = time.Now()
	}
}

// listed counts a listing of the leases that the host received.
func (c *checker) listed(h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cost.lists[h]++
}

// ancestor reports whether a shadows l: a's range contains that of l, or a is the
// partition's own lease for the same range.
func ancestor(a, l lease.Lease) bool {
	if a.Token == l.Token {
		return false
	}
	if a.Range == l.Range {
		return a.PartitionID != "" && l.PartitionID == ""
	}
	return a.Range.Contains(l.Range)
}

// shadowed reports whether the store holds an ancestor of l. The caller holds c.mu.
func (c *checker) shadowed(l lease.Lease) bool {
	for _, a := range c.docs {
		if ancestor(a, l) {
			return true
		}
	}
	return false
}

// lsn returns the position of a lease as an LSN. If the lease has no continuation, lsn
// converts its start.
func (c *checker) lsn(l lease.Lease) int64 {
	if l.Continuation != "" {
		n, err := lsnOf(l.Continuation)
		if err != nil {
			c.violate(2, "lease %s has position %q", l.Token, l.Continuation)
		}
		return n
	}
	switch start := l.Start(c.defaultStart()); start.Kind() {
	case feed.StartBeginning:
		return 0
	case feed.StartTime:
		return c.world.journal.before(start.Time(), l.Range.OrFull())
	case feed.StartContinuation, feed.StartNow:
		c.violate(2, "lease %s has no position and no start", l.Token)
	}
	return 0
}

// promised returns the LSN of a key after which every change must be delivered: the last
// one before the marker, or before the configured start. The caller holds c.mu.
func (c *checker) promised(k *keyLog) int64 {
	switch c.world.start.Kind() {
	case feed.StartTime:
		lsn, _ := k.before(c.world.start.Time())
		return lsn
	case feed.StartContinuation:
		lsn, _ := lsnOf(c.world.start.Continuation()) // valid, because a scenario sets it
		return lsn
	case feed.StartNow:
		return c.markedLSN(k)
	case feed.StartBeginning:
	}
	return 0
}

// otherProperties returns a copy of a lease's properties without the hand-over request.
func otherProperties(l lease.Lease) map[string]string {
	p := maps.Clone(l.Properties)
	delete(p, lease.PropertyWanted)
	return p
}

// learn records the text by which a host names itself as an owner. It checks that the
// text has the host's form and that no other host uses it.
func (c *checker) learn(h *host, text string) {
	if h.text() == text {
		return
	}
	if h.text() != "" || !lease.Ours(text) || !strings.HasPrefix(text, h.instance+"/") {
		c.violate(6, "%s: writes the owner text %q", h.id, text)
		return
	}
	for _, other := range c.world.everyHost() {
		if other != h && other.text() == text {
			c.violate(6, "%s: has the owner text %q of %s", h.id, text, other.id)
		}
	}
	h.mu.Lock()
	h.owner = text
	h.mu.Unlock()
}
