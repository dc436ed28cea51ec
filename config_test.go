package changefeed

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

func validConfig() Config {
	return Config{
		Processor: "p", Source: newFakeSource("0"), Leases: newFakeStore(),
		Handler: HandlerFunc(func(context.Context, *Batch) error { return nil }),
	}
}

// inDialect is a lease container that reports another dialect. boundTo is a source that
// reports another dialect.
type inDialect struct {
	lease.Container
	dialect lease.Dialect
}

func (c inDialect) Dialect() lease.Dialect { return c.dialect }

type boundTo struct {
	feed.Source
	dialect lease.Dialect
}

func (s boundTo) Dialect() lease.Dialect { return s.dialect }

func TestNewRefusesAConfigByNamingTheField(t *testing.T) {
	for _, c := range []struct {
		field  string
		change func(*Config)
	}{
		{"Processor", func(c *Config) { c.Processor = "" }},
		{"Source", func(c *Config) { c.Source = nil }},
		{"Leases", func(c *Config) { c.Leases = nil }},
		{"Handler", func(c *Config) { c.Handler = nil }},
		{"Handler", func(c *Config) { c.Observer = func(lease.Lease) (Observer, error) { return nil, nil } }},
		{"Mode", func(c *Config) { c.Mode = 7 }},
		{"Range", func(c *Config) { c.Range = feed.Range{Min: "80", Max: "40"} }},
		{"Range", func(c *Config) { c.Range = feed.Range{Min: "80", Max: "FFFF"} }},
		{"MaxItems", func(c *Config) { c.MaxItems = -1 }},
		{"PollInterval", func(c *Config) { c.PollInterval = -time.Second }},
		{"ReadAhead", func(c *Config) { c.ReadAhead = -2 }},
		{"AcquireInterval", func(c *Config) { c.AcquireInterval = -1 }},
		{"RenewInterval", func(c *Config) { c.RenewInterval = -1 }},
		{"ExpirationInterval", func(c *Config) { c.ExpirationInterval = -1 }},
		{"RequestTimeout", func(c *Config) { c.RequestTimeout = -1 }},
		{"DrainTimeout", func(c *Config) { c.DrainTimeout = -2 }},
		{"MinLeases", func(c *Config) { c.MinLeases = -1 }},
		{"MaxLeases", func(c *Config) { c.MaxLeases = -1 }},
		{"MinLeases", func(c *Config) { c.MinLeases, c.MaxLeases = 3, 2 }},
		{"Checkpoint.Changes", func(c *Config) { c.Checkpoint.Changes = -1 }},
		{"Checkpoint.Interval", func(c *Config) { c.Checkpoint.Interval = -1 }},
		{"Checkpoint.Manual", func(c *Config) { c.Checkpoint = Checkpointing{Manual: true, Changes: 5} }},
		{"TraceParent", func(c *Config) { c.TraceParent = "/trace/traceparent" }},
		{"TraceParent", func(c *Config) { c.Traces, c.TraceParent = noop.NewTracerProvider(), "trace.traceparent" }},
		{"Start", func(c *Config) { c.Start = feed.After("") }},
		{"Start", func(c *Config) { c.Mode, c.Start = feed.AllVersionsAndDeletes, feed.Beginning() }},
		{"Start", func(c *Config) { c.Mode, c.Start = feed.AllVersionsAndDeletes, feed.At(time.Unix(1e9, 0)) }},
		// RenewInterval 13 s, RequestTimeout 10 s and a margin of a tenth exceed 25.555
		// s.
		{"ExpirationInterval", func(c *Config) { c.ExpirationInterval = 25555 * time.Millisecond }},
		{"ExpirationInterval", func(c *Config) { c.RenewInterval = 44 * time.Second }},
		{"ExpirationInterval", func(c *Config) { c.RequestTimeout = 41 * time.Second }},
		{"Leases", func(c *Config) {
			c.Leases = inDialect{c.Leases, lease.JavaHandleChanges}
			c.Source = boundTo{c.Source, lease.DotNet}
		}},
		{"Leases", func(c *Config) { c.Source = boundTo{c.Source, lease.JavaLatestVersion} }},
		{"Mode", func(c *Config) {
			c.Leases, c.Mode = inDialect{c.Leases, lease.JavaHandleChanges}, feed.AllVersionsAndDeletes
		}},
		{"Range", func(c *Config) {
			c.Leases, c.Range = inDialect{c.Leases, lease.JavaHandleChanges}, feed.Range{Max: "40"}
		}},
	} {
		cfg := validConfig()
		c.change(&cfg)
		_, err := New(cfg)
		refusal, ok := errors.AsType[*ConfigError](err)
		if !ok || refusal.Field != c.field {
			t.Errorf("%s: %v", c.field, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), "changefeed: Config."+c.field+": ") {
			t.Errorf("%s: the text does not name the field: %s", c.field, err)
		}
	}
}

