package estimator

import (
	"context"
	"errors"
	"time"
)

// ErrUsed is returned by a second [Estimator.Run].
var ErrUsed = errors.New("estimator: Run was called before")

// Run measures every interval, the first time at once, and passes each report to
// [Config.Handler] and [Config.Metrics], until ctx ends; then it returns nil. It may be called once; a
// second call returns [ErrUsed]. What goes wrong is passed to [Config.OnError]; a measurement that
// fails leaves the gauges without values, and not with old ones. For a processor without
// leases Run calls OnError with [feed.ErrNotFound], and Handler with the report beside it.
func (e *Estimator) Run(ctx context.Context) error {
	if e.used.Swap(true) {
		return ErrUsed
	}
	g, err := e.newGauges()
	if err != nil {
		return &ConfigError{"Metrics", err.Error()}
	}
	defer g.end()
	ticker := time.NewTicker(e.cfg.Interval)
	defer ticker.Stop()
	for {
		e.measure(ctx, g)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// measure is one measurement of Run.
func (e *Estimator) measure(ctx context.Context, g *gauges) {
	report, err := e.Report(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		e.cfg.OnError(err)
		if report.Time.IsZero() {
			e.last.Store(nil)
			return
		}
	}
	e.last.Store(&report)
	g.spent(ctx, report.Total.Charge)
	if e.cfg.Handler == nil {
		return
	}
	if err := e.cfg.Handler(ctx, report); err != nil && ctx.Err() == nil {
		e.cfg.OnError(err)
	}
}
