package simulation

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/hook"
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

// simObserver is the handler of one worker: one run of one lease on one host. It records what
// the worker delivers.
type simObserver struct {
	world *world
	host  *host
	lease lease.Lease
	run   int
	fact  *worker
	user  changefeed.Observer // the user's observer of the worker; nil if there is none

	// The processor calls the methods of one observer one at a time, or the host makes several
	// calls at a time and does not use these fields. So they need no mutex.
	attempt int
	handed  []*batch          // handled and not yet acknowledged, with manual checkpoints
	older   *changefeed.Batch // a batch that was checkpointed before, with manual checkpoints
	last    *changefeed.Batch // the last handled batch
	pile    []owed            // batches that are to be checkpointed out of order

	called atomic.Int64 // LSN of the latest batch whose checkpoint was called
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
	o := &simObserver{world: w, host: h, lease: l, run: run, fact: &worker{host: h, lease: l, run: run}}
	w.ledger.add(o.fact)
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
	asked := o.world.since()
	err := o.pass(ctx, 0)
	if err == nil {
		err = o.opens(ctx, asked)
	}
	if err == nil && o.user != nil {
		err = o.user.Open(ctx, l)
	}
	if err == nil {
		o.world.ledger.add(&opened{o.fact, l.Token})
	}
	return err
}

// opens opens the simulated observer. It is a use of the lease.
func (o *simObserver) opens(ctx context.Context, asked time.Duration) error {
	w := o.world
	defer w.ends(w.begins(ctx, &use{host: o.host, token: o.lease.Token, keys: o.lease.Range.OrFull(), what: useOpen, asked: asked}))
	return o.world.opens(ctx, o.host, o.lease, "open")
}

// opens is an attempt to create or to open the observer of a lease.
func (w *world) opens(ctx context.Context, h *host, l lease.Lease, what string) error {
	w.mu.Lock()
	opens := w.opening
	w.mu.Unlock()
	switch {
	case h.crashed():
		return nil
	case opens != nil:
		return opens(ctx, h, l, what)
	}
	return ctx.Err()
}

// name returns a name that no other call of an observer of the host has at the same time. call
// is the LSN of the first change of a batch, or 0.
func (o *simObserver) name(call int64) string {
	name := "handler " + o.lease.Token + " " + strconv.Itoa(o.run)
	if o.host.keyed() {
		name += " " + strconv.FormatInt(call, 10)
	}
	return name
}

// pass waits while the observer's host is paused, or until ctx ends.
func (o *simObserver) pass(ctx context.Context, call int64) error {
	return o.host.pass(ctx, o.name(call), ctx.Done(), newDraw(o.world.seed, uint64(call), o.host.id, "resume", o.lease.Token, strconv.Itoa(o.run)))
}

