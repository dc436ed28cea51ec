package simulation

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/balance"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// foreignWork is a foreign host's work on one lease. One goroutine reads, handles and
// checkpoints, and another one renews. Only the answer to a write ends the work, because
// foreign hosts do not stop when the lease may have expired.
type foreignWork struct {
	host  *foreign
	token string
	run   int
	began feed.Continuation
	fact  *worker

	ctx  context.Context //nolint:containedctx // the work's life, which its two goroutines share
	stop context.CancelFunc

	mu   sync.Mutex  // guards the fields below
	doc  lease.Lease // the lease as the host last wrote or read it
	n    uint64      // number of renewals and releases so far
	lost bool
	gone bool

	// Only the reading goroutine uses these fields.
	at feed.Continuation // the position of the next read
	// own is the document of a child that the host created and writes without a
	// condition. It is nil for other leases.
	own *lease.Lease
}

// work starts the host's work on a lease that it has acquired. own is the document of a
// child that the host writes without a condition, and nil for other leases.
func (f *foreign) work(l lease.Lease, own *lease.Lease) {
	w := &foreignWork{host: f, token: l.Token, doc: l, own: own, began: l.Continuation, at: l.Continuation}
	w.ctx, w.stop = context.WithCancel(f.life)
	f.mu.Lock()
	f.runs++
	w.run = f.runs
	f.mu.Unlock()
	f.workMu.Lock()
	f.working[l.Token] = w
	f.workMu.Unlock()
	f.trace("begin", l.Token, string(l.Continuation), 0)
	w.fact = &worker{host: f.host, lease: l, run: w.run}
	f.world.ledger.add(w.fact)
	handled := make(chan struct{})
	f.group.Go(func() {
		defer close(handled)
		w.process()
		w.stop()
	})
	f.group.Go(func() {
		w.renew()
		w.stop()
		if !f.java {
			<-handled // .NET's stop waits for the handler
		}
		w.release(context.WithoutCancel(f.life))
		f.workMu.Lock()
		delete(f.working, w.token)
		f.workMu.Unlock()
		f.trace("end", w.token, "", 0)
	})
}

// end stops the work. The host then releases the lease.
func (w *foreignWork) end() { w.stop() }

func (w *foreignWork) lease() lease.Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.doc
}

// renew renews the lease periodically, until another host owns it or the work ends. It
// ignores all other failures.
func (w *foreignWork) renew() {
	pause := w.host.renewal()
	if !w.host.java {
		pause /= 2 // the first interval of .NET
	}
	for w.host.sleep(w.ctx, "renew "+w.token, pause) == nil {
		pause = w.host.renewal()
		if errors.Is(w.write(w.ctx, w.rewound()), errForeignLost) {
			w.mu.Lock()
			w.lost = true
			w.mu.Unlock()
			return
		}
	}
}

// rewound returns the position to write with a renewal or a release. It is normally
// empty, which keeps the position in the document. By the habit rewind, it is the
// position at which the work began.
func (w *foreignWork) rewound() feed.Continuation {
	w.mu.Lock()
	w.n++
	d := newDraw(w.host.world.seed, w.n, "rewind", w.host.id, w.token, strconv.Itoa(w.run))
	w.mu.Unlock()
	if !d.chance(w.host.habits.rewind) {
		return ""
	}
	return w.began
}

// process reads, handles and checkpoints until the work ends.
func (w *foreignWork) process() {
	f := w.host
	for w.ctx.Err() == nil && !f.crashed() {
		page, err := w.read()
		var gone *feed.GoneError
		switch {
		case errors.As(err, &gone):
			if w.split() {
				return
			}
			_ = f.sleep(w.ctx, "poll "+w.token, f.world.times.poll)
		case err != nil:
			_ = f.sleep(w.ctx, "poll "+w.token, f.world.times.poll) // Java keeps the lease; the release by .NET is a habit here
		case len(page.Changes) == 0:
			w.at = page.Continuation
			_ = f.sleep(w.ctx, "poll "+w.token, f.world.times.poll)
		default:
			if !w.handle(page) {
				return
			}
			w.at = page.Continuation
			if errors.Is(w.checkpoint(page.Continuation), errForeignLost) {
				return
			}
		}
	}
}

