package simulation

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

// handling describes how a simulated handler handles one batch.
type handling struct {
	takes time.Duration
	// ignoresContext reports whether the handler continues to its end even if its context
	// ends.
	ignoresContext bool
	// err, panics and exits make the handler fail: with an error, with a panic, or with
	// runtime.Goexit. The batch is then not handled.
	err    error
	panics bool
	exits  bool
	// checkpoint reports whether the handler itself calls Checkpoint for the batch. It
	// applies to manual checkpoints only.
	checkpoint bool
	// elsewhere describes the checkpoint by another goroutine.
	elsewhere elsewhere
	// joins is closed by the goroutine that the handler waits for. It may be nil.
	joins <-chan struct{}
	// call is called with the batch in the middle of the handling. It may be nil.
	call func(ctx context.Context, b *changefeed.Batch) error
}

// simObserver is the handler of one worker: one run of one lease on one host. It checks
// that the worker delivers the changes that follow the lease's position at its start.
type simObserver struct {
	world *world
	host  *host
	lease lease.Lease
	run   int
	user  changefeed.Observer // the user's observer of the worker; nil if there is none

	// The processor never calls two methods of one observer at the same time. So these
	// fields need no mutex.
	position int64     // LSN of the last change of the last handled batch
	first    bool      // whether no batch has been handled yet
	failed   []*record // changes of the last failed batch
	attempt  int
	handed   []*record // changes that were handled and not yet acknowledged, with manual checkpoints
	closed   bool
	opened   bool
	restarts int               // number of restarts in the journal when the worker began
	older    *changefeed.Batch // a batch that was checkpointed before, with manual checkpoints
	last     *changefeed.Batch // the last handled batch
	pile     []owed            // batches that are to be checkpointed out of order

	checkpoints checkpoints // guarded by the checker
}

// observe returns the observer for a worker that host h starts on lease l.
func (w *world) observe(h *host, l lease.Lease) (*simObserver, error) {
	if err := w.opens(context.Background(), h, l, "observer"); err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.runs++
	run := h.runs
	h.mu.Unlock()
	o := &simObserver{world: w, host: h, lease: l, run: run, first: true, restarts: w.journal.restartCount()}
	w.check.mu.Lock()
	o.position = w.check.lsn(l)
	w.check.workerBegins(o)
	w.check.changedAt = time.Now() // a worker starts, even if its host owned the lease before
	w.check.mu.Unlock()
	h.trace("begin", l.Token, string(l.Continuation), 0)
	if w.observer == nil || h.crashed() {
		return o, nil
	}
	var err error
	o.user, err = w.observer(h.id, l)
	return o, err
}

// Open implements [changefeed.Observer].
func (o *simObserver) Open(ctx context.Context, l lease.Lease) error {
	if l.Token != o.lease.Token {
		o.world.check.fail(4, "%s: observer of lease %s opened for %s", o.host.id, o.lease.Token, l.Token)
	}
	if o.opened {
		o.world.check.fail(4, "%s: observer of lease %s opened twice", o.host.id, o.lease.Token)
	}
	called := o.world.check.handsOver(o.host, o.lease.Token)
	err := o.pass(ctx, 0)
	if err == nil {
		err = o.opens(ctx, called)
	}
	if err == nil && o.user != nil {
		err = o.user.Open(ctx, l)
	}
	o.opened = err == nil
	return err
}

// opens opens the simulated observer. It is a use of the lease.
func (o *simObserver) opens(ctx context.Context, called handOver) error {
	u := o.world.check.openBegins(ctx, o, called)
	defer o.world.check.ends(u)
	return o.world.opens(ctx, o.host, o.lease, "open")
}

