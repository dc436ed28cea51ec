package balance

import (
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// world is a lease store and hosts that balance it, on virtual time. It is a reduced form
// of the processor's supervisor. Listings are 50 to 150 ms old when they are judged, and
// a write takes 2 ms. An owner that is asked hands over within a renew interval, or when
// its handler returns.
type world struct {
	rnd    *rand.Rand
	now    time.Duration
	events eventQueue
	seq    int

	leases  []held
	indexes map[string]int // lease ID to index
	hosts   []*host
	byText  map[string]*host // owner text to host

	shared    lease.Listing // a listing may serve several hosts
	sharedAt  time.Duration
	freshness time.Duration         // how long a listing is shared
	clockless bool                  // the store has no clock
	slow      map[int]time.Duration // leases whose handler is busy until then

	lastMove  time.Duration // last change of any Owner or of who wants a lease
	moves     int           // changes of Owner
	writes    int
	conflicts int
	steals    int           // from foreign hosts
	silent    time.Duration // longest time that a lease had no live owner, after its first one
}

// held is a lease in the store. Its renewals are not simulated as events. They are
// computed from the time when the lease is read.
type held struct {
	lease.Lease
	version  int           // version of its ETag
	written  time.Duration // the time of the last write, renewals not counted
	orphan   time.Duration // the time since which it has had no live owner
	wasOwned bool
}

type host struct {
	Host
	alive   bool
	crashed time.Duration
	memory  Memory
	pace    Pace
	plan    *Plan
	listing lease.Listing
	regular time.Duration // when the next regular cycle is due
	cycle   Cycle
	running map[string]bool
}

const (
	renewInterval  = 13 * time.Second
	listingAge     = 50 * time.Millisecond
	writeTime      = 2 * time.Millisecond
	epoch          = 1_800_000_000
	timerTolerance = 0.1
)

// etags holds the texts of all ETags. They are created once, because a world makes
// millions of writes.
var etags = func() (all [1 << 14]string) {
	for i := range all {
		all[i] = strconv.Quote(strconv.Itoa(i))
	}
	return all
}()

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	s := *q
	last := s[len(s)-1]
	*q = s[:len(s)-1]
	return last
}

func newWorld(seed uint64, leases int) *world {
	w := &world{
		rnd: rand.New(rand.NewPCG(seed, uint64(leases))), indexes: map[string]int{}, byText: map[string]*host{},
		freshness: 100 * time.Millisecond, slow: map[int]time.Duration{}, sharedAt: -time.Hour,
	}
	for i := range leases {
		border := func(n int) string { return fmt.Sprintf("%05X", n) }
		l := lease.Lease{ID: fmt.Sprintf("prefix..%d", i), Token: strconv.Itoa(i), PartitionID: strconv.Itoa(i), Range: feed.Range{Min: border(i), Max: border(i + 1)}}
		w.indexes[l.ID] = i
		w.leases = append(w.leases, held{Lease: l})
	}
	return w
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.events, event{at: w.now + d, seq: w.seq, do: do})
}

func (w *world) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - timerTolerance + 2*timerTolerance*w.rnd.Float64()))
}

func (w *world) uniform(d time.Duration) time.Duration { return time.Duration(w.rnd.Int64N(int64(d))) }

// run advances the world to the time until.
func (w *world) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = until
}

// stamp returns a time of the store's clock. seconds truncates it to seconds.
func stamp(d time.Duration) time.Time   { return time.Unix(epoch, 0).Add(d) }
func seconds(d time.Duration) time.Time { return stamp(d.Truncate(time.Second)) }

// renewed returns the time of the last write of l, renewals included, and the version
// that this write has created.
func (w *world) renewed(l *held) (time.Duration, int) {
	if l.Owner == "" {
		return l.written, l.version
	}
	end := w.now
	if h := w.byText[l.Owner]; h != nil && !h.alive {
		end = max(min(end, h.crashed), l.written)
	}
	n := (end - l.written) / renewInterval
	return l.written + n*renewInterval, l.version + int(n)
}

// list returns a listing of the store.
func (w *world) list() lease.Listing {
	if w.now-w.sharedAt <= w.freshness {
		return w.shared
	}
	leases := make([]lease.Lease, len(w.leases))
	for i := range w.leases {
		l := &w.leases[i]
		at, version := w.renewed(l)
		leases[i] = l.Lease
		leases[i].Modified = seconds(at)
		leases[i].ETag = etags[version%len(etags)]
	}
	w.shared, w.sharedAt = lease.Listing{Leases: leases, Initialized: stamp(0), Now: stamp(w.now)}, w.now
	if w.clockless {
		w.shared.Now = time.Time{}
	}
	return w.shared
}

// current returns lease i as it is now.
func (w *world) current(i int) lease.Lease {
	at, version := w.renewed(&w.leases[i])
	l := w.leases[i].Lease
	l.Modified, l.ETag = seconds(at), etags[version%len(etags)]
	return l
}

// update writes l to the store if the ETag of l is current; ok reports whether it is.
// answer is the stored lease after that.
func (w *world) update(l lease.Lease) (answer lease.Lease, ok bool) {
	i := w.indexes[l.ID]
	w.writes++
	now := w.current(i)
	if now.ETag != l.ETag {
		w.conflicts++
		return now, false
	}
	at := &w.leases[i]
	_, version := w.renewed(at)
	if at.Owner != l.Owner || at.Wanted() != l.Wanted() {
		w.lastMove = w.now
		w.sharedAt = -time.Hour
	}
	if at.Owner != l.Owner {
		w.moves++
		w.owned(at, l.Owner)
		if l.Owner != "" && !protocol.Ours(l.Owner) {
			w.robbed(at.Lease)
		}
	}
	at.Lease, at.version, at.written = l, version+1, w.now
	return w.current(i), true
}

