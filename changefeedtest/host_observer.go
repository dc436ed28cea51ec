package changefeedtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// handling is what a batch meets in a simulated handler.
type handling struct {
	takes time.Duration
	// deaf: the handler doesn't look at its context.
	deaf bool
	// err, panics and exits (by runtime.Goexit): the batch is not handled.
	err    error
	panics bool
	exits  bool
	// checkpoint: with manual checkpoints, the user checkpoints this batch.
	checkpoint bool
	// later: with manual checkpoints, the user checkpoints this batch from a goroutine
	// of its own: that long after the handler has returned, or while the host lists the
	// partitions, if it does so before.
	later time.Duration
	// call, when set, is run with the batch in the middle of the handling.
	call func(ctx context.Context, b *changefeed.Batch) error
}

// simObserver is a worker's handler: one run of one lease on one host. What the
// run may be handed is known from the lease that it was made with.
type simObserver struct {
	world *world
	host  *host
	lease lease.Lease
	run   int

	// The processor calls one observer's methods one after another, so these
	// need no guard.
	position int64 // behind the last batch that was handled
	first    bool  // nothing was handled yet
	failed   []int // the batch that failed last
	attempt  int
	handed   []int // handled, not yet acknowledged (manual checkpoints)
	closed   bool
	older    *changefeed.Batch // checkpointed before (manual checkpoints)
}

// observe makes the observer of a worker that begins.
func (w *world) observe(h *host, l lease.Lease) *simObserver {
	h.mu.Lock()
	h.runs++
	run := h.runs
	h.mu.Unlock()
	o := &simObserver{world: w, host: h, lease: l, run: run, first: true}
	w.check.mu.Lock()
	o.position = w.check.lsn(l)
	w.check.changedAt = time.Now() // somebody begins anew, perhaps on a lease of its own
	w.check.mu.Unlock()
	w.trace.add(h.id, "begin", l.Token, string(l.Continuation), 0)
	return o
}

// Open implements [changefeed.Observer].
func (o *simObserver) Open(ctx context.Context, l lease.Lease) error {
	if l.Token != o.lease.Token {
		o.world.check.fail(4, "%s: observer of lease %s opened for %s", o.host.id, o.lease.Token, l.Token)
	}
	return o.pass(ctx, 0)
}

// pass waits at the gate of a paused host.
func (o *simObserver) pass(ctx context.Context, call int64) error {
	return o.host.pass(ctx, ctx.Done(), newDraw(o.world.seed, uint64(call), o.host.id, "resume", o.lease.Token, strconv.Itoa(o.run)))
}

// Close implements [changefeed.Observer].
func (o *simObserver) Close(_ context.Context, r changefeed.Reason) error {
	if o.closed {
		o.world.check.fail(4, "%s: observer of lease %s closed twice", o.host.id, o.lease.Token)
	}
	o.closed = true
	o.world.trace.add(o.host.id, "close", o.lease.Token, r.String(), 0)
	return nil
}

var errHandler = errors.New("the handler failed")

// Handle implements [changefeed.Observer].
func (o *simObserver) Handle(ctx context.Context, b *changefeed.Batch) error {
	w := o.world
	w.pending.Add(1)
	defer w.pending.Done()
	handed := time.Now()
	if err := o.pass(ctx, b.Changes[0].LSN); err != nil {
		return err
	}
	u, entries := o.begins(ctx, b, handed)
	o.attempt++
	does := handling{takes: o.base(b)}
	w.mu.Lock()
	handle := w.handle
	w.mu.Unlock()
	if handle != nil {
		does = handle(o, b, o.attempt)
	}
	panicked, err := o.works(ctx, b, entries, does)
	w.check.ends(u)
	if o.host.crashed() {
		return errCrashed
	}
	w.trace.add(o.host.id, "handled", o.lease.Token, outcome(err), b.Changes[0].LSN)
	if err == nil && does.exits {
		o.failed = entries
		runtime.Goexit()
	}
	if err != nil {
		o.failed = entries
		if panicked != nil {
			panic(panicked)
		}
		return err
	}
	o.failed, o.attempt, o.first = nil, 0, false
	o.position = b.Changes[len(b.Changes)-1].LSN
	if does.call == nil || !w.checkpoint.Manual {
		w.journal.note(entries, true, !w.checkpoint.Manual)
	}
	if w.checkpoint.Manual {
		o.handed = append(o.handed, entries...)
		if does.later > 0 {
			o.acknowledgeLater(ctx, b, does.later)
		}
		if does.checkpoint {
			return o.acknowledge(ctx, b)
		}
	}
	return nil
}

