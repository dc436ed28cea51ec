package simulation

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// host is one simulated host: a processor whose calls all go over a simulated link.
//
// A crash is final. After it no call of the host reaches the engine, no answer reaches
// the host, and the results of its handlers are ignored. Its goroutines are still
// stopped, so that the test can end, but the checker ignores their work.
type host struct {
	world    *world
	id       string // unique in the run
	party    int    // see [instants]
	instance string // the instance name; several hosts may have the same one
	joined   time.Time
	settings settings
	clock    *hostClock
	discard  *discard // nil if the host does not discard the leases

	cancel context.CancelFunc
	dead   chan struct{} // closed by a crash
	done   chan struct{} // closed when Run has returned
	err    error         // returned by Run; valid after done

	mu      sync.Mutex // guards the fields below
	calls   map[callName]int
	isDead  bool
	leaving bool
	leftAt  time.Time // when the host was stopped
	// waiting is the number of handlers that wait for a checkpoint and ignore their
	// context. waited reports whether such a wait has ended after the host was stopped.
	waiting int
	waited  bool
	gate    chan struct{} // closed when the pause ends; nil if not paused
	// crashIn is the number of lease writes from now on, the last of which crashes the host,
	// and crashing says when. Zero means that no write does.
	crashIn  int
	crashing crashPoint
	owner    string // owner text, once a write has shown it
	// listings holds the last listings received, the newest last. A host's cycle may act on
	// one while a worker that replaces a gone lease receives others.
	listings []lease.Listing
	runs     int           // number of workers started
	listed   chan struct{} // closed by the next listing of the partitions; nil without waiters
}

type callName struct{ op, key string }

// count counts a call, and returns the number of calls with the same operation and key so
// far.
func (h *host) count(op, key string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[callName{op, key}]++
	return h.calls[callName{op, key}]
}

// waits calls wait, in which a handler waits for a checkpoint and ignores its context. Or
// Config.Observer waits, which has no context.
func (h *host) waits(wait func()) {
	h.mu.Lock()
	h.waiting++
	h.mu.Unlock()
	wait()
	h.mu.Lock()
	h.waiting--
	h.waited = h.waited || h.leaving
	h.mu.Unlock()
}

// partitionsListed returns a channel that is closed when the host next lists the
// partitions.
func (h *host) partitionsListed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listed == nil {
		h.listed = make(chan struct{})
	}
	return h.listed
}

// listsPartitions records that the host lists the partitions.
func (h *host) listsPartitions() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listed != nil {
		close(h.listed)
		h.listed = nil
	}
}

func (h *host) crashed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isDead
}

func (h *host) closedGate() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gate
}

// alive reports whether the host has neither crashed nor been stopped.
func (h *host) alive() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.isDead && !h.leaving
}

// starting reports whether the host is in its first start: no listing has shown the
// marker to it yet.
func (h *host) starting() bool {
	return !h.hasListed(func(l lease.Listing) bool { return !l.Initialized.IsZero() })
}

// text returns the owner text of the host. It is empty until a write has shown it.
func (h *host) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owner
}

// received records a listing.
func (h *host) received(l lease.Listing) {
	const most = 8
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listings = append(h.listings, l)
	if n := len(h.listings); n > most {
		h.listings = slices.Clone(h.listings[n-most:])
	}
}

// updateListings replaces a lease in the host's listings. l is the current document, which
// the store returned with a conflict.
func (h *host) updateListings(l lease.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.listings {
		leases := slices.Clone(h.listings[i].Leases)
		for j := range leases {
			if leases[j].Token == l.Token {
				leases[j] = l
			}
		}
		h.listings[i].Leases = leases
	}
}

// hasListed reports whether one of the host's last listings satisfies is.
func (h *host) hasListed(is func(lease.Listing) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.listings, is)
}

