package changefeed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// worker processes one lease from its acquisition until it is released, lost or gone. It
// is a state machine on one goroutine. Blocking calls (a read, the handler, a write of
// the document) run on callers, each of which makes one call at a time. Their
// answers and one timer wake the worker. It then looks at its whole state and starts each
// step that is due:
//
//	reader       reads ahead of the handler                          worker_read.go
//	window       holds what was read, in lanes of batches            worker_window.go
//	deliverer    calls the handler with batches until they succeed   worker_deliver.go
//	leaseWriter  writes the document: renewals and checkpoints       worker_lease.go, worker_checkpoint.go
//	parking      knows which keys are letters, and hands letters out worker_parking.go
//	splitter     creates the children of a partition that is gone    worker_split.go
//	ending       stops the work and releases the lease               worker_end.go
//
// The window and parking hold what is worked on, so the other parts call them directly. Whatever
// else a part has to say to another one goes through the methods of worker_events.go.
//
// Its phase says which steps may be due at all. The wait after a steal is a phase, too
// (worker_claim.go).
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

	phase phase
	// reason says why the work ends; it is 0 until then. If the lease stays in the store
	// under this host's owner text, abandoned is the error that prevented the release.
	reason    Reason
	abandoned error
	claim     acquisition

	reader  reader
	window  window
	deliver deliverer
	parking parking
	writer  leaseWriter
	split   splitter
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

// phase says what a worker may do with its lease.
type phase int

const (
	phaseClaiming  phase = iota // only renews, until a stolen lease may be used
	phaseWithdrawn              // must end before it used the lease, unless the write under way confirms the claim
	phaseWorking                // reads, delivers, renews
	phaseGone                   // creates the children; no read and no new batch starts
	phaseEnding                 // renews while the current batch finishes; a lost lease is not written
	phaseReleased               // trust was given up; the release or the delete is being sent
	phaseOver
)

// nextPhases has the phases that may follow each phase. A gone partition may turn out to
// exist after all.
var nextPhases = [...][]phase{
	phaseClaiming:  {phaseWithdrawn, phaseWorking},
	phaseWithdrawn: {phaseEnding},
	phaseWorking:   {phaseGone, phaseEnding},
	phaseGone:      {phaseWorking, phaseEnding},
	phaseEnding:    {phaseReleased, phaseOver},
	phaseReleased:  {phaseOver},
	phaseOver:      nil,
}

// enter changes the worker's phase. A phase out of order is a bug, after which the worker
// might use a lease that is no longer its own, so enter panics.
func (w *worker) enter(p phase) {
	if !slices.Contains(nextPhases[w.phase], p) {
		panic(fmt.Sprintf("changefeed: a worker went from phase %d to %d", w.phase, p))
	}
	w.phase = p
}

// end starts the end of the work, for reason r. It has no effect if the end has begun;
// see lose.
func (w *worker) end(r Reason) {
	switch w.phase {
	case phaseClaiming:
		w.enter(phaseWithdrawn)
	case phaseWorking, phaseGone:
		w.enter(phaseEnding)
	default:
		return
	}
	w.reason = r
	w.reading.end()
	w.splitting.end()
	w.reader.cancel()
}

// lose ends the work because the lease was lost. It replaces any earlier reason. Nothing
// is written to the lease after that.
//
// A handler may wait for its checkpoint, without regard to its context. The end waits for
// the handler, so lose answers the calls of Batch.Checkpoint at once.
func (w *worker) lose() {
	if w.phase >= phaseReleased || w.reason == Lost {
		return
	}
	w.end(Lost)
	w.reason = Lost
	w.trust.giveUp()
	w.writer.settle()
}

// over ends the worker. err is nil unless the lease stays in the store under this host's
// owner text; then it's the error that prevented the release.
func (w *worker) over(err error) {
	w.enter(phaseOver)
	w.abandoned = err
}

// newWorker returns the worker of an acquired lease.
func newWorker(ctx context.Context, h *host, a acquisition) *worker {
	l, attempt := a.lease, a.attempt
	base := context.WithoutCancel(ctx)
	w := &worker{
		host: h, token: l.Token, stop: ctx, base: base,
		asks:     make(chan *checkpointAsk),
		shadowed: make(chan struct{}, 1),
		done:     make(chan struct{}),
		claim:    a,
		now:      h.clock(),
	}
	if !a.stolen {
		w.phase = phaseWorking
	}
	w.trust = newTrust(base, h.terms, attempt, w.now)
	w.writer = newLeaseWriter(w, l, attempt)
	w.reader = newReader(w, l)
	w.window = newWindow(w)
	w.deliver = newDeliverer(w, l)
	w.parking = newParking(w, a)
	w.split = splitter{w: w, retryDelay: w.backoff(l, "split")}
	w.ending = ending{w: w, drained: never, abandonAt: never, retryDelay: w.writeBackoff(l, "release")}
	w.inbox = make(chan answer, 1)
	return w
}

// callers returns the callers of all parts.
func (w *worker) callers() []*caller {
	all := append([]*caller{w.reader.calls, w.writer.calls}, w.deliver.callers...)
	if w.parking.calls != nil {
		all = append(all, w.parking.calls)
	}
	return all
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
	w.begin()
	for _, l := range w.callers() {
		l.open(w.inbox, w.done)
	}
	w.timer = time.NewTimer(never)
	defer w.timer.Stop()
	stopped := w.stop.Done()
	for !w.step() {
		select {
		case a := <-w.inbox:
			w.now = w.clock()
			a.caller.busy = false
			if a.caller.ended != nil {
				a.caller.ended(a.caller)
			}
			a.then()
		case ask := <-w.asks:
			w.now = w.clock()
			w.writer.asked(ask, w.split.cutting())
		case <-w.shadowed:
			w.end(Shadowed)
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
	w.alarm = never
	w.ending.observe(w.writer.wanted())
	w.parking.step(w.writer.doc, &w.reader)
	w.deliver.step(w.writer.doc, w.writer.bound)
	w.findGaps()
	w.ending.step(w.deliver.calls > 0, w.writer.settled())
	if w.phase == phaseOver || w.phase == phaseWithdrawn && !w.writer.calls.busy {
		return true
	}
	w.writer.step()
	w.split.step()
	w.reader.step(w.writer.doc)
	if w.deliver.calls > 0 && w.trust.held {
		w.wake(w.now.Mono + clockCheck)
	}
	if w.alarm != never {
		w.timer.Reset(w.alarm - w.now.Mono)
	}
	return false
}

// wake makes the timer fire at the monotonic time at or earlier, for the next step.
func (w *worker) wake(at time.Duration) { w.alarm = min(w.alarm, at) }

// finish ends the worker's goroutines and returns its result. It does not wait for the
// handler's goroutine if the handler has not returned in time.
func (w *worker) finish() result {
	w.trust.giveUp()
	w.reader.cancel()
	w.writer.settle()
	w.deliver.resume()
	w.finished = w.writer.progress.durable.page
	for _, l := range w.callers() {
		l.close()
		if !l.busy {
			l.done.Wait()
		}
	}
	r := result{stillRunning: w.deliver.calls > 0}
	if w.reason == Gone {
		r.children = len(w.split.pieces)
	}
	w.ended()
	return r
}
