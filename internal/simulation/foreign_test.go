package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// foreign is a host of another implementation on our leases. It imitates the .NET
// processor or Java's where they differ from our protocol:
//
//	both    Their share is the number of leases per owner, rounded up. In every interval
//	        they acquire free leases up to it. If none is free and they have less than
//	        their share, they steal one and work on it at once. They have no trust: they
//	        work until a write fails. They start the children of a gone lease at once,
//	        and delete the gone lease unconditionally.
//	.NET    It keeps properties and copies them to children, even the host that wants the lease. If
//	        an acquire fails, it clears the Owner that it listed. It waits for its
//	        handler before it releases a lease.
//	Java    It drops properties. Its timestamp is null for a while. It releases a lease
//	        before its handler ends. After a refused write, it writes the old position
//	        if the lease has no owner.
//
// It also has habits: at random it steals, releases and pauses, acquires leases as an old
// listing showed them, and writes back the position at which it began. It checkpoints
// each batch after its handler. It starts on an initialised store, and it acquires no
// lease that would begin at its own "now". Such losses of foreign hosts cannot be mended
// by others.
type foreign struct {
	*host
	java   bool
	habits habits
	// overwrites reports whether the host writes leases that it created without a
	// condition, as .NET does.
	overwrites bool
	source     feed.Source
	store      lease.Store

	// Only the host's own goroutine uses these fields.
	earlier lease.Listing
	cycles  int

	life  context.Context //nolint:containedctx // the host's life, which all its work shares
	group sync.WaitGroup

	workMu  sync.Mutex // guards working
	working map[string]*foreignWork
}

// habits contains the probabilities of a foreign host's random misbehavior. steal,
// release, stale and pause are per cycle.
type habits struct {
	steal, release, stale, pause float64
	rewind                       float64 // per renewal or release: writes back the position at which its work began
}

// visit is the plan of a foreign host.
type visit struct {
	from, to time.Duration
	crash    bool // at the end; otherwise it leaves
	java     bool // otherwise it is one of .NET
	habits   habits
}

// visitors are the foreign hosts of a world.
type visitors struct {
	// overwrite reports whether hosts of .NET write the leases that they created without a
	// condition. It is set before the first of them joins.
	overwrite bool

	mu    sync.Mutex // guards the fields below
	hosts []*foreign
	// takes returns how long a foreign host's handler takes. If nil, it takes milliseconds
	// and sometimes longer.
	takes func(f *host, token string) time.Duration
}

func (w *world) visitors() *visitors { return stateOf[visitors](&w.states) }

// everyForeignHost returns all foreign hosts that ever joined.
func (w *world) everyForeignHost() []*foreign {
	v := w.visitors()
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.hosts)
}

// drawForeign draws when foreign hosts join and leave a scenario and how they behave.
func (s *scenario) drawForeign(d *draw) {
	var all []visit
	for range 1 + d.intn(3) {
		p := visit{java: d.chance(0.6), from: d.span(0, s.active*7/10), crash: d.chance(0.5)}
		p.to = min(p.from+d.span(s.active/10, s.active), s.active*97/100)
		if d.chance(0.8) {
			p.habits = habits{steal: 0.4 * d.float(), release: 0.3 * d.float(), stale: 0.5 * d.float(), pause: 0.1 * d.float(), rewind: 0.2 * d.float()}
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b visit) int { return cmp.Compare(a.from, b.from) })
	for _, v := range all {
		s.visits(v)
	}
}

// visits adds the events at which a foreign host joins, and crashes or leaves.
func (s *scenario) visits(v visit) {
	var f *foreign
	joins := func(_ context.Context, r *run, _ event) {
		f = r.world.visit(v.java, v.habits) //nolint:contextcheck // a host ends by a crash or a leave, not with the context that started it
		r.world.occurs(foreignHosts)
	}
	ends := func(_ context.Context, r *run, _ event) {
		switch {
		case f == nil:
		case v.crash:
			r.crashed++
			f.crash()
		default:
			f.trace("leave", "", "", 0)
			f.cancel()
		}
	}
	s.events = append(s.events, event{at: v.from, kind: &eventKind{joins}}, event{at: v.to, kind: &eventKind{ends}})
}

// stopForeignHosts stops the foreign hosts before everything comes to rest.
func (r *run) stopForeignHosts(context.Context) {
	for _, f := range r.world.everyForeignHost() {
		f.resume()
		f.cancel()
		<-f.done
	}
}