// checkpoint writes the position after a page that the handler has handled.
func (w *foreignWork) checkpoint(position feed.Continuation) error {
	if w.own != nil {
		return w.overwrite(position)
	}
	return w.write(w.ctx, position)
}

// read reads the next page of the lease's changes.
func (w *foreignWork) read() (feed.Page, error) {
	f, l := w.host, w.lease()
	l.Continuation = w.at
	r := feed.Request{Mode: f.world.mode, MaxItems: f.world.maxItems, From: l.Start(f.world.start)}
	if f.java && l.Continuation == "" {
		r.From = f.world.start
	}
	if l.PartitionID != "" {
		r.Partition = feed.Partition{ID: l.PartitionID, Range: l.Range}
	} else {
		r.Range = l.Range
	}
	ctx, cancel := f.request(w.ctx)
	defer cancel()
	return send(ctx, call{host: f.host, op: opRead, key: w.token}, func(ctx context.Context) (feed.Page, error) {
		return f.source.Read(ctx, r)
	})
}

// handle passes a page to the host's handler, and reports whether to checkpoint it. If
// the work ends meanwhile, a .NET handler stops early, because its cancellation token is
// set. A Java handler runs to its end, and so do some .NET handlers of leases that the
// host writes without a condition.
func (w *foreignWork) handle(page feed.Page) bool {
	f := w.host
	world := f.world
	first := page.Changes[0].LSN
	d := newDraw(world.seed, uint64(first), "foreign handler", f.id, w.token, strconv.Itoa(w.run))
	takes := d.span(100*time.Microsecond, 20*time.Millisecond)
	if d.chance(0.05) && !world.isCalm() {
		takes = d.span(time.Second, world.times.expiration)
	}
	v := world.visitors()
	v.mu.Lock()
	chosen := v.takes
	v.mu.Unlock()
	if chosen != nil {
		takes = chosen(f.host, w.token)
	}
	ctx := w.ctx
	if f.java || w.own != nil && d.chance(ignoresCancellation) {
		ctx = context.WithoutCancel(ctx)
	}
	b := &batch{worker: w.fact, changes: page.Changes}
	world.ledger.add(b)
	u := world.begins(ctx, &use{host: f.host, token: w.token, keys: w.lease().Range.OrFull(), what: usePage, batch: b, asked: world.since()})
	err := f.sleep(ctx, "handler "+w.token, takes)
	if err == nil && f.overwrites {
		// A frozen host writes the position when it continues, and not before.
		err = f.pass(ctx, "handler "+w.token, ctx.Done(), newDraw(world.seed, uint64(first), f.id, "resume", w.token, strconv.Itoa(w.run)))
	}
	world.ends(u)
	world.ledger.end(b, func() { b.err = err })
	if err != nil {
		return false
	}
	world.ledger.add(&verdict{w.fact, []*batch{b}, delivery{handled: true, acked: true}})
	f.trace("handled", w.token, "ok", first)
	return w.own != nil || w.ctx.Err() == nil
}

var errForeignLost = errors.New("the lease has another owner")

// write renews the lease, or checkpoints it at position. Like both libraries, it reads
// the current document and replaces it.
func (w *foreignWork) write(ctx context.Context, position feed.Continuation) error {
	f := w.host
	read, err := f.read(ctx, w.token)
	if errors.Is(err, feed.ErrNotFound) || err == nil && read.Owner != f.instance {
		return errForeignLost
	}
	if err != nil {
		return err
	}
	got, err := f.replace(ctx, read, func(current lease.Lease) (lease.Lease, bool) {
		mine := current.Owner == f.instance
		if f.java && current.ETag != read.ETag {
			// Java writes the document that it had read before over the current one.
			etag := current.ETag
			mine = mine || current.Owner == ""
			current = read
			current.ETag = etag
		}
		return f.claimed(protocol.At(current, position), current.ETag), mine
	})
	if err == nil {
		w.mu.Lock()
		w.doc = got
		w.mu.Unlock()
	}
	return err
}

