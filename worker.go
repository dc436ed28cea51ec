package changefeed

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// worker processes one lease from its acquisition until it is released, lost or gone. It
// is a state machine on one goroutine. Blocking calls (a read, the handler, a write of
// the document) run on three callers, each of which makes one call at a time. Their
// answers and one timer wake the worker. It then looks at its whole state and starts each
// step that is due:
//
//	reader       reads ahead of the handler                          worker_read.go
//	deliverer    calls the handler with batches until they succeed   worker_deliver.go
//	leaseWriter  writes the document: renewals and checkpoints       worker_lease.go, worker_checkpoint.go
//	splitter     creates the children of a partition that is gone    worker_split.go
//	claim        waits after a lease was stolen                      worker_claim.go
//	ending       stops the work and releases the lease               worker_end.go
//
// States:
//
//	claiming                   renews only; -> working; on a stop -> over, without a write
//	working                    reads, delivers, renews
//	  -> gone                  no reads, no new batches; creates children;
//	                           -> working if the partition turns out to exist
//	  -> ending(reason)        no reads, no new batches; the current batch may finish, and
//	                           the lease is renewed meanwhile
//	       -> released         trust was given up; the release or the delete is being sent
//	            -> over
//	any but released -> ending(Lost) if trust ends or a write finds another owner; then
//	                           nothing more is written
//
// Only the worker writes the document. It checks its trust in the lease before it starts
// any step. Only the worker decides that it ends, after a signal from Run's context or
// the shadowed channel. The supervisor learns of the end from the result.
//
// Several events may happen at the same instant. The steps that start then do not depend
// on the order in which the worker receives the events. Each step looks at the whole
// state, Run's context included.
type worker struct {
	*host
	// token is the token of the worker's lease.
	token string
	// stop is the context of Run. The worker stops when it ends. No request uses it,
	// because requests may outlive it.
	stop context.Context
	// base has the values of Run's context and never ends.
	base  context.Context
	trust *trust

	reader  reader
	deliver deliverer
	writer  leaseWriter
	split   splitter
	claim   claim
	ending  ending

	inbox    chan answer
	asks     chan *checkpointAsk
	shadowed chan struct{}
	// reading is pending while reads fail, and splitting while the children of a gone
	// lease cannot be created. Health reads both.
	reading, splitting pending
	// done is closed when the worker has ended. finished is then the number of the page
	// whose position was stored last.
	done     chan struct{}
	finished int64

	now   protocol.Reading
	alarm time.Duration
	timer *time.Timer
}

const callers = 3

// newWorker returns the worker of an acquired lease.
func newWorker(ctx context.Context, h *host, a acquisition) *worker {
	l, attempt := a.lease, a.attempt
	base := context.WithoutCancel(ctx)
	w := &worker{
		host: h, token: l.Token, stop: ctx, base: base,
		inbox:    make(chan answer, callers),
		asks:     make(chan *checkpointAsk),
		shadowed: make(chan struct{}, 1),
		done:     make(chan struct{}),
		now:      h.clock(),
	}
	w.trust = newTrust(base, h.terms, attempt, w.now)
	w.writer = newLeaseWriter(w, l, attempt)
	w.reader = newReader(w, l)
	w.deliver = newDeliverer(w, l)
	w.claim = newClaim(w, a)
	w.split = splitter{w: w, retryDelay: w.backoff(l, "split")}
	w.ending = ending{w: w, retryDelay: w.writeBackoff(l, "release")}
	return w
}

// backoff returns the delays between the attempts at the operation what on the lease.
func (h *host) backoff(l lease.Lease, what string) backoff {
	return backoff{jitter: newJitter(h.seed, l.ID, what)}
}

// writeBackoff returns the delays between the attempts at the write what of a lease. They
// are short compared with the expiration, so that several attempts fit in while trust
// lasts.
func (h *host) writeBackoff(l lease.Lease, what string) backoff {
	b := h.backoff(l, what)
	b.first = min(backoffFirst, h.terms.Expiration/50)
	b.most = min(backoffMost, h.terms.Expiration/10)
	return b
}