// opens executes the fault of an attempt to create or to open the observer of a lease.
func (w *world) opens(ctx context.Context, h *host, l lease.Lease, what string) error {
	w.mu.Lock()
	opens := w.opening
	w.mu.Unlock()
	if opens == nil || h.crashed() {
		return nil
	}
	w.pending.Add(1)
	defer w.pending.Done()
	does := opens(h, l, what)
	var err error
	if ctx.Done() == nil { // Config.Observer has no context, so it may outlast the drain timeout
		h.waits(func() { err = h.sleep(ctx, what+" "+l.Token, does.takes) })
	} else {
		err = h.sleep(ctx, what+" "+l.Token, does.takes)
	}
	switch {
	case err != nil:
	case does.panics:
		panic(fmt.Sprintf("%s panics on lease %s", what, l.Token))
	case does.exits:
		runtime.Goexit()
	default:
		err = does.err
	}
	return err
}

// name returns a name that no other observer of the host has.
func (o *simObserver) name() string { return "handler " + o.lease.Token + " " + strconv.Itoa(o.run) }

// pass waits while the observer's host is paused, or until ctx ends.
func (o *simObserver) pass(ctx context.Context, call int64) error {
	return o.host.pass(ctx, o.name(), ctx.Done(), newDraw(o.world.seed, uint64(call), o.host.id, "resume", o.lease.Token, strconv.Itoa(o.run)))
}

// Close implements [changefeed.Observer].
func (o *simObserver) Close(ctx context.Context, r changefeed.Reason) error {
	if o.closed {
		o.world.check.fail(4, "%s: observer of lease %s closed twice", o.host.id, o.lease.Token)
	}
	if !o.opened {
		o.world.check.fail(4, "%s: observer of lease %s closed, though it was not opened", o.host.id, o.lease.Token)
	}
	o.closed = true
	o.world.mu.Lock()
	atClose := o.world.atClose
	o.world.mu.Unlock()
	if o.host.settings.checkpoint.Manual && atClose != nil && !o.host.crashed() && atClose(o) {
		o.host.waits(func() { o.acknowledgeAtClose(ctx) })
	}
	o.host.trace("close", o.lease.Token, r.String(), 0)
	if o.user == nil || o.host.crashed() {
		return nil
	}
	return o.user.Close(ctx, r)
}

var errHandler = errors.New("the handler failed")

// Handle implements [changefeed.Observer].
func (o *simObserver) Handle(ctx context.Context, b *changefeed.Batch) error {
	w := o.world
	w.pending.Add(1)
	defer w.pending.Done()
	handed := w.check.handsOver(o.host, o.lease.Token)
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
	manual := o.host.settings.checkpoint.Manual
	if manual && does.elsewhere.variant == checkpointsDuringCall {
		over := make(chan struct{})
		defer close(over)
		ended := o.duringCall(ctx, owed{batch: b, covers: slices.Concat(o.handed, entries)}, does.elsewhere.after, over)
		if does.elsewhere.joins {
			does.joins = ended
		}
	}
	panicked, err := o.works(ctx, b, entries, does)
	w.check.ends(u)
	if o.host.crashed() {
		return errCrashed
	}
	o.host.trace("handled", o.lease.Token, outcome(err), b.Changes[0].LSN)
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
	o.last = b
	if does.call == nil || !manual {
		o.note(entries, true, !manual)
	}
	if manual {
		o.handed = append(o.handed, entries...)
		switch {
		case does.checkpoint:
			o.host.waits(func() { o.acknowledge(ctx, b) })
		case does.elsewhere.variant != "" && does.elsewhere.variant != checkpointsDuringCall:
			o.afterCall(ctx, owed{batch: b, covers: slices.Clone(o.handed)}, does.elsewhere)
		}
	}
	return nil
}

// base returns how long the handler takes for a batch if no fault happens.
func (o *simObserver) base(b *changefeed.Batch) time.Duration {
	d := newDraw(o.world.seed, uint64(b.Changes[0].LSN), "handler", o.host.id, o.lease.Token)
	return d.span(100*time.Microsecond, 20*time.Millisecond)
}

