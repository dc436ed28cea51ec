package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/internal/seeded"
	"github.com/changefeed-go/changefeed/lease"
)

// These errors are the answers of services in a rough run.

var (
	errRetryWith  = errors.New("retry with (449)")
	errConnection = errors.New("connection reset")
	errInternal   = errors.New("internal server error (500)")
)

// faults draws the faults of a call.
func (r *run) faults(c call, d *draw, f *fault) {
	now := time.Since(r.world.trace.origin)
	switch {
	case isLeaseOp(c.op) && now < r.down(&r.leasesDown), !isLeaseOp(c.op) && now < r.down(&r.sourceDown):
		r.world.inject()
		outage(d, f)
		return
	case r.scenario.odds.late > 0 && (c.op == opCreate || c.op == opMark && r.scenario.dialect != lease.JavaHandleChanges) && d.chance(r.scenario.odds.late):
		r.world.inject()
		f.late = d.span(time.Millisecond, r.scenario.times.timeout)
		return
	case !d.chance(r.scenario.odds.request):
		return
	}
	r.world.inject()
	r.world.occurs(requestFaults)
	t := r.scenario.times.timeout
	switch p := d.intn(10); {
	case p < 3: // slow, up to the request timeout
		f.there = d.span(0, t/2)
		f.back = d.span(0, t/2)
	case p < 4:
		f.refusal = &feed.ThrottledError{RetryAfter: d.span(10*time.Millisecond, t/2)}
	case p < 5:
		f.refusal = []error{errUnavailable, errRetryWith, errConnection, errInternal}[d.intn(4)]
	case p < 6:
		f.lost = true
	case c.op == opRead && p < 7:
		f.refusal = &feed.GoneError{Partition: c.key}
	case !c.write:
		f.refusal = errConnection
	case p < 7:
		f.instead = []error{errUnavailable, errRetryWith, errConnection, errInternal}[d.intn(4)]
	case p < 8:
		f.silent = true
	case p < 9:
		f.late = d.span(time.Millisecond, t)
	default:
		f.again = true
	}
	if c.op == opMark && r.scenario.dialect == lease.JavaHandleChanges {
		f.late = 0 // see notGenerated
	}
}

// down returns the end of an outage.
func (r *run) down(until *time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *until
}

// outage draws the fault of a call to a service that is down: it refuses the request or
// drops it.
func outage(d *draw, f *fault) {
	switch d.intn(3) {
	case 0:
		f.lost = true
	case 1:
		f.refusal = &feed.ThrottledError{RetryAfter: d.span(100*time.Millisecond, 5*time.Second)}
	default:
		f.refusal = errUnavailable
	}
}

func isLeaseOp(op string) bool {
	return slices.Contains([]string{opOpen, opList, opGet, opMark, opCreate, opUpdate, opDelete}, op)
}

// torn draws whether a listing is combined from two listings.
func (r *run) torn(host string, n int) (time.Duration, bool) {
	d := newDraw(r.scenario.seed, uint64(n), "torn", host)
	if !d.chance(r.scenario.odds.torn) {
		return 0, false
	}
	r.world.inject()
	r.world.occurs(tornListings)
	return d.span(time.Millisecond, r.scenario.times.timeout/4), true
}

// handle draws what the handler does with a batch.
func (r *run) handle(o *simObserver, b *changefeed.Batch, attempt int) handling {
	odds := r.scenario.odds
	d := newDraw(r.scenario.seed, uint64(b.Changes[0].LSN)<<8+uint64(attempt), "handling", o.host.id, o.lease.Token)
	does := handling{takes: d.span(100*time.Microsecond, 15*time.Millisecond)}
	does.checkpoint = d.chance(odds.manual) || r.world.isCalm()
	switch {
	case r.scenario.handler != nil:
		does.call, does.checkpoint = r.userHandler(o.host).Handle, false
	case o.user != nil:
		does.call, does.checkpoint = o.user.Handle, false
	}
	if does.elsewhere = r.elsewhere(o, b, does.takes); does.elsewhere.variant != "" {
		does.checkpoint = false
	}
	if r.world.isCalm() {
		return does
	}
	switch {
	case o.host.settings.failure.Attempts > 0 && r.poisoned(b) >= 0:
		i := r.poisoned(b)
		does.err = errHandler
		if seeded.Hash(r.scenario.seed, o.host.id)%2 == 0 {
			does.err = stuckAt(b, i)
		}
	case d.chance(odds.panics):
		r.world.occurs(failingHandlers)
		does.exits = d.chance(0.5)
		does.panics = !does.exits
	case d.chance(odds.fails):
		r.world.occurs(failingHandlers)
		does.err = errHandler
	case d.chance(odds.part):
		r.world.occurs(partialFailures)
		does.err = partOf(b, &d, errHandler)
	case d.chance(odds.stop):
		r.world.occurs(stoppedLeases)
		does.err = changefeed.Stop(errStopped)
		if r.scenario.has(partialFailures) && d.chance(0.3) {
			does.err = partOf(b, &d, does.err)
		}
		name := fmt.Sprintf("resume %s %s %d %d", o.host.id, o.lease.Token, o.run, b.Changes[0].LSN)
		r.world.later(operatorParty, name, does.takes+d.span(0, 2*r.scenario.times.expiration), func() { r.resumeLeases(context.Background()) })
	case d.chance(odds.slow):
		r.world.occurs(slowHandlers)
		// The handler returns at the latest when the faults end.
		does.takes = min(d.span(time.Second, 2*r.scenario.times.expiration), time.Until(r.calmAt)-does.takes)
		does.ignoresContext = d.chance(odds.ignoresContext)
	default:
		return does
	}
	r.world.inject()
	return does
}

