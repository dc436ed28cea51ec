package estimator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// Config configures an Estimator. A zero field means its default, and no duration may be
// longer than 365 days. New copies the Config.
type Config struct {
	// Processor is the processor's name, as in its own configuration. Leave it empty for an
	// Azure Functions trigger without a lease prefix, which has no name.
	Processor string
	// Source and Leases are the processor's monitored container and its lease container.
	// They are required.
	Source feed.Source
	Leases lease.Container
	// Letters is the processor's letters container. If set, reports count its letters
	// and the keys that are parked. That costs one query more, which reads every letter without
	// its item.
	Letters letters.Container

	// Concurrency is how many leases are read at a time. If zero, 8 is used.
	Concurrency int
	// RequestTimeout limits one request to the source or to the lease store. If zero, 10
	// s is used.
	RequestTimeout time.Duration

	// Interval is how often Run measures. If zero, 5 s is used.
	Interval time.Duration
	// Handler receives each of Run's reports, and the next measurement waits until it has
	// returned. If it returns an error, OnError gets the error and the report isn't
	// repeated. Run calls Handler and OnError on its own goroutine, so a panic of either
	// passes through Run to its caller, unlike one of a processor's handler.
	Handler func(ctx context.Context, r Report) error
	// OnError receives what goes wrong in Run, which then continues with the next
	// measurement. An error in reading one lease is not passed here, but is in its [Lag].
	OnError func(err error)
	// Metrics exports Run's last report as gauges.
	Metrics metric.MeterProvider
}

// The defaults of Config. The .NET estimator has the same interval.
const (
	defaultConcurrency = 8
	defaultRequest     = 10 * time.Second
	defaultInterval    = 5 * time.Second
)

// maxDuration is the longest duration of a field. Sums of longer ones may overflow.
const maxDuration = 365 * 24 * time.Hour

func (c Config) withDefaults() Config {
	if c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = defaultRequest
	}
	if c.Interval == 0 {
		c.Interval = defaultInterval
	}
	if c.OnError == nil {
		c.OnError = func(error) {}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Source == nil:
		return invalid("Source", "is required")
	case c.Leases == nil:
		return invalid("Leases", "is required")
	case c.Concurrency < 0:
		return invalid("Concurrency", "is negative")
	case c.RequestTimeout < 0:
		return invalid("RequestTimeout", "is negative")
	case c.Interval < 0:
		return invalid("Interval", "is negative")
	case c.RequestTimeout > maxDuration:
		return invalid("RequestTimeout", fmt.Sprintf("(%s) is more than 365 days (%s)", c.RequestTimeout, maxDuration))
	case c.Interval > maxDuration:
		return invalid("Interval", fmt.Sprintf("(%s) is more than 365 days (%s)", c.Interval, maxDuration))
	}
	if err := protocol.CheckDialects(c.Source, c.Leases); err != nil {
		return openingError(err)
	}
	return nil
}

// invalid returns an error that names a field of [Config] and its problem.
func invalid(field, problem string) error {
	return &changefeed.ConfigError{Field: field, Problem: problem}
}

// openingError returns an error of package protocol as one of this package.
func openingError(err error) error {
	if refused, ok := errors.AsType[*protocol.ContainersError](err); ok {
		return invalid("Leases", refused.Problem)
	}
	return fmt.Errorf("estimator: cannot %w", err)
}