// trace records what the host does. A crashed host does nothing any more that others could
// observe, and in which order its goroutines end is up to the scheduler.
func (h *host) trace(verb, object, outcome string, n int64) {
	if !h.crashed() {
		h.world.trace.add(h.id, verb, object, outcome, n)
	}
}

// crashesIn lets the n-th lease write from now on crash the host. If n is 0, no write does.
func (h *host) crashesIn(n int, at crashPoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.crashIn, h.crashing = n, at
}

// writes counts a lease write that is about to arrive, and reports whether it crashes the
// host. Writes arrive at different instants, but a host may send several at the same one,
// which is why they aren't counted when they are sent.
func (h *host) writes() crashPoint {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.crashIn == 0 {
		return crashNever
	}
	if h.crashIn--; h.crashIn > 0 {
		return crashNever
	}
	return h.crashing
}

// crash crashes the host. Its leases stay owned until they expire.
func (h *host) crash() {
	h.mu.Lock()
	if h.isDead {
		h.mu.Unlock()
		return
	}
	h.isDead = true
	h.mu.Unlock()
	h.world.trace.add(h.id, "crash", "", "", 0)
	h.world.check.forgetHost(h)
	close(h.dead)
	h.cancel()
}

// leave stops the host regularly. Its Run then releases its leases.
func (h *host) leave() {
	h.mu.Lock()
	h.leaving, h.leftAt = true, time.Now()
	h.mu.Unlock()
	h.trace("leave", "", "", 0)
	h.cancel()
}

// pause freezes the host, until resume is called.
func (h *host) pause() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate == nil {
		h.gate = make(chan struct{})
	}
}

func (h *host) resume() {
	h.clock.wake()
	h.mu.Lock()
	gate := h.gate
	h.gate = nil
	h.mu.Unlock()
	if gate != nil {
		close(gate)
	}
}

// run runs the host's processor, and records its result in h.err.
func (h *host) run(ctx context.Context, cfg changefeed.Config) {
	defer close(h.done)
	p, err := changefeed.New(cfg)
	if err == nil {
		err = p.Run(ctx)
	}
	h.err = err
	h.trace("returned", "", outcome(err), 0)
	h.world.check.returned(h, err)
}

// hostSource is the monitored container as a host reaches it, over its link.
type hostSource struct {
	host  *host
	inner feed.Source
	waits bool
}

// Identity implements [feed.Source].
func (s *hostSource) Identity(ctx context.Context) (feed.Identity, error) {
	return send(ctx, call{host: s.host, op: opIdentity}, s.inner.Identity)
}

// Partitions implements [feed.Source].
func (s *hostSource) Partitions(ctx context.Context) ([]feed.Partition, error) {
	s.host.listsPartitions()
	s.host.world.check.discardEnds(s.host)
	return send(ctx, call{host: s.host, op: opPartitions}, s.inner.Partitions)
}

// Read implements [feed.Source].
func (s *hostSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	token := r.Partition.ID
	if token == "" {
		token = r.Range.String()
	}
	c := call{host: s.host, op: opRead, key: token}
	if r.From.Kind() == feed.StartNow {
		c.op = opNow
	} else {
		u := s.host.world.check.readBegins(ctx, s.host, token, r)
		defer s.host.world.check.ends(u)
	}
	if !s.waits {
		r.Wait = 0
	}
	answer, err := send(ctx, c, func(ctx context.Context) (served, error) {
		if s.host.world.refuses && r.From.Kind() == feed.StartTime {
			s.host.world.occurs(refusedStart)
			return served{}, feed.ErrUnsupported
		}
		if err := s.host.world.historyLost(r); err != nil {
			return served{}, err
		}
		page, err := s.inner.Read(ctx, r)
		if err != nil || c.op == opNow {
			return served{page: page}, err
		}
		page = s.alter(page, r, token)
		return served{page, s.host.world.check.pageServed(r, page)}, nil
	})
	if c.op == opRead {
		s.host.world.check.readAnswered(s.host, token, r.From, answer.page, err)
		s.host.world.check.historyAnswered(s.host, token, r, err)
		if err == nil {
			s.host.world.check.pageReceived(s.host, token, r.From, answer.limited)
		}
	}
	return answer.page, err
}

