package changefeedtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// checker judges every step of a simulation by the invariants of the lease
// protocol. It keeps a copy of the lease documents, made from the writes that it
// saw applied, and what each host was told. The numbers are:
//
//	 1 exclusive use         no two workers use overlapping ranges
//	 2 no skip               a position has only acknowledged changes behind it
//	 3 promise               what was written after the marker is handled
//	 4 order                 a worker's run goes up, without gaps
//	 5 forward               a position never falls
//	 6 owners                who may change Owner, marks and properties
//	 7 trust                 no use after a release, a delete, or the end of trust;
//	                         no new batch once a mark was seen
//	 8 gone leases           deleted only when their pieces exist, at their position
//	 9 shadowed leases       not acquired
//	10 free leases           their last owner has no worker (part of 7)
//	11 coverage, 12 stillness, 13 cost at rest: check_rest.go
//	14 one write             per lease and host at a time
//	15 moves                 redeliver nothing; an expired lease is taken in time
//
// Exclusive use is switched off by what the protocol says can break it, and by
// nothing else: see operatorDeletes.
type checker struct {
	world *world

	mu        sync.Mutex // guards what follows; held for lookups only
	exclusive bool
	docs      map[string]lease.Lease // by token, as last applied
	history   map[string][]lease.Lease
	marker    bool
	floor     int64 // what was written behind it is promised
	tenures   map[tenureKey]*tenure
	inFlight  map[tenureKey]int
	acquiring map[tenureKey]attempt
	creates   int // under way
	uses      []*use
	steals    map[tenureKey]time.Time // when the victim had written a lease last that the host stole
	orderly   bool                    // exclusive use is judged between ours and foreign hosts, too
	visits    visits
	lastRead  map[string]time.Time
	lastWrite map[string]time.Time // of an owner, by token
	writtenAt map[string]time.Time // of anybody
	deletedAt time.Time            // by hand
	// overwritten are the ETags of documents that foreign hosts replaced or deleted.
	overwritten map[string]bool
	changedAt   time.Time // the last change of any Owner or mark, or begin of a worker
	moves       int
	found       []violation
	cost        costs
}

// attempt is the first try of an acquire whose answer didn't come. A repetition
// has the same ETag.
type attempt struct {
	since time.Time
	etag  string
}

// violation is an invariant that did not hold.
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
		tenures: map[tenureKey]*tenure{}, inFlight: map[tenureKey]int{}, acquiring: map[tenureKey]attempt{}, steals: map[tenureKey]time.Time{},
		lastRead: map[string]time.Time{}, lastWrite: map[string]time.Time{}, writtenAt: map[string]time.Time{},
		overwritten: map[string]bool{},
		cost:        newCosts(),
	}
}

// violate records that an invariant did not hold. The caller holds c.mu.
func (c *checker) violate(invariant int, format string, args ...any) {
	if len(c.found) < 20 {
		c.found = append(c.found, violation{
			invariant: invariant, at: time.Since(c.world.trace.origin), text: fmt.Sprintf(format, args...),
		})
	}
}

// fail is violate for callers that don't hold c.mu.
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

// moved is how often a lease came to another owner.
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
	before lease.Lease // what it replaced, once it was applied
	age    time.Duration
	// acquires: the host takes the lease, as its listing allows.
	acquires bool
}

// tenure is the right to a lease that began with an attempt, and is known by the document
// that came as its answer. A foreign host may have replaced that one while the answer
// was under way. The caller holds c.mu.
func (c *checker) tenure(w *leaseWrite, attempt time.Time, answer lease.Lease) *tenure {
	return &tenure{
		attempt: attempt, id: w.lease.PartitionID, r: w.lease.Range.OrFull(),
		victimWrote: c.steals[tenureKey{w.host, w.lease.Token}],
		robbed:      c.overwritten[answer.ETag],
	}
}

// ownersWrite reports whether the write is one of those of which a host sends one
// at a time. The create of a free lease (a child's, at bootstrap, when healing) is
// not: whoever makes it doesn't hold that lease, and where it exists it is left as it
// is. A parent that was created late may so be split while a worker of the same
// host, shadowed by it, releases the child.
func (w *leaseWrite) ownersWrite() bool { return w.op != opCreate || w.lease.Owner != "" }