// visit starts a foreign host, which imitates Java's processor if java is true, and
// .NET's otherwise.
func (w *world) visit(java bool, h habits) *foreign {
	ctx, cancel := context.WithCancel(context.Background())
	v := w.visitors()
	v.mu.Lock()
	n := len(v.hosts) + 1
	f := &foreign{
		host: &host{
			world: w, id: fmt.Sprintf("f%d", n), party: foreignParty + n, foreign: true, instance: fmt.Sprintf("WORKER-%d", n), joined: time.Now(), clock: newHostClock(),
			cancel: cancel, dead: make(chan struct{}), done: make(chan struct{}), calls: map[callName]int{},
		},
		java: java, habits: h, overwrites: v.overwrite && !java, source: w.engine.source(), life: ctx, working: map[string]*foreignWork{},
	}
	f.owner = f.instance
	v.hosts = append(v.hosts, f)
	v.mu.Unlock()
	w.ledger.add(&join{f.host})
	f.trace("visit", f.instance, "", 0)
	go f.run(ctx)
	return f
}

// run runs the host until ctx ends.
func (f *foreign) run(ctx context.Context) {
	defer close(f.done)
	defer f.group.Wait()
	for f.store == nil && ctx.Err() == nil {
		f.open(ctx)
	}
	for f.sleep(ctx, "cycle", f.interval()) == nil {
		f.cycles++
		f.cycle(ctx)
	}
	for _, w := range f.works() {
		w.end()
	}
}

// interval returns the time between two cycles of a foreign host. It is 13 s if our
// acquire interval is 17 s.
func (f *foreign) interval() time.Duration { return f.world.times.acquire * 13 / 17 }

// renewal returns the time between two renewals by a foreign host. It is 17 s if our
// renew interval is 13 s, but at most half of the expiration.
func (f *foreign) renewal() time.Duration {
	return min(f.world.times.renew*17/13, f.world.times.expiration/2)
}

func (f *foreign) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, f.world.times.timeout)
}

// open opens the lease store, and waits until one of our hosts has initialised it.
func (f *foreign) open(ctx context.Context) {
	opening, cancel := f.request(ctx)
	defer cancel()
	store, err := send(opening, call{host: f.host, op: opOpen}, func(ctx context.Context) (lease.Store, error) {
		id, err := f.source.Identity(ctx)
		if err != nil {
			return nil, err
		}
		return f.world.engine.leases().Open(ctx, lease.Key{Processor: "sim", Identity: id, Mode: f.world.mode})
	})
	if err == nil {
		f.store = store
		if listing, err := f.list(ctx); err == nil && !listing.Initialized.IsZero() {
			return
		}
		f.store = nil
	}
	_ = f.sleep(ctx, "cycle", f.interval())
}

func (f *foreign) list(ctx context.Context) (lease.Listing, error) {
	ctx, cancel := f.request(ctx)
	defer cancel()
	return send(ctx, call{host: f.host, op: opList}, f.store.List)
}

// read returns the current document of a lease.
func (f *foreign) read(ctx context.Context, token string) (lease.Lease, error) {
	ctx, cancel := f.request(ctx)
	defer cancel()
	return send(ctx, call{host: f.host, op: opGet, key: token}, func(ctx context.Context) (lease.Lease, error) {
		return f.current(ctx, token)
	})
}

// works returns the host's work on its leases, sorted by token.
func (f *foreign) works() []*foreignWork {
	f.workMu.Lock()
	defer f.workMu.Unlock()
	var all []*foreignWork
	for _, w := range f.working {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *foreignWork) int { return strings.Compare(a.token, b.token) })
	return all
}

// cycle lists the leases once, and then acquires, steals and releases leases as that
// listing suggests.
func (f *foreign) cycle(ctx context.Context) {
	listing, err := f.list(ctx)
	if err != nil {
		return
	}
	d := newDraw(f.world.seed, uint64(f.cycles), f.id, "habits")
	habits := f.habits
	if d.chance(habits.pause) {
		f.world.inject()
		f.pause()
		f.world.later(f.party, "resume", d.span(f.world.times.expiration/4, 2*f.world.times.expiration), f.resume)
	}
	if all := f.works(); d.chance(habits.release) && len(all) > 0 {
		f.world.inject()
		all[d.intn(len(all))].end()
	}
	chosen := f.choose(&d, listing)
	if old := f.old(&d); d.chance(habits.stale) && len(old) > 0 {
		chosen = old[:1]
	}
	for _, l := range chosen {
		if ctx.Err() != nil {
			return
		}
		f.take(ctx, l)
	}
	f.earlier = listing
}

