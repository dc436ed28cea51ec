package simulation

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// A host reaches the engine over a link. Every call takes time and may be hit by a fault.
//
// Delays and faults are drawn from the name of the call: host, operation, object, and
// number. They never come from a stream that calls share, because then they would depend
// on the scheduler. They are unique to the nanosecond, so no two relevant events happen
// at the same instant.

// call identifies one request of a host.
type call struct {
	host    *host
	op, key string
	n       int
	write   bool
}

// String returns a name that no other call of the host has.
func (c call) String() string { return c.op + " " + c.key + " " + strconv.Itoa(c.n) }

// These constants are the operations of calls.
const (
	opIdentity   = "identity"
	opPartitions = "partitions"
	opRead       = "read"
	opNow        = "now" // a read that resolves the start
	opOpen       = "open"
	opList       = "list"
	opGet        = "get" // of one lease, by a foreign host
	opMark       = "mark"
	opCreate     = "create"
	opUpdate     = "update"
	opDelete     = "delete"
	opLetter     = "letter"  // a write to the container for letters
	opLetters    = "letters" // a read of it
)

// fault describes the delays and faults of a call. With the zero value, the request and
// its answer arrive at once.
type fault struct {
	// there and back are the transit times of the request and of its answer.
	there, back time.Duration
	// refusal is the answer of a service that did not carry out the request.
	refusal error
	// instead replaces the answer of a service that carried out the request.
	instead error
	// lost reports whether the request never arrives. silent reports whether the request
	// arrives, but its answer never does.
	lost, silent bool
	// late, if positive, makes the request arrive only after its caller has given up: by
	// this time later. The caller gets no answer.
	late time.Duration
	// crash is when the host crashes: never, before the request is sent, or after it was
	// carried out.
	crash crashPoint
	// again reports whether the network delivers the request twice. The host gets the
	// answer to the second delivery.
	again bool
}

type crashPoint int

const (
	crashNever crashPoint = iota
	crashBefore
	crashAfter
)

var errCrashed = errors.New("the host crashed")

// send sends one request over the host's link. It calls carry, which does the work at the
// engine, when the request arrives. carry may be called after send has returned.
func send[T any](ctx context.Context, c call, carry func(context.Context) (T, error)) (T, error) {
	var none T
	h := c.host
	h.world.disturb()
	c.n = h.count(c.op, c.key)
	if err := h.pass(ctx, c.String(), nil, newDraw(h.world.seed, uint64(c.n), h.id, "resume", c.op, c.key)); err != nil {
		return none, err
	}
	f := h.world.drawFault(c)
	if err := h.sleep(ctx, c.String(), f.there); err != nil {
		return none, err
	}
	if c.write {
		f.crash = cmp.Or(h.writes(), f.crash)
	}
	if f.crash == crashBefore {
		h.crash()
		return none, errCrashed
	}
	switch {
	case f.lost:
		return none, h.silence(ctx)
	case f.refusal != nil:
		return none, f.refusal
	case f.late > 0:
		late := &straggler{c.op}
		h.world.inProgress(c.op, 1)
		h.world.ledger.add(late)
		err := h.silence(ctx)
		h.world.later(h.party, "late "+c.String(), f.late, func() {
			_, lateErr := carry(context.WithoutCancel(ctx))
			h.world.inProgress(c.op, -1)
			h.world.ledger.end(late, nil)
			h.world.trace.add(h.id, "late "+c.op, c.key, outcome(lateErr), int64(c.n)) // a request on its way survives its host
		})
		return none, err
	}
	if h.world.arrived != nil {
		h.world.arrived(c)
	}
	served := ctx
	if c.write {
		served = context.WithoutCancel(ctx)
	}
	answer, err := carry(served)
	if f.again {
		answer, err = carry(served)
	}
	h.trace(c.op, c.key, outcome(err), int64(c.n))
	switch {
	case f.crash == crashAfter:
		h.crash()
		return none, errCrashed
	case f.silent:
		return none, h.silence(ctx)
	}
	if late := h.sleep(ctx, c.String(), f.back); late != nil {
		return none, late
	}
	if f.instead != nil {
		return none, f.instead
	}
	return answer, err
}

// outcome returns the text by which the trace describes the result of a call.
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

// silence waits until the caller gives up or the host crashes, as when no answer arrives.
// It returns the error for that.
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

// sleep waits for about d, until an instant of the host's own, or until ctx ends or the host
// crashes. name must differ from those of the host's other goroutines.
func (h *host) sleep(ctx context.Context, name string, d time.Duration) error {
	if d > 0 {
		h.world.instants.wait(ctx.Done(), h.dead, h.party, name, d)
	}
	h.world.disturb()
	if h.crashed() {
		return errCrashed
	}
	return ctx.Err()
}

// pass waits while the host is paused. A request waits beyond its deadline, as on a
// frozen machine. If until is not nil, pass also returns when ctx ends, as a handler
// does.
//
// After the pause, each waiting call continues after a delay of its own, which is drawn
// from d. Otherwise the scheduler would determine their order, and the run could not be
// replayed.
func (h *host) pass(ctx context.Context, name string, until <-chan struct{}, d draw) error {
	for waited := false; ; waited = true {
		gate := h.closedGate()
		switch {
		case h.crashed():
			return errCrashed
		case gate == nil && waited:
			_ = h.sleep(context.WithoutCancel(ctx), name, d.span(1, 2*time.Millisecond))
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