// sent is told of a write before it leaves the host.
func (c *checker) sent(h *host, op string, l lease.Lease) *leaseWrite {
	w := &leaseWrite{host: h, op: op, lease: l, start: time.Now()}
	if h.crashed() {
		return w
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := tenureKey{h, l.Token}
	if w.ownersWrite() {
		c.inFlight[key]++
		if c.inFlight[key] > 1 {
			c.violate(14, "%s: %d writes of lease %s at a time", h.id, c.inFlight[key], l.Token)
		}
	}
	t := c.tenures[key]
	mine := h.text() != "" && l.Owner == h.text()
	w.acquires = mine && !c.holds(t) && c.seenFree(h, l)
	switch op {
	case opCreate:
		c.creates++
		if l.Owner == "" && h.starting() && !c.deletedAt.IsZero() {
			// It makes what its listing of the first start missed, and can't know that the
			// lease was there meanwhile, and deleted by hand.
			c.exclusive = false
		}
		if mine && (!c.trusted(t) || !c.confirmed(t)) {
			c.violate(6, "%s: puts lease %s back, which it doesn't trust", h.id, l.Token)
		}
		c.childSent(h, l)
	case opDelete:
		c.givesUp(h, t, l.Token, "delete")
	case opUpdate:
		switch {
		case l.Owner == "":
			c.givesUp(h, t, l.Token, "release")
		// An acquire of which a conflict told that it had arrived is written once more, and
		// begins only with that: it may be late, if nobody wrote in between.
		case mine && t != nil && !t.givenUp && !t.unproven && !c.trusted(t) && !w.acquires:
			c.violate(7, "%s: writes lease %s after trust ended", h.id, l.Token)
		}
	}
	return w
}

// seenFree reports whether the host's last listing shows the lease as free, expired
// or a foreign owner's, so that it may acquire or steal it.
func (c *checker) seenFree(h *host, l lease.Lease) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, seen := range h.listing.Leases {
		if seen.Token == l.Token {
			return !lease.Ours(seen.Owner) || h.listing.Now.IsZero() ||
				h.listing.Now.Sub(seen.Modified) >= c.world.times.takeover()
		}
	}
	return false
}

// sees amends the host's listing with the document that a conflict showed.
func (h *host) sees(l lease.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listing.Leases = slices.Clone(h.listing.Leases)
	for i := range h.listing.Leases {
		if h.listing.Leases[i].Token == l.Token {
			h.listing.Leases[i] = l
		}
	}
}