// works calls the simulated handler. It returns a panic of the handler as panicked, so
// that the caller can record the batch and panic again.
func (o *simObserver) works(ctx context.Context, b *changefeed.Batch, entries []*record, does handling) (panicked any, err error) {
	defer func() {
		if panicked = recover(); panicked != nil {
			err = errHandler
		}
	}()
	return nil, o.handles(ctx, b, entries, does)
}

func (o *simObserver) handles(ctx context.Context, b *changefeed.Batch, entries []*record, does handling) error {
	wait := ctx
	if does.ignoresContext {
		wait = context.WithoutCancel(ctx)
	}
	err := o.host.sleep(wait, o.name(), does.takes)
	if does.joins != nil {
		o.host.waits(func() { <-does.joins })
	}
	o.world.check.contextEnds(ctx, o)
	if err != nil {
		return err
	}
	if does.call != nil {
		if err := o.calls(ctx, b, entries, does); err != nil {
			return err
		}
	}
	if does.panics {
		panic(fmt.Sprintf("handler panic on lease %s", o.lease.Token))
	}
	return does.err
}

// calls calls the handler of the simulation's user. With manual checkpoints, the handler
// may checkpoint the batch at any moment. If the answer is lost or the host crashes, the
// simulation cannot detect whether the batch is handled. So in that mode it only checks
// that no position is ahead of delivery.
func (o *simObserver) calls(ctx context.Context, b *changefeed.Batch, entries []*record, does handling) error {
	if !o.host.settings.checkpoint.Manual {
		return does.call(ctx, b)
	}
	o.note(entries, false, true)
	err := does.call(ctx, b)
	o.note(entries, true, true)
	return err
}

// begins records that a batch is given to the handler, and checks that it is the next
// batch that the lease is due. handed is when the processor delivered the batch. A paused
// host may have held it since.
func (o *simObserver) begins(ctx context.Context, b *changefeed.Batch, handed handOver) (*use, []*record) {
	w, c := o.world, o.world.check
	ids := make([]string, len(b.Changes))
	for i := range b.Changes {
		id, err := b.Changes[i].ID()
		if err != nil {
			c.fail(4, "%s: lease %s: cannot get the id of a change: %v", o.host.id, o.lease.Token, err)
		}
		ids[i] = id
	}
	r := o.lease.Range.OrFull()
	from, since := o.position, time.Time{}
	if start := o.lease.Start(feed.Now()); o.first && start.Kind() == feed.StartTime {
		// The start time may have been in the future when the run began. On a merged
		// partition, the first page may also contain older changes.
		from, since = 0, start.Time()
	}
	entries, wrong := w.journal.match(r, from, since, b.Changes, ids)
	if wrong != "" {
		c.fail(4, "%s: lease %s, after %d: the batch %s", o.host.id, o.lease.Token, o.position, wrong)
	}
	if o.failed != nil && !slices.Equal(o.failed, entries) {
		c.fail(4, "%s: lease %s: the batch differs from the one that failed", o.host.id, o.lease.Token)
	}
	if !o.opened {
		c.fail(4, "%s: lease %s: a batch before the observer was opened", o.host.id, o.lease.Token)
	}
	if o.closed {
		c.fail(4, "%s: lease %s: a batch after the close", o.host.id, o.lease.Token)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenures[tenureKey{o.host, o.lease.Token}]
	if o.failed == nil {
		if t != nil && !t.askedAt.IsZero() && handed.at.After(t.askedAt) {
			c.violate(7, "%s: lease %s: a new batch %s after the answer with a hand-over request",
				o.host.id, o.lease.Token, handed.at.Sub(t.askedAt))
		}
	}
	c.cost.batches[o.lease.Token]++
	if c.overslept(o, handed) {
		return nil, entries
	}
	return c.begin(&use{host: o.host, token: o.lease.Token, r: r, what: "batch", ctx: ctx}), entries
}
