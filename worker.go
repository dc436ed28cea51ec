package changefeed

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// worker works on one lease from the moment it was acquired to the moment it is
// released, lost or gone. It is a state machine on one goroutine. Blocking calls (a
// read, the handler, a write of the document) run on three callers, each of which
// carries out one call at a time. Their answers, and one timer, wake the worker. It
// then looks at its whole state and starts each step that is due:
//
//	reader       reads ahead of the handler                          worker_read.go
//	deliverer    calls the handler with batches, again until handled worker_deliver.go
//	leaseWriter  writes the document: renewals and checkpoints       worker_lease.go, worker_checkpoint.go
//	splitter     creates the children of a partition that is gone    worker_split.go
//	claim        waits after a lease was stolen                      worker_claim.go
//	ending       stops the work and releases the lease               worker_end.go
//
// States:
//
//	claiming                   renews only; -> working; when it has to stop -> over, nothing is written
//	working                    reads, delivers, renews
//	  -> gone                  no read, no new batch; children are made; -> working when the lease turns out to live on
//	  -> ending(reason)        no read, no new batch; the batch in hand may finish, renewed meanwhile
//	       -> released         trust given up, release (or, gone, delete) being sent
//	            -> over
//	any but released -> ending(Lost) when trust ends or a write finds the lease taken; then nothing more is written
//
// Authority: the worker alone writes the document, and tests its trust in the
// lease before it starts anything at all. It alone decides that it ends; the
// supervisor learns from the result. Run's context and the shadowed channel tell
// it to.
//
// When several things happen at the same instant, what is started does not hang
// on the order in which the worker hears of them: each step looks at everything
// that is known, Run's context included.
type worker struct {
	*host
	// token names the lease.
	token string
	// stop is Run's context: it says when to stop, and is no request's context.
	stop context.Context
	// base carries the values of Run's context and never ends.
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
	// reading and splitting are for health: since when reads, and the replacing of a gone
	// lease, are tried without success.
	reading, splitting pending
	// done is closed when the worker is over; finished tells how far it got.
	done     chan struct{}
	finished int64

	now   lease.Reading
	alarm time.Duration
	timer *time.Timer
}

const callers = 3

// newWorker makes the worker of a lease that was acquired.
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

// backoff makes the pauses of one kind of attempts for a lease.
func (h *host) backoff(l lease.Lease, what string) backoff {
	return backoff{jitter: newJitter(h.seed, l.ID, what)}
}

// writeBackoff makes the pauses between attempts to write a lease. They are short
// against the expiration: there must be several attempts while trust lasts.
func (h *host) writeBackoff(l lease.Lease, what string) backoff {
	b := h.backoff(l, what)
	b.first = min(backoffFirst, h.terms.Expiration/50)
	b.most = min(backoffMost, h.terms.Expiration/10)
	return b
}

// result is the only answer a worker gives, once.
type result struct {
	// children counts the leases that took over from a gone one.
	children int
	// stillRunning: the handler had not returned in time.
	stillRunning bool
}

// run works until the worker is over.
func (w *worker) run() result {
	defer close(w.done)
	w.health.add(w)
	defer w.health.remove(w)
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

// step starts everything that is due, and sets the timer to what is due next. It
// reports whether the worker is over.
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
	if w.alarm != math.MaxInt64 {
		w.timer.Reset(w.alarm - w.now.Mono)
	}
	return false
}

// wake asks for a step at a moment of the monotonic clock, at the latest.
func (w *worker) wake(at time.Duration) { w.alarm = min(w.alarm, at) }

// working reports whether reads and new batches are allowed: the worker neither
// ends nor has found its partition gone, nor waits after a steal.
func (w *worker) working() bool { return !w.ending.begun && !w.split.gone && !w.claim.waiting }

// finish closes everything. The handler's goroutine is not waited for when its
// call did not return in time: it is the one that nobody waits for.
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

// caller carries out blocking calls of one kind for a worker, one at a time, on a
// goroutine of its own. What is to be done with a call's result is a function
// too; it is put into the worker's inbox and runs on the worker's goroutine.
//
// So a worker's state belongs to one goroutine, which never blocks, and whatever
// a source, a store or a handler does, the worker can renew the lease, notice
// that trust ends, and stop.
type caller struct {
	work chan func() answer
	// busy is true from start to the answer. The worker owns it.
	busy bool
	done sync.WaitGroup
}

// answer is the result of a call, and the function that handles it.
type answer struct {
	caller *caller
	then   func()
}

// newCaller makes a caller; open starts its goroutine, which ends after close.
func newCaller() *caller { return &caller{work: make(chan func() answer, 1)} }

// open starts the goroutine of the caller. inbox must have room for one answer of each
// caller, so that no caller waits when the worker is over.
func (l *caller) open(inbox chan<- answer) {
	l.done.Go(func() {
		for call := range l.work {
			inbox <- call()
		}
	})
}

// start carries out call. The caller must not be busy.
func (l *caller) start(call func() (then func())) {
	l.busy = true
	l.work <- func() answer { return answer{l, call()} }
}

// close ends the goroutine when the call under way has returned.
func (l *caller) close() { close(l.work) }