// givesUp judges a release or a delete that is sent: the worker has stopped, and
// the first attempt is made in trust.
func (c *checker) givesUp(h *host, t *tenure, token, what string) {
	if t != nil && !t.givenUp && !c.trusted(t) {
		c.violate(7, "%s: sends a %s of lease %s after trust ended", h.id, what, token)
	}
	if t != nil && !c.confirmed(t) {
		c.violate(7, "%s: sends a %s of lease %s, which it stole and has not confirmed", h.id, what, token)
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

// childSent judges the create of a child: its maker holds the ancestor, in trust.
func (c *checker) childSent(h *host, l lease.Lease) {
	if !c.marker || l.Owner != "" || h.text() == "" {
		return
	}
	parts := c.world.engine.partitions()
	for _, a := range c.docs {
		// Who replaces a gone lease may also hold the lease of a partition that came to
		// have the same range (by a split and a merge). That one is no parent.
		if !ancestor(a, l) || a.Owner != h.text() || !isGone(parts, a.PartitionID, a.Range.OrFull()) {
			continue
		}
		if t := c.tenures[tenureKey{h, a.Token}]; t != nil && !c.trusted(t) {
			c.violate(7, "%s: creates child %s of lease %s after trust ended", h.id, l.Token, a.Token)
		}
		if at := a.Start(feed.Now()); a.Continuation == "" && at.Kind() == feed.StartNow {
			a = a.StartingAt(c.defaultStart()) // what a foreign host dropped, the children say again
		}
		if l.Continuation != a.Continuation || l.Properties[lease.PropertyStart] != a.Properties[lease.PropertyStart] {
			c.violate(8, "%s: creates child %s at %q, lease %s is at %q",
				h.id, l.Token, l.Continuation, a.Token, a.Continuation)
		}
		if bound := a.Properties[lease.PropertyBound]; bound != "" && bound != l.Properties[lease.PropertyBound] {
			c.violate(8, "%s: creates child %s with the bound %q, that of lease %s is %q",
				h.id, l.Token, l.Properties[lease.PropertyBound], a.Token, bound)
		}
	}
}

// underWay counts creates that arrive after their caller gave up.
func (c *checker) underWay(which call, by int) {
	if which.op != opCreate {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.creates += by
}

// answered is told what the host got for a write.
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
	if err == nil {
		delete(c.acquiring, key)
		c.succeeded(w, key, answer, owner)
		return
	}
	if current, ok := conflictWith(err); ok {
		w.host.sees(current)
	}
	if current, ok := conflictWith(err); ok && owner != "" && current.Owner == owner {
		if first := c.acquiring[key]; first.etag == w.lease.ETag && !c.holds(c.tenures[key]) {
			c.tenures[key] = c.tenure(w, first.since, current)
			c.tenures[key].unproven = true
		}
		c.sawMark(c.tenures[key], current)
		return
	} else if ok && owner != "" {
		delete(c.tenures, key) // it is another's, and the host knows
	}
	// Attempts at the same document are one acquire as long as the trust that the
	// first would have begun lasts; after that the host has begun a new one.
	if first := c.acquiring[key]; w.acquires && (first.etag != w.lease.ETag || w.start.Sub(first.since) >= c.world.times.trust()) {
		c.acquiring[key] = attempt{since: w.start, etag: w.lease.ETag}
	}
}

// succeeded gives the host what a successful write gives it.
func (c *checker) succeeded(w *leaseWrite, key tenureKey, answer lease.Lease, owner string) {
	t := c.tenures[key]
	switch {
	case w.op == opDelete || w.op == opUpdate && w.lease.Owner == "":
		delete(c.tenures, key)
	case owner == "" || w.lease.Owner != owner:
		// An ask, a child, or a lease made free: nobody's trust changes.
	case w.op == opUpdate && (w.before.Owner != owner || w.age >= c.world.times.takeover()):
		c.tenures[key] = c.tenure(w, w.start, answer)
	case t == nil || t.givenUp || t.unproven:
		c.tenures[key] = c.tenure(w, w.start, answer)
	case c.trusted(t):
		t.attempt = w.start
	}
	if owner != "" && answer.Owner == owner {
		c.sawMark(c.tenures[key], answer)
	}
}

// sawMark notes since when the host knows that it is asked for the lease. A mark that is gone
// was deleted with its document, by hand; what the owner put back asks nothing.
func (c *checker) sawMark(t *tenure, l lease.Lease) {
	switch {
	case t == nil:
	case l.Wanted() == "":
		t.askedAt = time.Time{}
	case t.askedAt.IsZero():
		t.askedAt = time.Now()
	}
}

// listed is told of a listing that a host got.
func (c *checker) listed(h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cost.lists[h]++
}

// marked is told that the marker was made or removed.
func (c *checker) marked(initialised bool) {
	last := c.world.engine.lastLSN()
	c.mu.Lock()
	defer c.mu.Unlock()
	if initialised && !c.marker && c.world.start.Kind() == feed.StartNow {
		c.floor = last
	}
	c.marker = initialised
}

// ancestor reports whether a shadows l.
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

// lsn is the position that a lease stands for.
func (c *checker) lsn(l lease.Lease) int64 {
	if l.Continuation != "" {
		n, err := strconv.ParseInt(strings.Trim(string(l.Continuation), `"`), 10, 64)
		if err != nil {
			c.violate(2, "lease %s has position %q", l.Token, l.Continuation)
		}
		return n
	}
	switch start := l.Start(c.defaultStart()); start.Kind() {
	case feed.StartBeginning:
		return 0
	case feed.StartTime:
		return c.world.journal.before(start.Time())
	case feed.StartContinuation, feed.StartNow:
		c.violate(2, "lease %s has no position and no start", l.Token)
	}
	return c.promised()
}

// promised is the position behind which every change is to be delivered: that of
// the marker, or of the configured start.
func (c *checker) promised() int64 {
	if c.world.start.Kind() == feed.StartTime {
		return c.world.journal.before(c.world.start.Time())
	}
	return c.floor
}

// otherProperties are a lease's properties but the mark.
func otherProperties(l lease.Lease) map[string]string {
	p := maps.Clone(l.Properties)
	delete(p, lease.PropertyWanted)
	return p
}

// learn remembers a host's owner text, and judges it: it is the host's own, and
// nobody has it too.
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

func (h *host) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owner
}