// acknowledgeLater starts a goroutine in which the user checkpoints the batch, at the
// latest after a while. A splitter lists the partitions, and a checkpoint that comes
// while it waits for them must not be undone.
func (o *simObserver) acknowledgeLater(ctx context.Context, b *changefeed.Batch, after time.Duration) {
	w, handed, asked := o.world, slices.Clone(o.handed), o.host.partitionsListed()
	d := newDraw(w.seed, uint64(b.Changes[0].LSN), "later", o.host.id, o.lease.Token)
	delay := d.span(1, 10*time.Millisecond)
	w.pending.Go(func() {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-asked:
			time.Sleep(delay)
		}
		if o.host.crashed() {
			return
		}
		w.journal.note(handed, false, true)
		err := b.Checkpoint(context.WithoutCancel(ctx))
		w.trace.add(o.host.id, "late checkpoint", o.lease.Token, outcome(err), b.Changes[len(b.Changes)-1].LSN)
	})
}

// acknowledge is the user's checkpoint, and then that of an older batch, which
// does nothing. Its failure is not the batch's: what was handed out stays handled.
func (o *simObserver) acknowledge(ctx context.Context, b *changefeed.Batch) error {
	o.world.journal.note(o.handed, false, true)
	o.handed = nil
	err := b.Checkpoint(ctx)
	if err != nil {
		o.world.trace.add(o.host.id, "checkpoint", o.lease.Token, outcome(err), 0)
	}
	older := o.older
	o.older = b
	if err != nil || older == nil {
		return nil
	}
	if err := older.Checkpoint(ctx); err != nil {
		o.world.check.fail(5, "%s: an older checkpoint of lease %s after a newer one: %v", o.host.id, o.lease.Token, err)
	}
	return nil
}

// base is how long a handler takes when nothing is special.
func (o *simObserver) base(b *changefeed.Batch) time.Duration {
	d := newDraw(o.world.seed, uint64(b.Changes[0].LSN), "handler", o.host.id, o.lease.Token)
	return d.span(100*time.Microsecond, 20*time.Millisecond)
}

// works is the time in the handler. A panic is caught, to be raised again when it
// has been recorded.
func (o *simObserver) works(ctx context.Context, b *changefeed.Batch, entries []int, does handling) (panicked any, err error) {
	defer func() {
		if panicked = recover(); panicked != nil {
			err = errHandler
		}
	}()
	return nil, o.handles(ctx, b, entries, does)
}

func (o *simObserver) handles(ctx context.Context, b *changefeed.Batch, entries []int, does handling) error {
	wait := ctx
	if does.deaf {
		wait = context.WithoutCancel(ctx)
	}
	if err := o.host.sleep(wait, does.takes); err != nil {
		return err
	}
	if does.call != nil {
		if err := o.calls(ctx, b, entries, does); err != nil {
			return err
		}
	}
	if does.panics {
		panic(fmt.Sprintf("a handler's panic on lease %s", o.lease.Token))
	}
	return does.err
}

// calls runs a handler of somebody else. With manual checkpoints it may checkpoint
// the batch at any moment, and the answer may be lost, or its host die in that
// moment: only the handler itself knows then that it has handled the batch. So all
// that is judged in that mode is that no position is ahead of what was handed out.
func (o *simObserver) calls(ctx context.Context, b *changefeed.Batch, entries []int, does handling) error {
	if !o.world.checkpoint.Manual {
		return does.call(ctx, b)
	}
	o.world.journal.note(entries, false, true)
	err := does.call(ctx, b)
	o.world.journal.note(entries, true, true)
	return err
}

// begins registers a batch and judges it: it is the one that is due. It was handed
// out before the host's gate, where it may have waited.
func (o *simObserver) begins(ctx context.Context, b *changefeed.Batch, handed time.Time) (*use, []int) {
	w, c := o.world, o.world.check
	ids := make([]string, len(b.Changes))
	for i := range b.Changes {
		id, err := b.Changes[i].ID()
		if err != nil {
			c.fail(4, "%s: lease %s: a change has no id: %v", o.host.id, o.lease.Token, err)
		}
		ids[i] = id
	}
	r := o.lease.Range.OrFull()
	var since time.Time
	if start := o.lease.Start(feed.Now()); o.first && start.Kind() == feed.StartTime {
		since = start.Time() // it may have been still to come when the run began
	}
	entries, wrong := w.journal.match(r, o.position, since, b.Changes, ids)
	if wrong != "" {
		c.fail(4, "%s: lease %s, behind %d: the batch %s", o.host.id, o.lease.Token, o.position, wrong)
	}
	if o.failed != nil && !slices.Equal(o.failed, entries) {
		c.fail(4, "%s: lease %s: another batch than the one that failed", o.host.id, o.lease.Token)
	}
	if o.closed {
		c.fail(4, "%s: lease %s: a batch after the close", o.host.id, o.lease.Token)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.failed == nil {
		if t := c.tenures[tenureKey{o.host, o.lease.Token}]; t != nil && !t.askedAt.IsZero() && handed.After(t.askedAt) {
			c.violate(7, "%s: lease %s: a new batch %s after the answer that showed a mark",
				o.host.id, o.lease.Token, handed.Sub(t.askedAt))
		}
	}
	c.cost.batches[o.lease.Token]++
	return c.begin(&use{host: o.host, token: o.lease.Token, r: r, what: "batch", ctx: ctx}), entries
}

// String names a change for messages.
func (r record) String() string {
	return fmt.Sprintf("change %d of item %s", r.lsn, r.item)
}
