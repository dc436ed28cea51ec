package estimator_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/estimator"
)

func TestNewRefusesAConfigByNamingTheField(t *testing.T) {
	w := newWorld(t, 1, false)
	good := estimator.Config{Processor: "p", Source: w.source, Leases: w.leases}
	for field, spoil := range map[string]func(*estimator.Config){
		"Source":         func(c *estimator.Config) { c.Source = nil },
		"Leases":         func(c *estimator.Config) { c.Leases = nil },
		"Concurrency":    func(c *estimator.Config) { c.Concurrency = -1 },
		"RequestTimeout": func(c *estimator.Config) { c.RequestTimeout = -1 },
		"Interval":       func(c *estimator.Config) { c.Interval = -1 },
	} {
		cfg := good
		spoil(&cfg)
		_, err := estimator.New(cfg)
		if bad, ok := errors.AsType[*changefeed.ConfigError](err); !ok || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// New must refuse durations near the maximum, because their sums overflow.
func TestDurationsAreAtMostAYear(t *testing.T) {
	w := newWorld(t, 1, false)
	for field, set := range map[string]func(*estimator.Config, time.Duration){
		"RequestTimeout": func(c *estimator.Config, d time.Duration) { c.RequestTimeout = d },
		"Interval":       func(c *estimator.Config, d time.Duration) { c.Interval = d },
	} {
		cfg := estimator.Config{Processor: "p", Source: w.source, Leases: w.leases}
		set(&cfg, 365*24*time.Hour)
		if _, err := estimator.New(cfg); err != nil {
			t.Errorf("%s of a year: %v", field, err)
		}
		for _, d := range []time.Duration{365*24*time.Hour + 1, math.MaxInt64} {
			set(&cfg, d)
			_, err := estimator.New(cfg)
			if bad, ok := errors.AsType[*changefeed.ConfigError](err); !ok || bad.Field != field {
				t.Errorf("%s of %s: %v", field, d, err)
			}
		}
	}
}
