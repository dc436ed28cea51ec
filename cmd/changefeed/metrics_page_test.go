package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/replicate"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/estimator"
	rest "github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
)

// instrument is an instrument as its meter received it.
type instrument struct{ scope, name, kind, unit, description string }

// instrumentRecorder is a provider that records the instruments of all meters.
type instrumentRecorder struct {
	noop.MeterProvider
	instruments map[instrument]bool
}

func (r *instrumentRecorder) Meter(scope string, _ ...metric.MeterOption) metric.Meter {
	return recordingMeter{r: r, scope: scope}
}

// recordingMeter has the kinds of instruments that the project uses. The nil interface panics
// for another kind.
type recordingMeter struct {
	metric.Meter
	r     *instrumentRecorder
	scope string
}

func (m recordingMeter) add(name, kind string, c interface {
	Unit() string
	Description() string
},
) {
	m.r.instruments[instrument{m.scope, name, kind, c.Unit(), c.Description()}] = true
}

func (m recordingMeter) Int64Counter(name string, o ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	m.add(name, "counter", metric.NewInt64CounterConfig(o...))
	return noop.Int64Counter{}, nil
}

func (m recordingMeter) Float64Counter(name string, o ...metric.Float64CounterOption) (metric.Float64Counter, error) {
	m.add(name, "counter", metric.NewFloat64CounterConfig(o...))
	return noop.Float64Counter{}, nil
}

func (m recordingMeter) Int64UpDownCounter(name string, o ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	m.add(name, "up-down counter", metric.NewInt64UpDownCounterConfig(o...))
	return noop.Int64UpDownCounter{}, nil
}

func (m recordingMeter) Float64Histogram(name string, o ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	m.add(name, "histogram", metric.NewFloat64HistogramConfig(o...))
	return noop.Float64Histogram{}, nil
}

func (m recordingMeter) Int64ObservableCounter(name string, o ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	m.add(name, "counter", metric.NewInt64ObservableCounterConfig(o...))
	return noop.Int64ObservableCounter{}, nil
}

func (m recordingMeter) Int64ObservableGauge(name string, o ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	m.add(name, "gauge", metric.NewInt64ObservableGaugeConfig(o...))
	return noop.Int64ObservableGauge{}, nil
}

func (m recordingMeter) Float64ObservableGauge(name string, o ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	m.add(name, "gauge", metric.NewFloat64ObservableGaugeConfig(o...))
	return noop.Float64ObservableGauge{}, nil
}

func (m recordingMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return noop.Registration{}, nil
}

// metricSources are the parts of the page, by the scope of their meter.
var metricSources = map[string]string{
	"github.com/changefeed-go/changefeed":                                   "The processor: `Config.Metrics`, and `--metrics` of `replicate` and `demo`",
	"github.com/changefeed-go/changefeed/estimator":                         "The estimator: `estimator.Config.Metrics`, and `--metrics` of `lag --watch`",
	"github.com/changefeed-go/changefeed/server":                            "The server: `server.Options.Metrics`, and `changefeed serve`",
	"github.com/changefeed-go/changefeed/cmd/changefeed":                    "`changefeed tail --follow --metrics`",
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/replicate": "`changefeed replicate --metrics`",
}

func TestMetricsPageIsCurrent(t *testing.T) {
	recorder := &instrumentRecorder{instruments: map[instrument]bool{}}
	recordProcessor(t, recorder)
	recordServer(t, recorder)
	recordCommands(t, recorder)

	var page strings.Builder
	page.WriteString("# Metrics\n\n`make pages` generates this page from the instruments that the packages create. A Prometheus\n" +
		"endpoint replaces dots by underscores, appends the unit, and appends `_total` to counters.\n")
	scope := ""
	for _, i := range slices.SortedFunc(maps.Keys(recorder.instruments), func(a, b instrument) int {
		return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.name, b.name))
	}) {
		if i.scope != scope {
			scope = i.scope
			if metricSources[scope] == "" {
				t.Errorf("no part of the page has the meter %s", scope)
			}
			fmt.Fprintf(&page, "\n## %s\n\n| instrument | kind | unit | meaning |\n|---|---|---|---|\n", metricSources[scope])
		}
		if i.unit == "" || i.description == "" {
			t.Errorf("%s has no unit or no description", i.name)
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", i.name, i.kind, i.unit, i.description)
	}
	for scope := range metricSources {
		if !strings.Contains(page.String(), "\n## "+metricSources[scope]+"\n") {
			t.Errorf("the meter %s has no instruments", scope)
		}
	}
	comparePage(t, "metrics.md", page.String())
}

// recordProcessor creates a processor and runs an estimator.
func recordProcessor(t *testing.T, p metric.MeterProvider) {
	t.Helper()
	source, leases := memory.NewSource(memory.Options{}), memory.NewLeases(nil)
	if _, err := changefeed.New(changefeed.Config{
		Processor: "p", Source: source, Leases: leases, Metrics: p,
		Handler: changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error { return nil }),
	}); err != nil {
		t.Fatal(err)
	}
	e, err := estimator.New(estimator.Config{
		Processor: "p", Source: source, Leases: leases, Metrics: p,
		Handler: func(context.Context, estimator.Report) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func recordServer(t *testing.T, p metric.MeterProvider) {
	t.Helper()
	db, err := store.OpenMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := rest.New(db, rest.Options{Metrics: p}); err != nil {
		t.Fatal(err)
	}
}

// recordCommands reads a container as tail does, and copies it as replicate does.
func recordCommands(t *testing.T, p metric.MeterProvider) {
	t.Helper()
	account, err := connect.OpenSettings(t.Context(), connect.Settings{Data: shop(t, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := account.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := countReads(account.Source("shop", "orders", cosmos.SourceOptions{}), p); err != nil {
		t.Fatal(err)
	}
	at := func(name string) replicate.Container {
		return replicate.Container{Account: account, Database: "shop", Container: name}
	}
	if err := replicate.Run(t.Context(), replicate.Config{
		From: at("orders"), To: at("copy"), Leases: at("leases"), Create: true, UntilCaughtUp: true, Out: io.Discard, Metrics: p,
	}); err != nil {
		t.Fatal(err)
	}
}
