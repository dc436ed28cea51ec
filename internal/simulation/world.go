package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/seeded"
	"github.com/changefeed-go/changefeed/lease"
)

// times contains the intervals of all hosts of a simulation.
type times struct {
	acquire, renew, expiration, timeout, drain, poll time.Duration
}

func defaultTimes() times {
	return times{
		acquire: 17 * time.Second, renew: 13 * time.Second, expiration: time.Minute,
		timeout: 10 * time.Second, drain: 30 * time.Second, poll: 5 * time.Second,
	}
}

// trust returns how long a host may use a lease after the start of its last successful
// write. takeover returns the age at which another host may acquire it. The rules of the
// protocol are repeated here, because those of the processor are under test.
func (t times) trust() time.Duration {
	return t.expiration - max(t.expiration/10, 2*time.Second)
}

func (t times) takeover() time.Duration { return t.expiration + time.Second }

// recovery returns the time after the last fault within which all keys must be covered
// again.
func (t times) recovery() time.Duration {
	return 2*t.expiration + time.Second + 4*t.acquire + 4*t.acquire/10 + t.drain
}

// worldConfig is the configuration of a world.
type worldConfig struct {
	seed          uint64
	times         times
	engine        engine
	start         feed.Start
	keys          feed.Range // the range of keys that the processor covers; zero means all keys
	refuses       bool       // the source refuses start times
	mode          feed.Mode
	dialect       lease.Dialect
	checkpoint    changefeed.Checkpointing
	keyPaths      []string // of the container
	park          changefeed.Park
	maxItems      int
	readAhead     int
	waits         bool                 // reads of the source may wait for changes
	retention     time.Duration        // of changes in the source; zero keeps them all
	drops         bool                 // the engine itself drops changes after the retention
	clockless     bool                 // the lease store does not return its time
	passes        func(id string) bool // the filter; nil accepts everything
	keepTrace     bool
	strictForeign bool   // foreign hosts act so that exclusive use holds between them and ours, too
	disturbed     bool   // the scheduler is disturbed; see world.disturb
	rules         []rule // those that judge
	clean         bool   // hosts crash but have no other faults
}

// world is one simulation: an engine, its hosts and the ledger of what they do. It runs in one
// testing/synctest bubble.
type world struct {
	worldConfig
	trace    *trace
	ledger   *ledger
	present  *present
	instants *instants
	pending  sync.WaitGroup // late requests and handlers, which outlive their callers
	states   states

	mu       sync.Mutex // guards the fields below
	hosts    []*host
	calmFrom time.Time // when the faults ended; zero while there are faults
	injected int
	occurred map[string]int // how often each feature occurred, by name
	// faults adds faults to a call, besides the planned crash of its host. If nil, calls
	// only have their base delays.
	faults func(c call, d *draw, f *fault)
	// deletesRefused reports whether the lease store refuses the deletes of all hosts.
	deletesRefused bool
	// arrived is called when a call of a host has arrived at the engine. It is set before
	// the first host joins, and may be nil.
	arrived func(c call)
	// observer returns the user's observer of a worker. It may be nil.
	observer func(host string, l lease.Lease) (changefeed.Observer, error)
	// handle returns what the handler does with a batch. If nil, the handler takes a few
	// milliseconds.
	handle func(o *simObserver, b *changefeed.Batch, attempt int) handling
	// opening executes the fault of an attempt to create or to open the observer of a
	// lease. If nil, there are no such faults.
	opening func(ctx context.Context, h *host, l lease.Lease, what string) error
	// atClose reports whether the observer's Close checkpoints the last batch. If nil, it
	// does not.
	atClose func(o *simObserver) bool
	// torn reports whether a listing is combined from two listings, and the time between
	// them.
	torn func(host string, n int) (time.Duration, bool)
	// configure changes the settings of a host before it starts.
	configure func(h *host)
	// adjust changes a host's configuration before it starts.
	adjust func(h *host, cfg *changefeed.Config)
}

func newWorld(c worldConfig) *world {
	w := &world{worldConfig: c, occurred: map[string]int{}, trace: newTrace(c.keepTrace)}
	w.instants = newInstants(w.trace.origin)
	w.ledger = &ledger{origin: w.trace.origin, clock: w.engine.now}
	w.present = newPresent(c)
	w.changesPartitions()
	return w
}

// join starts a host.
func (w *world) join(instance string) *host { return w.joinPrepared(instance, func(*host) {}) }

// joinPrepared starts a host after prepare has changed it.
func (w *world) joinPrepared(instance string, prepare func(h *host)) *host {
	ctx, cancel := context.WithCancel(context.Background())
	w.mu.Lock()
	h := &host{
		world: w, id: fmt.Sprintf("h%d", len(w.hosts)+1), party: partyOfHost(1 + len(w.hosts)), instance: instance, joined: time.Now(), clock: newHostClock(),
		settings: w.settings(), source: w.engine.source(), cancel: cancel, dead: make(chan struct{}), done: make(chan struct{}), calls: map[callName]int{},
	}
	prepare(h)
	w.hosts = append(w.hosts, h)
	w.mu.Unlock()
	w.mu.Lock()
	configure, adjust := w.configure, w.adjust
	w.mu.Unlock()
	if configure != nil {
		configure(h)
	}
	cfg := h.config()
	if adjust != nil {
		adjust(h, &cfg)
	}
	w.ledger.add(&join{h})
	h.trace("join", instance, "", 0)
	go h.run(ctx, cfg)
	return h
}

