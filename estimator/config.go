package estimator

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Config says which processor an [Estimator] looks at. Zero is the default of every
// field. No duration may be longer than 365 days. [New] copies it.
type Config struct {
	// Processor is the processor's name, Source its monitored container, Leases its
	// lease container, as in the processor's own configuration. Required.
	Processor string
	Source    feed.Source
	Leases    lease.Container
	// Unnamed is for a processor whose name is empty, as that of an Azure Functions trigger without a lease prefix
	// is: Processor isn't required then. Default: a Processor that is missing is an error.
	Unnamed bool

	// Concurrency is how many leases are read at a time. Default: 8.
	Concurrency int
	// RequestTimeout bounds one request to the source or to the lease store. Default: 10 s.
	RequestTimeout time.Duration

	// Interval is the time from one measurement of Run to the next. Default: 5 s.
	Interval time.Duration
	// Handler gets each measurement of Run; the next one begins when it has returned.
	// Its error is passed to OnError, and the same report isn't given again.
	Handler func(ctx context.Context, r Report) error
	// OnError is told of what went wrong in Run, which goes on with the next
	// measurement. Default: nobody is. A lease that can't be read doesn't make a
	// measurement fail: its Lag tells.
	OnError func(err error)
	// Metrics gets the last measurement of Run, as gauges. Default: none.
	Metrics metric.MeterProvider
}

// The defaults; the interval is .NET's.
const (
	defaultConcurrency = 8
	defaultRequest     = 10 * time.Second
	defaultInterval    = 5 * time.Second
)

// maxDuration is the longest duration of a field: sums of longer ones may overflow.
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
	case c.Processor == "" && !c.Unnamed:
		return &ConfigError{"Processor", "is required: the name of the processor whose leases are looked at"}
	case c.Processor != "" && c.Unnamed:
		return &ConfigError{"Unnamed", fmt.Sprintf("is set, and Processor is %q", c.Processor)}
	case c.Source == nil:
		return &ConfigError{"Source", "is required"}
	case c.Leases == nil:
		return &ConfigError{"Leases", "is required"}
	case c.Concurrency < 0:
		return &ConfigError{"Concurrency", "is negative"}
	case c.RequestTimeout < 0:
		return &ConfigError{"RequestTimeout", "is negative"}
	case c.Interval < 0:
		return &ConfigError{"Interval", "is negative"}
	case c.RequestTimeout > maxDuration:
		return &ConfigError{"RequestTimeout", fmt.Sprintf("(%s) is more than 365 days (%s)", c.RequestTimeout, maxDuration)}
	case c.Interval > maxDuration:
		return &ConfigError{"Interval", fmt.Sprintf("(%s) is more than 365 days (%s)", c.Interval, maxDuration)}
	}
	if source, ok := c.Source.(lease.DialectSource); ok && source.Dialect() != c.Leases.Dialect() {
		return &ConfigError{"Leases", fmt.Sprintf("are in %s, and Source reads for %s", c.Leases.Dialect(), source.Dialect())}
	}
	return nil
}

// ConfigError is returned by [New] for a Config that can't work, and by a measurement when that shows only then.
type ConfigError struct {
	// Field is the name of the field of [Config].
	Field string
	// Problem says what is wrong.
	Problem string
}

// Error names the field and the problem.
func (e *ConfigError) Error() string { return "estimator: Config." + e.Field + ": " + e.Problem }
