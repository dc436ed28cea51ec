package estimator

import (
	"context"
	"time"

	"github.com/changefeed-go/changefeed"
)

// Run measures at once and then in every interval, and passes each report to
// [Config.Handler] and [Config.Metrics], until ctx ends. Then it returns nil. A second
// call returns [changefeed.ErrUsed].
//
// Run passes errors to [Config.OnError]. After a failed measurement the gauges have no
// values. For a processor without leases Run calls OnError with [feed.ErrNotFound], and
// Handler with the report. An error in counting letters is in the report.
func (e *Estimator) Run(ctx context.Context) error {
	if e.used.Swap(true) {
		return changefeed.ErrUsed
	}
	g, err := e.newGauges(ctx)
	if err != nil {
		return invalid("Metrics", err.Error())
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

// measure makes one measurement for Run and passes the report to the handler and the
// gauges.
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
