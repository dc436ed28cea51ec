package changefeed

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// metrics holds the OpenTelemetry instruments of a processor. All have the attribute
// "processor", its name. The values of several hosts in one process add up.
// docs/metrics.md describes them.
//
// Every counter is there from the start, with the value 0. A nil *metrics counts nothing.
// Attribute sets are created once, so that counting a batch allocates nothing.
type metrics struct {
	changes, redeliveries, checkpoints, moves, errors, letters, redriven metric.Int64Counter
	leases, stopped, paused, parked                                      metric.Int64UpDownCounter
	attempts                                                             metric.Int64Histogram
	duration, delays                                                     metric.Float64Histogram
	units                                                                metric.Float64Counter

	// ctx is the context of every measurement. It is not a context of the user, because
	// no measurement belongs to one of the user's requests.
	ctx               context.Context
	name              attribute.KeyValue
	plain, ok, failed metric.MeasurementOption
	feedUnits         metric.MeasurementOption
	leaseUnits        metric.MeasurementOption
	deadLetters       metric.MeasurementOption
	parkedLetters     metric.MeasurementOption
}

// durationBounds are the bounds of the histogram in seconds. They cover a handler in
// memory and a handler that works for minutes.
var durationBounds = []float64{.0001, .0005, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// attemptBounds are the bounds of the histogram of attempts. The first call of the handler is
// alone in its bucket, so the rest is the share of repetitions.
var attemptBounds = []float64{1, 2, 3, 5, 10, 20, 50, 100}

// newMetrics returns the instruments of a processor, or nil if there is no provider.
func newMetrics(p metric.MeterProvider, processor string) (*metrics, error) {
	if p == nil {
		return nil, nil //nolint:nilnil // nil means no metrics
	}
	meter := p.Meter("github.com/changefeed-go/changefeed")
	m := &metrics{ctx: context.Background(), name: attribute.String("processor", processor)}
	var errs []error
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := meter.Int64Counter("changefeed.processor."+name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	m.changes = counter("changes", "{change}", "Changes that the handler has handled.")
	m.redeliveries = counter("redeliveries", "{change}", "Changes delivered again because the handler failed.")
	m.checkpoints = counter("checkpoints", "{checkpoint}", "Lease writes that moved a position.")
	m.moves = counter("moves", "{lease}", "Leases that the host acquired or stopped working on, by event.")
	m.errors = counter("errors", "{error}", "Failures by the part that failed: handler, source, leases, letters, other.")
	m.letters = counter("letters", "{letter}", "Letters written, by state: dead for changes that were given up, parked for those that wait behind them.")
	m.redriven = counter("redriven", "{letter}", "Letters that the handler has handled.")
	var err error
	m.leases, err = meter.Int64UpDownCounter("changefeed.processor.leases", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases owned now."))
	errs = append(errs, err)
	m.stopped, err = meter.Int64UpDownCounter("changefeed.processor.stopped", metric.WithUnit("{lease}"),
		metric.WithDescription("Owned leases that the handler has stopped."))
	errs = append(errs, err)
	m.paused, err = meter.Int64UpDownCounter("changefeed.processor.paused", metric.WithUnit("{host}"),
		metric.WithDescription("Hosts that write no letters, because their handlers fail with everything."))
	errs = append(errs, err)
	m.parked, err = meter.Int64UpDownCounter("changefeed.processor.parked", metric.WithUnit("{key}"),
		metric.WithDescription("Keys or items of the owned leases that are parked now."))
	errs = append(errs, err)
	m.attempts, err = meter.Int64Histogram("changefeed.processor.batch.attempt", metric.WithUnit("{attempt}"),
		metric.WithDescription("Which attempt at its batch each handler call was, from 1."), metric.WithExplicitBucketBoundaries(attemptBounds...))
	errs = append(errs, err)
	m.delays, err = meter.Float64Histogram("changefeed.processor.retry.delay", metric.WithUnit("s"),
		metric.WithDescription("How long a failed handler waits for its next call."), metric.WithExplicitBucketBoundaries(durationBounds...))
	errs = append(errs, err)
	m.duration, err = meter.Float64Histogram("changefeed.processor.batch.duration", metric.WithUnit("s"),
		metric.WithDescription("How long the handler ran for a batch, by outcome."), metric.WithExplicitBucketBoundaries(durationBounds...))
	errs = append(errs, err)
	m.units, err = meter.Float64Counter("changefeed.processor.request_units", metric.WithUnit("{RU}"),
		metric.WithDescription("What reading the monitored container and keeping the leases cost, in request units."))
	errs = append(errs, err)
	m.plain = m.with()
	m.ok, m.failed = m.with(attribute.String("outcome", "ok")), m.with(attribute.String("outcome", "error"))
	m.feedUnits = m.with(attribute.String("container", "monitored"))
	m.deadLetters = m.with(attribute.String("state", string(letters.Dead)))
	m.parkedLetters = m.with(attribute.String("state", string(letters.Parked)))
	m.leaseUnits = m.with(attribute.String("container", "leases"))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	m.zero()
	return m, nil
}

// zero makes every counter appear with the value 0, for all of its attributes' values. An
// alert on the growth of a counter would miss the first failure otherwise, because a counter
// that appears with the value 1 has not grown.
func (m *metrics) zero() {
	for _, c := range []metric.Int64Counter{m.changes, m.redeliveries, m.checkpoints, m.redriven} {
		c.Add(m.ctx, 0, m.plain)
	}
	m.leases.Add(m.ctx, 0, m.plain)
	m.stopped.Add(m.ctx, 0, m.plain)
	m.paused.Add(m.ctx, 0, m.plain)
	m.parked.Add(m.ctx, 0, m.plain)
	m.letters.Add(m.ctx, 0, m.deadLetters)
	m.letters.Add(m.ctx, 0, m.parkedLetters)
	m.units.Add(m.ctx, 0, m.feedUnits)
	m.units.Add(m.ctx, 0, m.leaseUnits)
	m.moves.Add(m.ctx, 0, m.moved(Acquired.String()))
	for r := Shutdown; r <= Abandoned; r++ {
		m.moves.Add(m.ctx, 0, m.moved(r.String()))
	}
	for _, from := range []string{originHandler, originSource, originLeases, originLetters, originOther} {
		m.errors.Add(m.ctx, 0, m.failure(from, false))
	}
	for _, from := range []string{originSource, originLeases, originLetters} { // services throttle, and nothing else
		m.errors.Add(m.ctx, 0, m.failure(from, true))
	}
}

func (m *metrics) moved(event string) metric.MeasurementOption {
	return m.with(attribute.String("event", event))
}

func (m *metrics) failure(origin string, throttled bool) metric.MeasurementOption {
	return m.with(attribute.String("origin", origin), attribute.Bool("throttled", throttled))
}

func (m *metrics) with(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(more, m.name)...))
}

// handled records a call of the handler: the number of changes that it got and that it
// handled, its duration, the number of calls with the batch so far, and its error.
func (m *metrics) handled(got, handled int, took time.Duration, attempt int, err error) {
	if m == nil {
		return
	}
	if attempt > 1 {
		m.redeliveries.Add(m.ctx, int64(got), m.plain)
	}
	m.attempts.Record(m.ctx, int64(attempt), m.plain)
	if handled > 0 {
		m.changes.Add(m.ctx, int64(handled), m.plain)
	}
	if err != nil {
		m.duration.Record(m.ctx, took.Seconds(), m.failed)
		return
	}
	m.duration.Record(m.ctx, took.Seconds(), m.ok)
}

// checkpointed counts one write that moved a lease's position.
func (m *metrics) checkpointed() {
	if m != nil {
		m.checkpoints.Add(m.ctx, 1, m.plain)
	}
}

// read adds the request units of the read that returned p.
func (m *metrics) read(p feed.Page) {
	if m != nil && p.Charge > 0 {
		m.units.Add(m.ctx, p.Charge, m.feedUnits)
	}
}

// lettered counts n letters: of changes that were given up if dead is set, or else of parked ones.
func (m *metrics) lettered(n int, dead bool) {
	switch {
	case m == nil:
	case dead:
		m.letters.Add(m.ctx, int64(n), m.deadLetters)
	default:
		m.letters.Add(m.ctx, int64(n), m.parkedLetters)
	}
}

// redrove counts a letter that the handler has handled.
func (m *metrics) redrove() {
	if m != nil {
		m.redriven.Add(m.ctx, 1, m.plain)
	}
}

// parks adds n to the number of parked keys.
func (m *metrics) parks(n int) {
	if m != nil && n != 0 {
		m.parked.Add(m.ctx, int64(n), m.plain)
	}
}

// stops adds n to the number of owned leases that are stopped.
func (m *metrics) stops(n int64) {
	if m != nil {
		m.stopped.Add(m.ctx, n, m.plain)
	}
}

// notified updates the metrics of leases, moves and errors by a notification.
func (m *metrics) notified(n Notification) {
	if m == nil {
		return
	}
	event := n.Event.String()
	switch n.Event {
	case Acquired:
		m.leases.Add(m.ctx, 1, m.plain)
	case Released:
		m.leases.Add(m.ctx, -1, m.plain)
		event = n.Reason.String()
	case Resumed, GivenUp:
		return
	case Paused:
		m.paused.Add(m.ctx, 1, m.plain)
		return
	case Unpaused:
		m.paused.Add(m.ctx, -1, m.plain)
		return
	case Stopped, Failed:
		if n.Delay > 0 {
			m.delays.Record(m.ctx, n.Delay.Seconds(), m.plain)
		}
		if _, fresh := errors.AsType[*HandlerError](n.Err); n.Event == Stopped && !fresh { // it was stopped before
			return
		}
		_, throttled := errors.AsType[*feed.ThrottledError](n.Err)
		m.errors.Add(m.ctx, 1, m.failure(origin(n.Err), throttled))
		return
	}
	m.moves.Add(m.ctx, 1, m.moved(event))
}

// These are the parts that an error can come from.
const (
	originHandler = "handler"
	originSource  = "source"
	originLeases  = "leases"
	originLetters = "letters"
	originOther   = "other"
)

// origin returns the part that an error came from.
func origin(err error) string {
	if _, ok := errors.AsType[*HandlerError](err); ok {
		return originHandler
	}
	if _, ok := errors.AsType[*SourceError](err); ok {
		return originSource
	}
	if _, ok := errors.AsType[*LeaseStoreError](err); ok {
		return originLeases
	}
	if _, ok := errors.AsType[*LettersError](err); ok {
		return originLetters
	}
	return originOther
}

// leaseCosts adds the request units of a lease store to the metrics. It is not safe for
// concurrent use.
type leaseCosts struct {
	m *metrics
	// store is the open lease store. It is nil if there are no metrics.
	store   lease.Store
	counted float64
}

func newLeaseCosts(m *metrics, s lease.Store) leaseCosts {
	if m == nil {
		return leaseCosts{}
	}
	return leaseCosts{m: m, store: s}
}

// count adds the request units that the store has charged since the last call of count.
func (c *leaseCosts) count() {
	if c.store == nil {
		return
	}
	if now := protocol.Charged(c.store); now > c.counted {
		c.m.units.Add(c.m.ctx, now-c.counted, c.m.leaseUnits)
		c.counted = now
	}
}