func TestNewAcceptsLimits(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"the defaults":             func(*Config) {},
		"the shortest expiration":  func(c *Config) { c.ExpirationInterval = 26 * time.Second },
		"no read-ahead, no drain":  func(c *Config) { c.ReadAhead, c.DrainTimeout = -1, -1 },
		"AVAD after a position":    func(c *Config) { c.Mode, c.Start = feed.AllVersionsAndDeletes, feed.After("1") },
		"min without max":          func(c *Config) { c.MinLeases = 3 },
		"seconds instead of a min": func(c *Config) { c.RenewInterval, c.RequestTimeout, c.ExpirationInterval = 1e9, 1e9, 5e9 },
	} {
		cfg := validConfig()
		change(&cfg)
		if _, err := New(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// New must refuse durations near the maximum, because their sums overflow. With a drain
// timeout of MaxInt64 a stop would wait for 0 s. With a poll interval of MaxInt64 no read
// would ever start.
func TestDurationsAreAtMostAYear(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for field, set := range map[string]func(c *Config, d time.Duration){
		"PollInterval":        func(c *Config, d time.Duration) { c.PollInterval = d },
		"AcquireInterval":     func(c *Config, d time.Duration) { c.AcquireInterval = d },
		"RenewInterval":       func(c *Config, d time.Duration) { c.RenewInterval = d },
		"ExpirationInterval":  func(c *Config, d time.Duration) { c.ExpirationInterval = d },
		"RequestTimeout":      func(c *Config, d time.Duration) { c.RequestTimeout = d },
		"DrainTimeout":        func(c *Config, d time.Duration) { c.DrainTimeout = d },
		"Checkpoint.Interval": func(c *Config, d time.Duration) { c.Checkpoint.Interval = d },
	} {
		for _, d := range []time.Duration{year + 1, math.MaxInt64/2 + 1, math.MaxInt64} {
			cfg := validConfig()
			set(&cfg, d)
			_, err := New(cfg)
			if refusal, ok := errors.AsType[*ConfigError](err); !ok || refusal.Field != field || !strings.Contains(err.Error(), "365 days") {
				t.Errorf("%s of %s: %v", field, d, err)
			}
		}
		cfg := validConfig()
		set(&cfg, year)
		_, err := New(cfg)
		if refusal, ok := errors.AsType[*ConfigError](err); ok && refusal.Field != "ExpirationInterval" { // such an interval may contradict ExpirationInterval, and the error then names that field
			t.Errorf("%s of a year: %v", field, err)
		}
	}
}

// New must refuse a value above 365 days in every duration field of Config. The test
// finds the fields by reflection, so it covers fields that are added later.
func TestEveryDurationOfConfigIsBounded(t *testing.T) {
	fields := 0
	var bound func(v reflect.Value, set func(cfg *Config) reflect.Value)
	bound = func(v reflect.Value, at func(cfg *Config) reflect.Value) {
		for i := range v.NumField() {
			field := func(cfg *Config) reflect.Value { return at(cfg).Field(i) }
			switch {
			case v.Type().Field(i).Type == reflect.TypeFor[time.Duration]():
				fields++
				cfg := validConfig()
				field(&cfg).SetInt(math.MaxInt64)
				if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), v.Type().Field(i).Name) {
					t.Errorf("%s of MaxInt64: %v", v.Type().Field(i).Name, err)
				}
			case v.Type().Field(i).Type == reflect.TypeFor[Checkpointing]():
				bound(v.Field(i), field)
			}
		}
	}
	bound(reflect.ValueOf(Config{}), func(cfg *Config) reflect.Value { return reflect.ValueOf(cfg).Elem() })
	if fields != 7 {
		t.Errorf("%d durations; want 7", fields)
	}
}

// A DrainTimeout of 365 days must not overflow: a stop still waits for the handler.
func TestLongestDrainTimeoutWaitsForTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := onePartition(1), newFakeStore(), &collector{took: 24 * time.Hour}
		r, _ := idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning, DrainTimeout: maxDuration})
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if doc := leases.doc("0"); doc.Continuation != "1" || len(h.got()) != 1 {
			t.Errorf("the lease is at %q, and %v was handled", doc.Continuation, h.got())
		}
	})
}

func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	c := validConfig().withDefaults()
	if c.Instance == "" || c.MaxItems != 100 || c.PollInterval != 5*time.Second || c.ReadAhead != 4<<20 ||
		c.AcquireInterval != 17*time.Second || c.RenewInterval != 13*time.Second || c.ExpirationInterval != time.Minute ||
		c.RequestTimeout != 10*time.Second || c.DrainTimeout != 30*time.Second || c.Range != feed.Full() || c.Logger != slog.Default() {
		t.Errorf("%+v", c)
	}
}

// If Config has neither Logger nor Notify, errors must go to the default log.
func TestFailuresAreLoggedByDefault(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var log bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	synctest.Test(t, func(t *testing.T) {
		source := newFakeSource("0")
		source.fail = func(int, feed.Request) error { return errors.New("the source is out of order") }
		r := start(t, Config{Source: source, Leases: newFakeStore(), Handler: &collector{}})
		pause(time.Minute)
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
	for _, want := range []string{"level=WARN", "the source is out of order", "processor=test"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not logged:\n%s", want, log.String())
		}
	}
}
