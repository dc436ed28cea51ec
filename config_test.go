package changefeed

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

func validConfig() Config {
	return Config{
		Processor: "p", Source: newFakeSource("0"), Leases: newFakeStore(),
		Handler: HandlerFunc(func(context.Context, *Batch) error { return nil }),
	}
}

// inDialect is a lease container, and boundTo a source, made for a dialect.
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
		{"HeapReserve", func(c *Config) { c.HeapReserve = -2 }},
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
		{"Start", func(c *Config) { c.Start = feed.After("") }},
		{"Start", func(c *Config) { c.Mode, c.Start = feed.AllVersionsAndDeletes, feed.Beginning() }},
		{"Start", func(c *Config) { c.Mode, c.Start = feed.AllVersionsAndDeletes, feed.At(time.Unix(1e9, 0)) }},
		// 13 s + 10 s + 3 s of margin don't fit into 26 s; into a little more they do.
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
			t.Errorf("%s: the text doesn't name the field: %s", c.field, err)
		}
	}
}

func TestNewAcceptsWhatIsJustPossible(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"the defaults":             func(*Config) {},
		"the shortest expiration":  func(c *Config) { c.ExpirationInterval = 26 * time.Second },
		"no read-ahead, no drain":  func(c *Config) { c.ReadAhead, c.DrainTimeout = -1, -1 },
		"no reserve":               func(c *Config) { c.HeapReserve = -1 },
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

func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	c := validConfig().withDefaults()
	if c.Instance == "" || c.MaxItems != 100 || c.PollInterval != 5*time.Second || c.ReadAhead != 4<<20 || c.HeapReserve != 32<<20 ||
		c.AcquireInterval != 17*time.Second || c.RenewInterval != 13*time.Second || c.ExpirationInterval != time.Minute ||
		c.RequestTimeout != 10*time.Second || c.DrainTimeout != 30*time.Second || c.Range != feed.Full() || c.Logger == nil {
		t.Errorf("%+v", c)
	}
}