// Close implements [changefeed.Observer].
func (o *simObserver) Close(ctx context.Context, r changefeed.Reason) error {
	o.world.ledger.end(o.fact, nil)
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

// These are the errors of simulated handlers. errStopped is in an error of changefeed.Stop.
var (
	errHandler = errors.New("the handler failed")
	errStopped = errors.New("the handler stops its lease")
)

// Handle implements [changefeed.Observer].
func (o *simObserver) Handle(ctx context.Context, b *changefeed.Batch) error {
	w := o.world
	w.pending.Add(1)
	defer w.pending.Done()
	f, asked := o.batch(b), w.since()
	w.ledger.add(f)
	if err := o.pass(ctx, b.Changes[0].LSN); err != nil {
		w.ledger.end(f, func() { f.err = err })
		return err
	}
	u := &use{host: o.host, token: o.lease.Token, keys: o.lease.Range.OrFull(), what: useBatch, batch: f, asked: asked}
	if o.host.keyed() {
		u.keys = keyRange(f.epk)
	}
	w.begins(ctx, u)
	attempt := b.Attempt
	if !o.host.keyed() {
		o.attempt++
		attempt = o.attempt
	}
	does := handling{takes: o.base(b)}
	w.mu.Lock()
	handle := w.handle
	w.mu.Unlock()
	if handle != nil {
		does = handle(o, b, attempt)
	}
	manual := o.host.settings.checkpoint.Manual
	if manual && does.elsewhere.variant == checkpointsDuringCall {
		over := make(chan struct{})
		defer close(over)
		ended := o.duringCall(ctx, owed{batch: b, covers: append(slices.Clone(o.handed), f)}, does.elsewhere.after, over)
		if does.elsewhere.joins {
			does.joins = ended
		}
	}
	panicked, err := o.works(ctx, b, f, does)
	if err != nil && panicked == nil && len(hook.FailedChanges(err, len(b.Changes))) == 0 {
		err = nil // it names no change that failed
	}
	w.ends(u)
	if o.host.crashed() {
		return errCrashed
	}
	o.host.trace("handled", o.lease.Token, outcome(err), b.Changes[0].LSN)
	if err == nil && does.exits {
		w.ledger.end(f, func() { f.err = errHandler })
		runtime.Goexit()
	}
	w.ledger.end(f, func() { f.err = err })
	if err != nil {
		if n := len(b.Changes); !manual && len(hook.FailedChanges(err, n)) < n {
			o.decides([]*batch{f}, delivery{handled: true, acked: true})
		}
		if panicked != nil {
			panic(panicked)
		}
		return err
	}
	if !o.host.keyed() {
		o.attempt = 0
		o.last = b
	}
	if does.call == nil || !manual {
		o.decides([]*batch{f}, delivery{handled: true, acked: !manual})
	}
	if manual {
		o.handed = append(o.handed, f)
		switch {
		case does.checkpoint:
			o.host.waits(func() { o.acknowledge(ctx, b) })
		case does.elsewhere.variant != "" && does.elsewhere.variant != checkpointsDuringCall:
			o.afterCall(ctx, owed{batch: b, covers: slices.Clone(o.handed)}, does.elsewhere)
		}
	}
	return nil
}

// batch returns the fact of a batch.
func (o *simObserver) batch(b *changefeed.Batch) *batch {
	f := &batch{worker: o.fact, changes: b.Changes}
	if !o.host.keyed() {
		return f
	}
	f.epk = o.world.keyOf(b.Changes[0])
	f.mixed = slices.ContainsFunc(b.Changes, func(c feed.Change) bool { return o.world.keyOf(c) != f.epk })
	return f
}

// base returns how long the handler takes for a batch if no fault happens.
func (o *simObserver) base(b *changefeed.Batch) time.Duration {
	d := newDraw(o.world.seed, uint64(b.Changes[0].LSN), "handler", o.host.id, o.lease.Token)
	return d.span(100*time.Microsecond, 20*time.Millisecond)
}

// works calls the simulated handler. It returns a panic of the handler as panicked, so
// that the caller can record the batch and panic again.
func (o *simObserver) works(ctx context.Context, b *changefeed.Batch, f *batch, does handling) (panicked any, err error) {
	defer func() {
		if panicked = recover(); panicked != nil {
			err = errHandler
		}
	}()
	return nil, o.handles(ctx, b, f, does)
}

func (o *simObserver) handles(ctx context.Context, b *changefeed.Batch, f *batch, does handling) error {
	until := ctx
	if does.ignoresContext {
		until = context.WithoutCancel(ctx)
	}
	err := o.host.sleep(until, o.name(b.Changes[0].LSN), does.takes)
	if does.joins != nil {
		o.host.waits(func() { <-does.joins })
	}
	ended := ctx.Err() != nil
	o.world.ledger.add(&wait{o.fact, ended, context.Cause(ctx)})
	if ended && o.host.settings.times.drain == 0 && !o.host.alive() && !o.host.crashed() {
		o.world.occurs(drainOff)
	}
	if err != nil {
		return err
	}
	if does.call != nil {
		if err := o.calls(ctx, b, f, does); err != nil {
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
func (o *simObserver) calls(ctx context.Context, b *changefeed.Batch, f *batch, does handling) error {
	if !o.host.settings.checkpoint.Manual {
		return does.call(ctx, b)
	}
	o.decides([]*batch{f}, delivery{acked: true})
	err := does.call(ctx, b)
	o.decides([]*batch{f}, delivery{handled: true, acked: true})
	return err
}

// decides records what the user's code has done with batches.
func (o *simObserver) decides(batches []*batch, d delivery) {
	o.world.ledger.add(&verdict{o.fact, batches, d})
}