// CheckStart implements [feed.Source].
func (s *hostSource) CheckStart(ctx context.Context, from feed.Start, mode feed.Mode) error {
	return s.inner.CheckStart(ctx, from, mode)
}

// SplitRange implements [feed.Source].
func (s *hostSource) SplitRange(ctx context.Context, r feed.Range, n int) ([]feed.Range, error) {
	return s.inner.SplitRange(ctx, r, n)
}

// hostContainer is the lease container as a host reaches it, over its link.
type hostContainer struct {
	host  *host
	inner lease.Container
}

// Dialect implements [lease.Container].
func (c *hostContainer) Dialect() lease.Dialect { return c.inner.Dialect() }

// Open implements [lease.Container].
func (c *hostContainer) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	return send(ctx, call{host: c.host, op: opOpen}, func(ctx context.Context) (lease.Store, error) {
		inner, err := c.inner.Open(ctx, k)
		if err != nil {
			return nil, err
		}
		return &hostStore{host: c.host, inner: inner}, nil
	})
}

// hostStore is the lease store as a host reaches it, over its link. It passes each write
// to the checker three times: when the host sends it, when the store applies it, and when
// the host receives the answer.
type hostStore struct {
	host  *host
	inner lease.Store
}

// Charged implements [lease.Store].
func (s *hostStore) Charged() float64 { return s.inner.Charged() }

// List implements [lease.Store].
func (s *hostStore) List(ctx context.Context) (lease.Listing, error) {
	l, err := send(ctx, call{host: s.host, op: opList}, s.host.world.lister(s.host, s.inner))
	if err == nil {
		s.host.received(l)
		s.host.world.check.listed(s.host)
		s.host.world.check.discardLists(s.host, l)
	}
	return l, err
}

// Mark implements [lease.Store].
func (s *hostStore) Mark(ctx context.Context, initialised bool) error {
	check := s.host.world.check
	check.markSent(s.host, initialised)
	sent := time.Now()
	_, err := send(ctx, call{host: s.host, op: opMark, write: true}, func(ctx context.Context) (struct{}, error) {
		err := s.inner.Mark(ctx, initialised)
		if err == nil {
			check.marked(initialised, sent)
		}
		return struct{}{}, err
	})
	check.markAnswered(s.host, initialised, err)
	return err
}

// Create implements [lease.Store].
func (s *hostStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return s.write(ctx, opCreate, l, func(ctx context.Context) (lease.Lease, error) { return s.inner.Create(ctx, l) })
}

// Update implements [lease.Store].
func (s *hostStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return s.write(ctx, opUpdate, l, func(ctx context.Context) (lease.Lease, error) { return s.inner.Update(ctx, l) })
}

// Delete implements [lease.Store].
func (s *hostStore) Delete(ctx context.Context, l lease.Lease) error {
	_, err := s.write(ctx, opDelete, l, func(ctx context.Context) (lease.Lease, error) {
		if s.host.world.refusesDelete() {
			return lease.Lease{}, errForbidden
		}
		return lease.Lease{}, s.inner.Delete(ctx, l)
	})
	return err
}

func (s *hostStore) write(ctx context.Context, op string, l lease.Lease,
	carry func(context.Context) (lease.Lease, error),
) (lease.Lease, error) {
	check := s.host.world.check
	w := check.sent(s.host, op, l)
	answer, err := send(ctx, call{host: s.host, op: op, key: l.Token, write: true},
		func(ctx context.Context) (lease.Lease, error) {
			answer, err := carry(ctx)
			if err == nil {
				check.applied(w, answer)
			}
			return answer, err
		})
	check.answered(w, answer, err)
	return answer, err
}
