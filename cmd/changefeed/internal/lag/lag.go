// Package lag implements `changefeed lag`. It measures a processor's lag, once or
// periodically, and prints it.
package lag

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// Config configures [Run].
type Config struct {
	// Processor is the processor's name, which may be empty. Source is its monitored
	// container. Leases is its lease container. Letters is its letters container, or nil.
	Processor string
	Source    feed.Source
	Leases    lease.Container
	Letters   letters.Container
	// Expiration is the hosts' lease expiration interval. A lease that was written longer
	// ago has expired.
	Expiration time.Duration
	// Watch measures every Interval until the context ends. Without it, Run measures
	// once.
	Watch    bool
	Interval time.Duration
	// JSON prints measurements as JSON. With Watch each one is a line of its own.
	JSON bool
	// Terminal is the terminal that Out writes to, or nil. With Watch, each table replaces the
	// one before on a terminal. Its control sequences do not go through Out, which escapes
	// them.
	Terminal *os.File
	// Metrics receives the gauges of the measurements. If nil, there are none.
	Metrics metric.MeterProvider
	// Out receives the measurements.
	Out io.Writer
	// Outage receives the errors of a run with Watch.
	Outage *connect.Outage
}

// FailedError reports that some leases could not be read.
type FailedError struct {
	// Failed is the number of leases that could not be read, of Leases in total.
	Failed, Leases int
	// Err is the error of one of these leases.
	Err error
}

// Error returns the counts and the text of Err.
func (e *FailedError) Error() string {
	if e.Leases == 1 {
		return fmt.Sprintf("the lease could not be read: %v", e.Err)
	}
	return fmt.Sprintf("%d of %d leases could not be read: %v", e.Failed, e.Leases, e.Err)
}

// Unwrap returns Err.
func (e *FailedError) Unwrap() error { return e.Err }

// Run measures and shows the lag. With Watch it returns nil when ctx ends, and an error
// only if it cannot write to Out. Without Watch it shows one report. It then returns a
// *[FailedError] if a lease could not be read, an error if the letters could not, or [feed.ErrNotFound] if there are no
// leases.
func Run(ctx context.Context, c Config) error {
	cfg := estimator.Config{Processor: c.Processor, Source: c.Source, Leases: c.Leases, Letters: c.Letters, Interval: c.Interval, Metrics: c.Metrics}
	if !c.Watch {
		e, err := estimator.New(cfg)
		if err != nil {
			return err
		}
		r, err := e.Report(ctx)
		if r.Time.IsZero() {
			return err
		}
		return errors.Join(c.show(r), failure(r), r.LettersErr, err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var unwritten error
	cfg.Handler = func(_ context.Context, r estimator.Report) error {
		c.Outage.Worked("")
		if unwritten = c.show(r); unwritten != nil {
			stop()
		}
		return nil
	}
	cfg.OnError = func(err error) { c.Outage.Failed("", err) }
	e, err := estimator.New(cfg)
	if err != nil {
		return err
	}
	return errors.Join(e.Run(ctx), unwritten)
}

// None shows the report of a processor that has no leases and no marker.
func (c Config) None() error {
	return c.show(estimator.Report{Time: time.Now(), Total: estimator.Sum(nil)})
}

// failure returns a *FailedError if some leases of a report could not be read. Otherwise
// it returns nil.
func failure(r estimator.Report) error {
	for i := range r.Lags {
		if err := r.Lags[i].Err; err != nil {
			return &FailedError{Failed: r.Total.Failed, Leases: r.Total.Leases, Err: err}
		}
	}
	return nil
}
