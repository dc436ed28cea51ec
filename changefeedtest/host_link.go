package changefeedtest

import (
	"context"
	"errors"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// A host reaches the engine over a link: every call takes time, and a fault may
// befall it. A call's delays and faults are drawn from its name (host,
// operation, object, how many of these came before), never from a stream that
// calls share, and are unique to the nanosecond, so that no two things that
// matter happen at one instant.

// call names one request of a host.
type call struct {
	host    *host
	op, key string
	n       int
	write   bool
}

// The operations.
const (
	opIdentity   = "identity"
	opPartitions = "partitions"
	opRead       = "read"
	opNow        = "now" // a read that resolves the start
	opOpen       = "open"
	opList       = "list"
	opGet        = "get" // one lease, by a foreign host
	opMark       = "mark"
	opCreate     = "create"
	opUpdate     = "update"
	opDelete     = "delete"
)

// fault is what befalls a call. The zero fault is a request that arrives at once
// and is answered at once.
type fault struct {
	// there and back are the times that request and answer are under way.
	there, back time.Duration
	// refusal is the answer of a service that did not carry the request out.
	refusal error
	// instead is the answer of a service that did.
	instead error
	// lost: the request never arrives. silent: it arrives, its answer doesn't.
	lost, silent bool
	// late: no answer either; it arrives that long after the caller gave up.
	late time.Duration
	// crash: the host dies before its request is sent, or after it arrived.
	crash crashPoint
	// again: carried out, and then sent again by the network: the answer is that
	// to the second one.
	again bool
}

type crashPoint int

const (
	crashNever crashPoint = iota
	crashBefore
	crashAfter
)

var errCrashed = errors.New("the host crashed")

// send carries one request over the host's link: carry does the work at the
// engine, in the moment in which it arrives. arrived is what carry returned, for
// requests that are carried out though nobody waits for the answer.
func send[T any](ctx context.Context, c call, carry func(context.Context) (T, error)) (T, error) {
	var none T
	h := c.host
	c.n = h.count(c.op, c.key)
	if err := h.pass(ctx, nil, newDraw(h.world.seed, uint64(c.n), h.id, "resume", c.op, c.key)); err != nil {
		return none, err
	}
	f := h.world.befall(c)
	if err := h.sleep(ctx, f.there); err != nil {
		return none, err
	}
	if f.crash == crashBefore { // at a moment of its own, too
		h.crash()
		return none, errCrashed
	}
	switch {
	case f.lost:
		return none, h.silence(ctx)
	case f.refusal != nil:
		return none, f.refusal
	case f.late > 0:
		h.world.check.underWay(c, 1)
		err := h.silence(ctx)
		h.world.later(f.late, func() {
			_, lateErr := carry(context.WithoutCancel(ctx))
			h.world.check.underWay(c, -1)
			h.world.trace.add(h.id, "late "+c.op, c.key, outcome(lateErr), int64(c.n))
		})
		return none, err
	}
	served := ctx
	if c.write {
		served = context.WithoutCancel(ctx)
	}
	answer, err := carry(served)
	if f.again {
		answer, err = carry(served)
	}
	h.world.trace.add(h.id, c.op, c.key, outcome(err), int64(c.n))
	switch {
	case f.crash == crashAfter:
		h.crash()
		return none, errCrashed
	case f.silent:
		return none, h.silence(ctx)
	}
	if late := h.sleep(ctx, f.back); late != nil {
		return none, late
	}
	if f.instead != nil {
		return none, f.instead
	}
	return answer, err
}

// outcome is an error as the trace shows it.
func outcome(err error) string {
	var throttled *feed.ThrottledError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &throttled):
		return "429"
	}
	return err.Error()
}

// silence waits until the caller gives up.
func (h *host) silence(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-h.dead:
	}
	if h.crashed() {
		return errCrashed
	}
	return ctx.Err()
}

// sleep waits for d, or until ctx ends or the host dies.
func (h *host) sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-h.dead:
		}
	}
	if h.crashed() {
		return errCrashed
	}
	return ctx.Err()
}

// pass waits at the host's gate, which is closed while the host is paused. A
// request waits there beyond its deadline, as one of a frozen machine does; a
// handler (until) only as long as its context. Those who waited go on one after
// the other (d), in an order that hangs on their names: else everything that the
// host does next would hang on the scheduler.
func (h *host) pass(ctx context.Context, until <-chan struct{}, d draw) error {
	for waited := false; ; waited = true {
		gate := h.closedGate()
		switch {
		case h.crashed():
			return errCrashed
		case gate == nil && waited:
			_ = h.sleep(context.WithoutCancel(ctx), d.span(1, 2*time.Millisecond))
			fallthrough
		case gate == nil || until != nil && ctx.Err() != nil:
			if h.crashed() {
				return errCrashed
			}
			return ctx.Err()
		}
		select {
		case <-gate:
		case <-until:
		case <-h.dead:
		}
	}
}