// old returns the leases that the previous listing showed as free. A random one is first.
func (f *foreign) old(d *draw) []lease.Lease {
	var free []lease.Lease
	for _, l := range f.earlier.Leases {
		if l.Owner == "" {
			free = append(free, l)
		}
	}
	if n := len(free); n > 1 {
		i := d.intn(n)
		free[0], free[i] = free[i], free[0]
	}
	return free
}

// choose returns the leases that the host tries to acquire after a listing. They are its
// share, computed as in .NET's EqualPartitionsBalancingStrategy. At random, it returns a
// lease of any owner instead.
func (f *foreign) choose(d *draw, listing lease.Listing) []lease.Lease {
	count := map[string]int{f.instance: 0}
	var free, owned []lease.Lease
	for _, l := range listing.Leases {
		switch {
		case l.Owner == "" || f.expired(listing, l):
			free = append(free, l)
			continue
		case l.Owner != f.instance:
			owned = append(owned, l)
		}
		count[l.Owner]++
	}
	if d.chance(f.habits.steal) && len(owned) > 0 {
		f.world.inject()
		i := d.intn(len(owned))
		return owned[i : i+1]
	}
	target := 1
	if n := len(listing.Leases); n > len(count) {
		target = (n + len(count) - 1) / len(count)
	}
	need := target - count[f.instance]
	if len(free) > 0 {
		if f.java {
			// If there are other owners, Java acquires one lease at a time. It acquires
			// one even if it already has its share.
			i := d.intn(len(free))
			free[0], free[i] = free[i], free[0]
			if need = max(need, 1); len(count) > 1 {
				need = 1
			}
		}
		return free[:min(max(need, 0), len(free))]
	}
	return f.surplus(owned, count, target, need)
}

// expired reports whether a lease has expired. The libraries compare the timestamp in the
// document with their clock. This function uses the store's time of the last write. The
// results are the same if the clocks agree.
func (f *foreign) expired(listing lease.Listing, l lease.Lease) bool {
	if f.world.clockless {
		return time.Since(f.world.stored(l.Token).at) >= f.world.times.expiration
	}
	return listing.Now.Sub(l.Modified) >= f.world.times.expiration
}

// surplus returns one lease to steal, from the owner with the most leases. It returns
// none if the host needs none, or if no owner has too many.
func (f *foreign) surplus(owned []lease.Lease, count map[string]int, target, need int) []lease.Lease {
	if need <= 0 {
		return nil
	}
	if need > 1 {
		target--
	}
	most := ""
	for _, l := range owned {
		if count[l.Owner] > count[most] {
			most = l.Owner
		}
	}
	if count[most] <= target {
		return nil
	}
	i := slices.IndexFunc(owned, func(l lease.Lease) bool { return l.Owner == most })
	return owned[i : i+1]
}

// take acquires a lease from any owner, and starts to work on it at once.
func (f *foreign) take(ctx context.Context, l lease.Lease) {
	f.workMu.Lock()
	mine := f.working[l.Token]
	f.workMu.Unlock()
	if mine != nil || l.Continuation == "" && f.world.start.Kind() == feed.StartNow {
		return
	}
	listed := l.Owner
	got, err := f.replace(ctx, l, func(current lease.Lease) (lease.Lease, bool) {
		if f.java && current.ETag != l.ETag {
			// After a conflict, Java checks only that the lease has no owner. It then
			// writes the lease from its listing over the current one.
			return f.claimed(l, current.ETag), current.Owner == ""
		}
		return f.claimed(current, current.ETag), f.java || current.Owner == listed
	})
	if err != nil {
		if !f.java {
			f.clear(ctx, l.Token, listed)
		}
		return
	}
	f.work(got, nil) //nolint:contextcheck // the work outlives the cycle: it has the host's life
}

// claimed returns the lease document that the host writes to acquire or renew the lease.
func (f *foreign) claimed(l lease.Lease, etag string) lease.Lease {
	l.ETag, l.Owner, l.Timestamp = etag, f.instance, time.Now()
	if f.java {
		l.Properties, l.Timestamp = nil, time.Time{}
	}
	return l
}

// clear imitates a defect of the .NET processor. After a failed acquire, it releases the
// lease if the lease still has the owner that the host had listed.
func (f *foreign) clear(ctx context.Context, token, listed string) {
	current, err := f.read(ctx, token)
	if err != nil {
		return
	}
	_, _ = f.replace(ctx, current, func(l lease.Lease) (lease.Lease, bool) {
		mine := l.Owner == listed || l.Owner == f.instance
		l.Owner, l.Timestamp = "", time.Now()
		return l, mine
	})
}