// poisoned returns the index of the first change of a batch that the handler cannot process, or
// -1 if there is none.
func (r *run) poisoned(b *changefeed.Batch) int {
	left := float64(time.Until(r.calmAt)) / float64(r.scenario.active)
	return slices.IndexFunc(b.Changes, func(c feed.Change) bool {
		id, _ := c.ID()
		draw := func(what string) float64 { return seeded.Float(seeded.Mix(seeded.Hash(r.scenario.seed, what+" "+id))) }
		return draw("poison") < r.scenario.odds.poison && draw("mended") < 2*left
	})
}

// stuckAt returns the error of a handler that handles one change at a time and fails at change i.
func stuckAt(b *changefeed.Batch, i int) error {
	failed := map[int]error{i: errHandler}
	for later := i + 1; later < len(b.Changes); later++ {
		failed[later] = changefeed.ErrNotHandled
	}
	return &changefeed.BatchError{Errors: failed}
}

// partOf draws which changes of a batch fail, one of them with err.
func partOf(b *changefeed.Batch, d *draw, err error) error {
	failed := map[int]error{}
	for i := range b.Changes {
		if d.chance(0.3) {
			failed[i] = changefeed.ErrNotHandled
		}
	}
	failed[d.intn(len(b.Changes))] = err
	return &changefeed.BatchError{Errors: failed}
}

// resumeLeases resumes all stopped leases, as an operator does.
func (r *run) resumeLeases(ctx context.Context) {
	listing, err := r.operator.List(ctx)
	if err != nil {
		return
	}
	for _, l := range listing.Leases {
		if protocol.StopOf(l).IsZero() {
			continue
		}
		l = protocol.Resumed(l)
		if stored, err := r.operator.Update(ctx, l); err == nil {
			r.world.operates(opUpdate, l, stored)
			r.world.trace.add("operator", "resume", l.Token, "", 0)
		}
	}
}

// editLease writes an unknown property to a lease, as another tool may.
func (r *run) editLease(ctx context.Context, n int) {
	l, ok := r.pickLease(ctx, n)
	if !ok {
		return
	}
	properties := map[string]string{"note": "kept"}
	maps.Copy(properties, l.Properties)
	l.Properties = properties
	if stored, err := r.operator.Update(ctx, l); err == nil {
		r.world.inject()
		r.world.occurs(editedLeases)
		r.world.operates(opUpdate, l, stored)
		r.world.trace.add("operator", "poke", l.Token, "", 0)
	}
}

// deleteLease deletes a lease as an operator may.
func (r *run) deleteLease(ctx context.Context, n int) {
	l, ok := r.pickLease(ctx, n)
	if !ok {
		return
	}
	if err := r.operator.Delete(ctx, l); err == nil {
		r.world.inject()
		r.world.occurs(deletedLeases)
		r.world.operates(opDelete, l, lease.Lease{})
		r.world.trace.add("operator", "delete", l.Token, "", 0)
	}
}

func (r *run) pickLease(ctx context.Context, n int) (lease.Lease, bool) {
	listing, err := r.operator.List(ctx)
	if err != nil || len(listing.Leases) == 0 {
		return lease.Lease{}, false
	}
	return listing.Leases[n%len(listing.Leases)], true
}