// owned records the times at which l gets and loses a live owner, when its owner changes
// to owner.
func (w *world) owned(l *held, owner string) {
	if owner == "" {
		l.orphan = w.now
		return
	}
	if l.wasOwned {
		since := l.orphan
		if h := w.byText[l.Owner]; h != nil && !h.alive {
			since = h.crashed
		}
		w.silent = max(w.silent, w.now-since)
	}
	l.wasOwned = true
}

// join starts a new host with the given bounds after a delay.
func (w *world) join(after time.Duration, bounds Host) *host {
	bounds.Owner = protocol.NewOwner("host"+strconv.Itoa(len(w.hosts)), w.rnd.Uint32())
	bounds.Terms = times
	h := &host{Host: bounds, alive: true, running: map[string]bool{}}
	w.hosts = append(w.hosts, h)
	w.byText[h.Owner] = h
	w.after(after, func() { w.begin(h, true) })
	return h
}

// begin starts a cycle of host h: it lists the leases and makes a plan.
func (w *world) begin(h *host, regular bool) {
	if !h.alive {
		return
	}
	if regular {
		h.regular = w.now + w.jitter(times.Acquire)
	}
	h.cycle = Cycle{Regular: regular}
	h.listing = w.list()
	w.after(listingAge, func() {
		if !h.alive {
			return
		}
		h.plan = NewPlan(h.Host, h.listing, h.memory, w.now, regular, maps.Clone(h.running))
		h.memory = h.plan.Memory()
		w.step(h)
	})
}

// step makes the next write of h's plan. If there is none, it ends the cycle.
func (w *world) step(h *host) {
	if !h.alive {
		return
	}
	move := h.plan.Decide()
	if move.Kind == MoveNone || h.cycle.Conflicts == MaxConflicts {
		w.end(h)
		return
	}
	want := protocol.Acquired(move.Lease, h.Owner)
	if move.Kind == MoveWant {
		want = protocol.Wanted(move.Lease, h.Owner)
	}
	if move.Kind == MoveSteal { // a wanted lease is not handed over before it may be used
		w.slow[w.indexes[want.ID]] = max(w.slow[w.indexes[want.ID]], move.Until)
		w.steals++
	}
	answer, ok := w.update(want)
	switch {
	case !ok:
		h.cycle.Conflicts++
	case move.Kind == MoveWant:
		h.cycle.Wanted++
		w.handOver(answer)
	default:
		h.cycle.Acquired++
		h.running[answer.ID] = true
	}
	h.plan.Amend(answer)
	w.after(writeTime, func() { w.step(h) })
}

// end ends the cycle of host h and schedules the next one.
func (w *world) end(h *host) {
	h.cycle.WantsOut = h.plan.WantsOut()
	h.plan, h.listing = nil, lease.Listing{}
	next, pause, quick := h.pace.After(h.cycle)
	h.pace = next
	at := w.now + w.jitter(pause)
	if !quick || at >= h.regular {
		w.after(h.regular-w.now, func() { w.begin(h, true) })
		return
	}
	w.after(at-w.now, func() { w.begin(h, false) })
}

// handOver makes the owner of a wanted lease release it, when the owner has seen that it is
// wanted and its handler has returned.
func (w *world) handOver(l lease.Lease) {
	i := w.indexes[l.ID]
	h := w.byText[l.Owner]
	if h == nil {
		return
	}
	d := w.uniform(renewInterval)
	if until := w.slow[i]; until > w.now {
		d += until - w.now
	}
	w.after(d, func() {
		if h.alive {
			w.release(h, l.ID)
		}
	})
}

func (w *world) release(h *host, id string) {
	now := w.current(w.indexes[id])
	if now.Owner != h.Owner {
		return
	}
	w.update(protocol.Released(now, ""))
	delete(h.running, id)
}

// stop makes h release its leases and end.
func (w *world) stop(h *host) {
	for i := range w.leases {
		w.release(h, w.leases[i].ID)
	}
	h.alive, h.crashed = false, w.now
}

// crash ends h at once. Its leases keep its owner text.
func (w *world) crash(h *host) {
	h.alive, h.crashed = false, w.now
	w.sharedAt = -time.Hour
}

// expiry returns the time at which the last lease of a dead host has expired.
func (w *world) expiry() time.Duration {
	var last time.Duration
	for i := range w.leases {
		l := &w.leases[i]
		if h := w.byText[l.Owner]; h != nil && !h.alive {
			at, _ := w.renewed(l)
			last = max(last, at.Truncate(time.Second)+times.Takeover())
		}
	}
	return last
}

// longestSilence returns the longest time that a lease has had no owner by now, after its
// first one.
func (w *world) longestSilence() time.Duration {
	var longest time.Duration
	for i := range w.leases {
		if l := &w.leases[i]; l.Owner == "" && l.wasOwned {
			longest = max(longest, w.now-l.orphan)
		}
	}
	return longest
}

// living returns the live hosts.
func (w *world) living() []*host {
	var all []*host
	for _, h := range w.hosts {
		if h.alive {
			all = append(all, h)
		}
	}
	return all
}

// have returns the number of leases of each live host. orphans is the number of leases
// without a live owner.
func (w *world) have() (have map[*host]int, orphans int) {
	have = map[*host]int{}
	for i := range w.leases {
		if h := w.byText[w.leases[i].Owner]; h != nil && h.alive {
			have[h]++
		} else {
			orphans++
		}
	}
	return have, orphans
}
