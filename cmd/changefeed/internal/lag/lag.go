// Package lag is the work of `changefeed lag`: measuring, once or again and again, and
// showing what was measured.
package lag

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Config says whose lag is shown, and how.
type Config struct {
	// Processor is the processor's name, which may be empty, Source its monitored container, Leases its
	// lease container.
	Processor string
	Source    feed.Source
	Leases    lease.Container
	// Expiration is the hosts' lease expiration interval, which tells live leases from expired ones.
	Expiration time.Duration
	// Watch measures every Interval until the context ends; else it is done once.
	Watch    bool
	Interval time.Duration
	// JSON prints an object per measurement: with Watch one a line.
	JSON bool
	// Terminal says that Out is one: with Watch a table replaces the one before.
	Terminal bool
	// Metrics gets the gauges of what is watched. Default: none.
	Metrics metric.MeterProvider
	// Out gets what was measured, Log what went wrong while it is watched.
	Out, Log io.Writer
}

// FailedError tells that some leases could not be read.
type FailedError struct {
	// Failed of Leases could not.
	Failed, Leases int
	// Err is what happened to one of them.
	Err error
}

// Error names one of the failures.
func (e *FailedError) Error() string {
	if e.Leases == 1 {
		return fmt.Sprintf("the lease could not be read: %v", e.Err)
	}
	return fmt.Sprintf("%d of %d leases could not be read: %v", e.Failed, e.Leases, e.Err)
}

// Unwrap returns Err.
func (e *FailedError) Unwrap() error { return e.Err }

// Run measures and shows. Watching, it returns nil when ctx ends, and an error only when
// nothing can be written any more. Measuring once, it shows the report and then returns a
// *[FailedError] if a lease could not be read, [feed.ErrNotFound] if there are no leases.
func Run(ctx context.Context, c Config) error {
	cfg := estimator.Config{Processor: c.Processor, Unnamed: c.Processor == "", Source: c.Source, Leases: c.Leases, Interval: c.Interval, Metrics: c.Metrics}
	if !c.Watch {
		e, err := estimator.New(cfg)
		if err != nil {
			return err
		}
		r, err := e.Report(ctx)
		if r.Time.IsZero() {
			return err
		}
		return errors.Join(c.show(r), failure(r), err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var unwritten error
	cfg.Handler = func(_ context.Context, r estimator.Report) error {
		if unwritten = c.show(r); unwritten != nil {
			stop()
		}
		return nil
	}
	cfg.OnError = func(err error) {
		// Watching goes on without a reader of the log: what was measured is in Out.
		_, _ = fmt.Fprintf(c.Log, "changefeed: %s; retrying in %s\n", connect.Text(err), c.Interval)
	}
	e, err := estimator.New(cfg)
	if err != nil {
		return err
	}
	return errors.Join(e.Run(ctx), unwritten)
}

// failure is the *FailedError of a report; nil: all leases were read.
func failure(r estimator.Report) error {
	for i := range r.Lags {
		if err := r.Lags[i].Err; err != nil {
			return &FailedError{Failed: r.Total.Failed, Leases: r.Total.Leases, Err: err}
		}
	}
	return nil
}
