package estimator

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// gauges exports the last report of Run by OpenTelemetry; docs/metrics.md describes the instruments.
// Collecting them sends no request.
type gauges struct {
	registration metric.Registration // nil without a provider
	units        metric.Float64Counter
	labels       metric.MeasurementOption
}

// newGauges registers the instruments. They read the last report when they are collected.
func (e *Estimator) newGauges(ctx context.Context) (*gauges, error) {
	if e.cfg.Metrics == nil {
		return &gauges{}, nil
	}
	meter := e.cfg.Metrics.Meter("github.com/changefeed-go/changefeed/estimator")
	var errs [8]error
	gauge := func(i int, name, unit, description string) (g metric.Float64ObservableGauge) {
		g, errs[i] = meter.Float64ObservableGauge("changefeed.estimator."+name, metric.WithUnit(unit), metric.WithDescription(description))
		return g
	}
	leaseLag := gauge(0, "lease.lag", "{transaction}", "Transactions in the lease's partition that nobody has read yet.")
	leaseAge := gauge(1, "lease.age", "s", "How old the lease's oldest unread change is.")
	lag := gauge(2, "lag", "{transaction}", "Transactions that the processor has yet to read, summed over the partitions; in each, only the lease with the largest lag counts.")
	age := gauge(3, "age", "s", "How old the oldest unread change is.")
	leases := gauge(4, "leases", "{lease}", "Leases by state.")
	dead := gauge(5, "letters", "{letter}", "Letters of the processor, if `Config.Letters` or `--letters` is set.")
	parked := gauge(6, "parked", "{key}", "Partition keys of which a change waits behind a letter, likewise.")
	g := &gauges{}
	g.units, errs[7] = meter.Float64Counter("changefeed.estimator.request_units", metric.WithUnit("{RU}"),
		metric.WithDescription("What the measurements cost, in request units."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	name := attribute.String("processor", e.cfg.Processor)
	g.labels = metric.WithAttributes(name)
	var err error
	g.registration, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		r := e.last.Load()
		if r == nil {
			return nil
		}
		for i := range r.Lags {
			l := &r.Lags[i]
			labels := metric.WithAttributes(name, attribute.String("lease", l.LeaseToken))
			if l.Known() {
				o.ObserveFloat64(leaseLag, float64(l.LSNs), labels)
			}
			if l.Age != Unknown {
				o.ObserveFloat64(leaseAge, l.Age.Seconds(), labels)
			}
		}
		t := r.Total
		if t.LSNs != Unknown {
			o.ObserveFloat64(lag, float64(t.LSNs), g.labels)
		}
		if t.Age != Unknown {
			o.ObserveFloat64(age, t.Age.Seconds(), g.labels)
		}
		if t.Letters != Unknown {
			o.ObserveFloat64(dead, float64(t.Letters), g.labels)
			o.ObserveFloat64(parked, float64(t.ParkedKeys), g.labels)
		}
		for state, n := range map[string]int{
			"owned": t.Owned, "free": t.Leases - t.Owned, "unknown": t.Unknown, "failed": t.Failed, "splitting": t.Splitting,
			"stopped":   t.Stopped,
			"left_over": t.LeftOver,
		} {
			o.ObserveFloat64(leases, float64(n), metric.WithAttributes(name, attribute.String("state", state)))
		}
		return nil
	}, leaseLag, leaseAge, lag, age, leases, dead, parked)
	if err == nil {
		g.units.Add(ctx, 0, g.labels) // so that the counter is there from the start
	}
	return g, err
}

// spent adds units to the counter of request units.
func (g *gauges) spent(ctx context.Context, units float64) {
	if g.registration != nil && units > 0 {
		g.units.Add(ctx, units, g.labels)
	}
}

// end unregisters the instruments.
func (g *gauges) end() {
	if g.registration != nil {
		_ = g.registration.Unregister() // fails only for an invalid registration
	}
}