// filter applies the journal's filter to a change of the feed.
func (w *world) filter(c feed.Change) bool {
	id, err := c.ID()
	if err != nil || w.passes(id) {
		return true
	}
	w.occurs(filters)
	return false
}

// everyHost returns all hosts that ever joined.
func (w *world) everyHost() []*host {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.hosts)
}

// living returns the hosts that run and were not stopped.
func (w *world) living() []*host {
	return slices.DeleteFunc(w.everyHost(), func(h *host) bool { return !h.alive() })
}

// calm ends all faults.
func (w *world) calm() {
	w.mu.Lock()
	w.calmFrom = time.Now()
	w.mu.Unlock()
	for _, h := range w.everyHost() {
		h.crashesIn(0, crashNever)
		h.resume()
	}
}

func (w *world) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.calmFrom.IsZero()
}

// write commits a transaction and records it.
func (w *world) write(ctx context.Context, writes ...itemWrite) error {
	lsn, at, err := w.engine.commit(ctx, writes...)
	if err != nil {
		return err
	}
	w.commits(&commit{lsn: lsn, at: at, epk: w.engine.epk(writes[0].key), writes: writes})
	w.trace.add("writer", "commit", writes[0].key.String(), "", lsn)
	return nil
}

// later calls f after about d. name must differ from those of other calls at that time.
func (w *world) later(party int, name string, d time.Duration, f func()) {
	w.pending.Add(1)
	go func() {
		defer w.pending.Done()
		w.instants.wait(nil, nil, party, name, d)
		f()
	}()
}

// drawFault draws the delays and the fault of a call.
func (w *world) drawFault(c call) fault {
	d := newDraw(w.seed, uint64(c.n), c.host.id, c.op, c.key)
	f := fault{
		there: d.span(200*time.Microsecond, 6*time.Millisecond),
		back:  d.span(200*time.Microsecond, 6*time.Millisecond),
	}
	w.mu.Lock()
	faults, rough := w.faults, w.calmFrom.IsZero()
	w.mu.Unlock()
	if faults != nil && rough {
		faults(c, &d, &f)
	}
	return f
}

// inject counts a fault.
func (w *world) inject() {
	w.mu.Lock()
	w.injected++
	w.mu.Unlock()
}

// occurs counts that a feature occurred.
func (w *world) occurs(feature string) {
	w.mu.Lock()
	w.occurred[feature]++
	w.mu.Unlock()
}

// errForbidden is the answer of a lease store to a role without the right to delete.
var errForbidden = errors.New("forbidden (403)")

// refusesDelete reports whether the lease store refuses a delete, and counts it.
func (w *world) refusesDelete() bool {
	w.mu.Lock()
	refused := w.deletesRefused
	w.mu.Unlock()
	if refused {
		w.occurs(refusedDeletes)
	}
	return refused
}

// lister returns the function that lists the leases for a host. If torn reports so, the
// listing is torn: half of its leases are older than the others.
func (w *world) lister(h *host, store lease.Store) func(context.Context) (lease.Listing, error) {
	return func(ctx context.Context) (lease.Listing, error) {
		first, err := store.List(ctx)
		if w.clockless {
			first.Now = time.Time{}
		}
		w.mu.Lock()
		torn, rough := w.torn, w.calmFrom.IsZero()
		w.mu.Unlock()
		if err != nil || torn == nil || !rough {
			return first, err
		}
		pause, tear := torn(h.id, h.count("torn", ""))
		if !tear {
			return first, nil
		}
		if err := h.sleep(ctx, "torn", pause); err != nil {
			return first, err
		}
		second, err := store.List(ctx)
		if err != nil {
			return second, err
		}
		return tearListing(first, second), nil
	}
}

// tearListing combines two listings, as if the leases were read one after another while
// they change. It takes the clock and the marker from the first listing.
func tearListing(first, second lease.Listing) lease.Listing {
	torn := lease.Listing{Initialized: first.Initialized, Now: first.Now}
	early := func(token string) bool { return seeded.Hash(0, token)%2 == 0 }
	for _, l := range first.Leases {
		if early(l.Token) {
			torn.Leases = append(torn.Leases, l)
		}
	}
	for _, l := range second.Leases {
		if !early(l.Token) {
			torn.Leases = append(torn.Leases, l)
		}
	}
	slices.SortFunc(torn.Leases, func(a, b lease.Lease) int { return strings.Compare(a.ID, b.ID) })
	return torn
}