// release frees the lease. It sets Owner to null, and keeps the position in the document.
func (w *foreignWork) release(ctx context.Context) {
	f := w.host
	w.mu.Lock()
	gone := w.gone || w.lost && w.own == nil
	w.mu.Unlock()
	if gone || f.crashed() {
		return
	}
	read, err := f.read(ctx, w.token)
	if err != nil || read.Owner != f.instance {
		return
	}
	back := w.rewound()
	_, _ = f.replace(ctx, read, func(current lease.Lease) (lease.Lease, bool) {
		mine := current.Owner == f.instance
		if f.java && current.ETag != read.ETag {
			etag := current.ETag
			mine = mine || current.Owner == ""
			current = read
			current.ETag = etag
		}
		l := f.claimed(protocol.At(current, back), current.ETag)
		l.Owner = ""
		return l, mine
	})
}

// split replaces a lease whose partition was split. It creates the child leases at the
// last handled page and starts work on them at once. It deletes the parent, also if
// another host owns it. It reports whether the work has ended.
func (w *foreignWork) split() bool {
	f := w.host
	ctx, cancel := f.request(w.ctx)
	parts, err := send(ctx, call{host: f.host, op: opPartitions}, f.source.Partitions)
	cancel()
	if err != nil {
		return false
	}
	parent := w.lease()
	parent.Continuation = w.at
	pieces, same, err := balance.Children(lease.DotNet, parent, parts)
	if err != nil || same {
		return false
	}
	var made []lease.Lease
	for _, child := range pieces {
		child.Properties, child.Timestamp = parent.Properties, time.Now() // .NET copies all properties
		if f.java {
			child.Properties = nil
		}
		got, err := f.create(w.ctx, child)
		if _, exists := conflictWith(err); err != nil && !exists {
			return true // the next owner continues
		}
		if err == nil {
			made = append(made, got)
		}
	}
	for _, child := range made {
		if f.overwrites {
			f.takeOwn(f.life, child)
			continue
		}
		f.take(f.life, child)
	}
	removed := f.remove(w.ctx, parent)
	w.mu.Lock()
	w.gone = removed == nil
	w.mu.Unlock()
	return true
}

// replace imitates the libraries' updater. It writes mutate(l) if the document still has
// its ETag. After a conflict it continues with the current document, up to six tries in
// all. It gives up if mutate returns false.
func (f *foreign) replace(ctx context.Context, l lease.Lease, mutate func(lease.Lease) (lease.Lease, bool)) (lease.Lease, error) {
	current := l
	for range 6 {
		write, ok := mutate(current)
		if !ok {
			return lease.Lease{}, errForeignLost
		}
		got, err := f.write(ctx, opUpdate, write, f.store.Update)
		conflict, refused := conflictWith(err)
		switch {
		case errors.Is(err, feed.ErrNotFound):
			return lease.Lease{}, errForeignLost
		case !refused:
			return got, err
		}
		current = conflict
	}
	return lease.Lease{}, errForeignLost
}

func (f *foreign) create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return f.write(ctx, opCreate, l, f.store.Create)
}

// remove deletes a lease's document without comparing its ETag.
func (f *foreign) remove(ctx context.Context, l lease.Lease) error {
	_, err := f.write(ctx, opDelete, l, func(ctx context.Context, l lease.Lease) (lease.Lease, error) {
		err := f.store.Delete(ctx, l)
		if current, ok := conflictWith(err); ok {
			err = f.store.Delete(ctx, current)
		}
		return lease.Lease{}, err
	})
	return err
}

// write sends one write over the host's link, and records it.
func (f *foreign) write(ctx context.Context, op string, l lease.Lease,
	carry func(context.Context, lease.Lease) (lease.Lease, error),
) (lease.Lease, error) {
	ctx, cancel := f.request(ctx)
	defer cancel()
	sent := f.world.sends(f.host, op, l)
	answer, err := send(ctx, call{host: f.host, op: op, key: l.Token, write: true}, func(ctx context.Context) (lease.Lease, error) {
		answer, err := carry(ctx, l)
		if err == nil {
			f.world.applies(sent, answer)
		}
		return answer, err
	})
	f.world.answers(sent, answer, err)
	return answer, err
}
