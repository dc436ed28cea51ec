package simulation

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// host is one simulated host: a processor whose calls all go over a simulated link.
//
// A crash is final. After it no call of the host reaches the engine, no answer reaches
// the host, and the results of its handlers are ignored. Its goroutines are still
// stopped, so that the test can end, but the rules ignore their work.
type host struct {
	world    *world
	id       string // unique in the run
	party    int    // see [instants]
	instance string // the instance name; several hosts may have the same one
	joined   time.Time
	settings settings
	source   feed.Source // at the other end of its link
	clock    *hostClock
	foreign  bool // of another implementation
	// afresh is called when the host lists the partitions, or writes something else than a
	// delete. A host that discards the leases has then begun its first start. It may be nil.
	afresh func()

	cancel context.CancelFunc
	dead   chan struct{} // closed by a crash
	done   chan struct{} // closed when Run has returned
	err    error         // returned by Run; valid after done

	mu      sync.Mutex // guards the fields below
	calls   map[callName]int
	isDead  bool
	leaving bool
	// waiting is the number of handlers that wait for a checkpoint and ignore their
	// context. waited reports whether such a wait has ended after the host was stopped.
	waiting int
	waited  bool
	gate    chan struct{} // closed when the pause ends; nil if not paused
	paused  *pause        // the fact of that pause
	// crashIn is the number of lease writes from now on, the last of which crashes the host,
	// and crashing says when. Zero means that no write does.
	crashIn  int
	crashing crashPoint
	owner    string        // owner text, once a write has shown it
	marked   bool          // a listing has shown the marker to the host
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

// starting reports whether the host is in its first start: no listing has shown the marker
// to it yet.
func (h *host) starting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.marked
}

// text returns the owner text of the host. It is empty until a write has shown it.
func (h *host) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owner
}

// learn records the text by which the host names itself as an owner. A document that the
// host has written may have it as the owner, or as the host that wants the lease. The other
// text is then that of a host which has written the document before.
func (h *host) learn(l lease.Lease) {
	if h.text() != "" {
		return
	}
	for _, text := range []string{l.Owner, l.Wanted()} {
		if !protocol.Ours(text) || !strings.HasPrefix(text, h.instance+"/") ||
			slices.ContainsFunc(h.world.everyHost(), func(o *host) bool { return o.text() == text }) {
			continue
		}
		h.mu.Lock()
		h.owner = text
		h.mu.Unlock()
	}
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
	h.world.ledger.add(&crash{h})
	close(h.dead)
	h.cancel()
}

// leave stops the host regularly. Its Run then releases its leases.
func (h *host) leave() {
	h.mu.Lock()
	h.leaving = true
	h.mu.Unlock()
	h.world.ledger.add(&leave{h})
	h.trace("leave", "", "", 0)
	h.cancel()
}

// pause freezes the host, until resume is called.
func (h *host) pause() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate == nil {
		h.gate, h.paused = make(chan struct{}), &pause{h}
		h.world.ledger.add(h.paused)
	}
}

func (h *host) resume() {
	h.clock.wake(h)
	h.mu.Lock()
	gate := h.gate
	h.gate = nil
	h.mu.Unlock()
	if gate != nil {
		h.world.ledger.end(h.paused, nil)
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
	h.mu.Lock()
	waited := h.waiting > 0 || h.waited
	h.mu.Unlock()
	h.err = err
	h.trace("returned", "", outcome(err), 0)
	h.world.ledger.add(&returned{h, err, waited})
}

func (h *host) startsAfresh() {
	if h.afresh != nil && !h.crashed() {
		h.afresh()
	}
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
	s.host.world.ledger.add(&lists{s.host})
	s.host.startsAfresh()
	return send(ctx, call{host: s.host, op: opPartitions}, s.inner.Partitions)
}

// Read implements [feed.Source].
func (s *hostSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	w, token := s.host.world, tokenOf(r)
	if !s.waits {
		r.Wait = 0
	}
	c := call{host: s.host, op: opRead, key: token}
	if r.From.Kind() == feed.StartNow {
		c.op = opNow
		return send(ctx, c, func(ctx context.Context) (feed.Page, error) { return s.inner.Read(ctx, r) })
	}
	f := &read{host: s.host, token: token, req: r}
	w.ledger.add(f)
	keys := r.Range.OrFull().Intersect(r.Partition.Range.OrFull())
	defer w.ends(w.begins(ctx, &use{host: s.host, token: token, keys: keys, what: useRead, asked: w.since()}))
	page, err := send(ctx, c, func(ctx context.Context) (feed.Page, error) {
		page, err := s.inner.Read(ctx, r)
		if err == nil {
			w.ledger.add(&served{f, page})
		}
		return page, err
	})
	w.ledger.end(f, func() { f.answer, f.err = page, err })
	return page, err
}

// tokenOf returns the token of the lease whose range a request reads.
func tokenOf(r feed.Request) string {
	if r.Partition.ID != "" {
		return r.Partition.ID
	}
	return r.Range.String()
}

// KeyHash implements [feed.KeyHasher].
func (s *hostSource) KeyHash(_ context.Context, key feed.PartitionKey) (string, error) {
	return s.host.world.engine.epk(key), nil
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

// hostStore is the lease store as a host reaches it, over its link. It records each
// write when the host sends it, when the store applies it, and when the answer arrives.
type hostStore struct {
	host  *host
	inner lease.Store
}

// List implements [lease.Store].
func (s *hostStore) List(ctx context.Context) (lease.Listing, error) {
	f := &listing{host: s.host}
	s.host.world.ledger.add(f)
	l, err := send(ctx, call{host: s.host, op: opList}, s.host.world.lister(s.host, s.inner))
	s.host.world.ledger.end(f, func() { f.got, f.err = l, err })
	if err == nil {
		s.host.mu.Lock()
		s.host.marked = s.host.marked || !l.Initialized.IsZero()
		s.host.mu.Unlock()
	}
	return l, err
}

// SetInitialized implements [lease.Store].
func (s *hostStore) SetInitialized(ctx context.Context, initialised bool) error {
	w := s.host.world
	m := &mark{host: s.host, exists: initialised}
	w.ledger.add(m)
	if initialised {
		s.host.startsAfresh()
	}
	_, err := send(ctx, call{host: s.host, op: opMark, write: true}, func(ctx context.Context) (struct{}, error) {
		err := s.inner.SetInitialized(ctx, initialised)
		if err == nil {
			w.marks(m)
		}
		return struct{}{}, err
	})
	w.ledger.end(m, func() { m.err = err })
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
	w := s.host.world
	write := w.sends(s.host, op, l)
	if op != opDelete {
		s.host.startsAfresh()
	}
	answer, err := send(ctx, call{host: s.host, op: op, key: l.Token, write: true},
		func(ctx context.Context) (lease.Lease, error) {
			answer, err := carry(ctx)
			if err == nil {
				w.applies(write, answer)
			}
			return answer, err
		})
	w.answers(write, answer, err)
	return answer, err
}