// result is the result of a worker, which the supervisor receives.
type result struct {
	// children is the number of leases that replaced the worker's lease after a split or
	// merge.
	children int
	// stillRunning reports whether the handler had not returned when the worker ended.
	stillRunning bool
}

// run processes the lease until it is released, lost or gone.
func (w *worker) run() result {
	defer close(w.done)
	w.health.add(w)
	defer w.health.remove(w)
	defer w.journal.forget(w.token)
	w.claim.begin()
	for _, l := range []*caller{w.reader.calls, w.deliver.calls, w.writer.calls} {
		l.open(w.inbox)
	}
	w.timer = time.NewTimer(math.MaxInt64)
	defer w.timer.Stop()
	stopped := w.stop.Done()
	for !w.step() {
		select {
		case a := <-w.inbox:
			w.now = w.clock()
			a.caller.busy = false
			a.then()
		case ask := <-w.asks:
			w.now = w.clock()
			w.writer.asked(ask)
		case <-w.shadowed:
			w.ending.begin(Shadowed)
		case <-stopped:
			stopped = nil
		case <-w.timer.C:
		}
	}
	return w.finish()
}

// step starts every step that is due and sets the timer for the next one. It reports
// whether the worker has ended.
func (w *worker) step() bool {
	w.now = w.clock()
	w.alarm = math.MaxInt64
	w.ending.observe()
	w.deliver.step()
	if w.ending.step() {
		return true
	}
	w.writer.step()
	w.split.step()
	w.reader.step()
	if w.deliver.calls.busy && w.trust.held {
		w.wake(w.now.Mono + clockCheck)
	}
	if w.alarm != math.MaxInt64 {
		w.timer.Reset(w.alarm - w.now.Mono)
	}
	return false
}

// wake makes the timer fire at the monotonic time at or earlier, for the next step.
func (w *worker) wake(at time.Duration) { w.alarm = min(w.alarm, at) }

// working reports whether the worker may read and deliver. It may not while it ends,
// after its partition is gone, and while it waits after a steal.
func (w *worker) working() bool { return !w.ending.begun && !w.split.gone && !w.claim.waiting }

// finish ends the worker's goroutines and returns its result. It does not wait for the
// handler's goroutine if the handler has not returned in time.
func (w *worker) finish() result {
	w.trust.giveUp()
	w.reader.cancel()
	w.writer.settle()
	w.finished = w.writer.progress.durable.page
	for _, l := range []*caller{w.reader.calls, w.writer.calls, w.deliver.calls} {
		l.close()
		if !l.busy {
			l.done.Wait()
		}
	}
	r := result{stillRunning: w.deliver.calls.busy}
	if w.ending.reason == Gone {
		r.children = len(w.split.pieces)
	}
	w.claim.end(w.ending.ended())
	return r
}

// caller makes blocking calls of one kind for a worker, one at a time, on a goroutine of
// its own. Each call returns a function that handles its result. That function goes to
// the worker's inbox and runs on the worker's goroutine.
//
// So a worker's state belongs to one goroutine, which never blocks. While a source, a
// store or a handler blocks, the worker can still renew the lease, notice the end of
// trust, and stop.
type caller struct {
	work chan func() answer
	// busy is true from the start of a call until the worker has received its result.
	// Only the worker uses it.
	busy bool
	done sync.WaitGroup
}

// answer is a function that handles the result of a call, and the caller that made the
// call.
type answer struct {
	caller *caller
	then   func()
}

// newCaller returns a caller, whose goroutine open starts.
func newCaller() *caller { return &caller{work: make(chan func() answer, 1)} }

// open starts the goroutine of the caller. inbox must have room for one answer of each
// caller, so that no caller blocks after the worker is over.
func (l *caller) open(inbox chan<- answer) {
	l.done.Go(func() {
		for call := range l.work {
			inbox <- call()
		}
	})
}

// start makes a call on the caller's goroutine. then handles its result on the worker's
// goroutine. The caller must not be busy.
func (l *caller) start(call func() (then func())) {
	l.busy = true
	l.work <- func() answer { return answer{l, call()} }
}

// close ends the caller's goroutine when the current call has returned.
func (l *caller) close() { close(l.work) }
