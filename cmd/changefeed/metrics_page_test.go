package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/replicate"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	rest "github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

// instrument is a metric instrument with the arguments of its creation. scope is the name
// of its meter.
type instrument struct{ scope, name, kind, unit, description string }

// instrumentRecorder is a meter provider. It records the instruments that all its meters
// create, and the attributes of their values.
type instrumentRecorder struct {
	metric.MeterProvider
	reader *sdk.ManualReader

	mu          sync.Mutex // guards both maps while recorded parts run
	instruments map[instrument]bool
	// attributes contains the names of the attributes of each instrument, by scope and
	// name. An instrument without values has no entry.
	attributes map[[2]string]map[string]bool
}

func newInstrumentRecorder() *instrumentRecorder {
	reader := sdk.NewManualReader()
	return &instrumentRecorder{
		MeterProvider: sdk.NewMeterProvider(sdk.WithReader(reader)), reader: reader,
		instruments: map[instrument]bool{}, attributes: map[[2]string]map[string]bool{},
	}
}

func (r *instrumentRecorder) Meter(scope string, o ...metric.MeterOption) metric.Meter {
	return recordingMeter{Meter: r.MeterProvider.Meter(scope, o...), r: r, scope: scope}
}

// collect records the attributes of all current values. It must run before the parts of
// the program that observe values have ended.
func (r *instrumentRecorder) collect(t *testing.T) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.reader.Collect(context.WithoutCancel(t.Context()), &all); err != nil {
		t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			at := [2]string{scope.Scope.Name, m.Name}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				addAttributes(r, at, data.DataPoints)
			case metricdata.Sum[float64]:
				addAttributes(r, at, data.DataPoints)
			case metricdata.Gauge[int64]:
				addAttributes(r, at, data.DataPoints)
			case metricdata.Gauge[float64]:
				addAttributes(r, at, data.DataPoints)
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					r.addSet(at, p.Attributes)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					r.addSet(at, p.Attributes)
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
}

func addAttributes[N int64 | float64](r *instrumentRecorder, at [2]string, points []metricdata.DataPoint[N]) {
	for _, p := range points {
		r.addSet(at, p.Attributes)
	}
}

func (r *instrumentRecorder) addSet(at [2]string, set attribute.Set) {
	if r.attributes[at] == nil {
		r.attributes[at] = map[string]bool{}
	}
	for _, a := range set.ToSlice() {
		r.attributes[at][string(a.Key)] = true
	}
}

// recordingMeter is a meter of instrumentRecorder. It records instruments of the kinds
// that the project uses. If an instrument of another kind has values, the test fails.
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
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	m.r.instruments[instrument{m.scope, name, kind, c.Unit(), c.Description()}] = true
}

func (m recordingMeter) Int64Counter(name string, o ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	m.add(name, "counter", metric.NewInt64CounterConfig(o...))
	return m.Meter.Int64Counter(name, o...)
}

func (m recordingMeter) Float64Counter(name string, o ...metric.Float64CounterOption) (metric.Float64Counter, error) {
	m.add(name, "counter", metric.NewFloat64CounterConfig(o...))
	return m.Meter.Float64Counter(name, o...)
}

func (m recordingMeter) Int64UpDownCounter(name string, o ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	m.add(name, "up-down counter", metric.NewInt64UpDownCounterConfig(o...))
	return m.Meter.Int64UpDownCounter(name, o...)
}

func (m recordingMeter) Int64Histogram(name string, o ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	m.add(name, "histogram", metric.NewInt64HistogramConfig(o...))
	return m.Meter.Int64Histogram(name, o...)
}

func (m recordingMeter) Float64Histogram(name string, o ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	m.add(name, "histogram", metric.NewFloat64HistogramConfig(o...))
	return m.Meter.Float64Histogram(name, o...)
}

func (m recordingMeter) Int64ObservableCounter(name string, o ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	m.add(name, "counter", metric.NewInt64ObservableCounterConfig(o...))
	return m.Meter.Int64ObservableCounter(name, o...)
}

func (m recordingMeter) Int64ObservableGauge(name string, o ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	m.add(name, "gauge", metric.NewInt64ObservableGaugeConfig(o...))
	return m.Meter.Int64ObservableGauge(name, o...)
}

func (m recordingMeter) Float64ObservableGauge(name string, o ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	m.add(name, "gauge", metric.NewFloat64ObservableGaugeConfig(o...))
	return m.Meter.Float64ObservableGauge(name, o...)
}

// metricSources maps the scope of each meter to the introduction of its section on the
// page.
var metricSources = map[string]string{
	"github.com/changefeed-go/changefeed":                                   "The processor: `Config.Metrics`, and `--metrics` of `replicate` and `demo`",
	"github.com/changefeed-go/changefeed/estimator":                         "The estimator: `estimator.Config.Metrics`, and `--metrics` of `lag --watch`",
	"github.com/changefeed-go/changefeed/server":                            "The server: `server.Options.Metrics`, and `changefeed serve`",
	"github.com/changefeed-go/changefeed/cmd/changefeed":                    "`changefeed tail --follow --metrics`",
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/replicate": "`changefeed replicate --metrics`",
}

// metricAttributes maps the scope of each meter to the meanings of its attributes, by
// name.
var metricAttributes = map[string]map[string]string{
	"github.com/changefeed-go/changefeed": {
		"processor": "the processor's name, `Config.Processor`",
		"outcome":   "`ok` if the handler returned nil, and `error` otherwise",
		"event": "`acquired`: the host begins to work on the lease. The other values say why that work ended. `shutdown`: the host was stopped. " +
			"`handed over`: another host wanted the lease, for balance. `lost`: the host could not renew the lease in time, or another host has it. " +
			"`gone`: the partition was split or merged. `shadowed`: an older lease covers the same range until a split is complete. " +
			"`abandoned`: the lease could not be released, so it expires",
		"origin":    "the part that failed: `handler`, `source` (the monitored container), `leases` (the lease container), `letters` (the letters container) or `other`",
		"state":     "`dead`: the handler failed with the change as often as it may. `parked`: the change waits behind an earlier letter",
		"throttled": "`true` if the request failed only because the service throttled it, and `false` otherwise",
		"container": "`monitored` or `leases` (the lease container)",
	},
	"github.com/changefeed-go/changefeed/estimator": {
		"processor": "the processor's name, `Config.Processor`",
		"lease":     "the lease token, which names the lease by its partition's id or by its range",
		"state": "each lease counts as `owned` or `free`, and perhaps also as `unknown` (its lag is unknown), " +
			"`failed` (its lag is unknown because a read failed), `splitting` (other leases are replacing it after a split or a merge) or `stopped` (its handler has stopped it). " +
			"But a lease that no host uses, because another one's range contains its own, counts only as `left_over`",
	},
	"github.com/changefeed-go/changefeed/server": {
		"operation": "what the request asks for, such as `read document`, or `unknown` if the server does not recognise it",
		"status":    "the answer's HTTP status, or 0 if the connection was dropped",
		"database":  "the database's name",
		"container": "the container's name",
	},
	"github.com/changefeed-go/changefeed/cmd/changefeed": {
		"outcome": "`changes` if the read returned changes, and `nothing` if it returned none. A failed read has `throttled`, `gone` (the partition was split or merged) or `error`",
	},
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/replicate": {
		"done": "what happened to the document: `copied` (written), `moved` (also deleted under its old key), `deleted`, or `unsure` (a copy under an old key may still exist)",
	},
}

func TestMetricsPageIsCurrent(t *testing.T) {
	recorder := newInstrumentRecorder()
	synctest.Test(t, func(t *testing.T) { recordProcessor(t, recorder) })
	recordServer(t, recorder)
	recordCommands(t, recorder)

	var page strings.Builder
	page.WriteString("# Metrics\n\nSet `Config.Metrics`, and a processor exports the OpenTelemetry instruments below. So do estimators\n" +
		"and servers, and the command's long-running subcommands with `--metrics`. To be told when a\n" +
		"processor falls behind, alert on `changefeed.estimator.age`.\n\n" +
		"`make pages` writes this page from the instruments and their values' attributes.\n\n" +
		"A Prometheus endpoint shows the attributes as labels, but changes an instrument's name:\n" +
		"dots become underscores, the unit is appended, and counters end in `_total`. Every counter\n" +
		"exists from the start with the value 0, so an alert may rely on it.\n\n" +
		"This is how a program shows its metrics at /metrics; [examples/lag](../examples/lag/main.go)\n" +
		"is a whole one:\n\n" +
		"```go\n" +
		"registry := prometheus.NewRegistry()                                         // github.com/prometheus/client_golang/prometheus\n" +
		"exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry)) // go.opentelemetry.io/otel/exporters/prometheus\n" +
		"if err != nil {\n" +
		"\treturn err\n" +
		"}\n" +
		"config.Metrics = metric.NewMeterProvider(metric.WithReader(exporter))        // go.opentelemetry.io/otel/sdk/metric\n" +
		"http.Handle(\"/metrics\", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))\n" +
		"go http.ListenAndServe(\"127.0.0.1:9090\", nil)\n" +
		"```\n\n" +
		"The monitored container is the one whose changes are read. A lease is a document that\n" +
		"names a range of its keys, the host that owns the range, and the position reached in it.\n" +
		"A lease's lag is how many transactions come after that position.\n")
	instruments := slices.SortedFunc(maps.Keys(recorder.instruments), func(a, b instrument) int {
		return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.name, b.name))
	})
	for _, scope := range slices.Sorted(maps.Keys(metricSources)) {
		recorder.writeScope(t, &page, scope, instruments)
	}
	for _, i := range instruments {
		if metricSources[i.scope] == "" {
			t.Errorf("no part of the page has the meter %s", i.scope)
		}
		delete(recorder.attributes, [2]string{i.scope, i.name})
	}
	for at := range recorder.attributes {
		t.Errorf("%s of %s has values, but recordingMeter does not record its kind", at[1], at[0])
	}
	comparePage(t, "metrics.md", page.String())
}

// writeScope writes the page's section about one meter, with tables of its instruments
// and their attributes.
func (r *instrumentRecorder) writeScope(t *testing.T, page *strings.Builder, scope string, instruments []instrument) {
	t.Helper()
	fmt.Fprintf(page, "\n## %s\n\n| instrument | kind | unit | attributes | meaning |\n|---|---|---|---|---|\n", metricSources[scope])
	all, found := map[string]bool{}, false
	for _, i := range instruments {
		if i.scope != scope {
			continue
		}
		found = true
		attributes, measured := r.attributes[[2]string{scope, i.name}]
		if !measured || i.unit == "" || i.description == "" {
			t.Errorf("%s has no values, no unit or no description", i.name)
		}
		maps.Copy(all, attributes)
		names := slices.Sorted(maps.Keys(attributes))
		fmt.Fprintf(page, "| `%s` | %s | %s | %s | %s |\n", i.name, i.kind, i.unit, cmp.Or(strings.Join(names, ", "), "none"), i.description)
	}
	if !found {
		t.Errorf("the meter %s has no instruments", scope)
	}
	page.WriteString("\n| attribute | values |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if metricAttributes[scope][name] == "" {
			t.Errorf("the attribute %s of %s has no meaning", name, scope)
		}
		fmt.Fprintf(page, "| `%s` | %s |\n", name, metricAttributes[scope][name])
	}
	for name := range metricAttributes[scope] {
		if !all[name] {
			t.Errorf("no value of %s has the attribute %s", scope, name)
		}
	}
}

// recordProcessor runs a processor whose handler fails once, and an estimator, to record
// their instruments.
func recordProcessor(t *testing.T, r *instrumentRecorder) {
	t.Helper()
	source, leases := memory.NewSource(memory.Options{}), memory.NewLeases(nil)
	if err := source.Upsert(feed.PartitionKey{"ada"}, `{"id":"1","customer":"ada"}`); err != nil {
		t.Fatal(err)
	}
	failed := false
	p, err := changefeed.New(changefeed.Config{
		Processor: "p", Source: source, Leases: leases, Metrics: r, Start: feed.Beginning(), Logger: slog.New(slog.DiscardHandler),
		Handler: changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error {
			if !failed {
				failed = true
				return errors.New("the first call fails")
			}
			return nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := estimator.New(estimator.Config{
		Processor: "p", Source: source, Leases: leases, Letters: memory.NewLetters(), Metrics: r,
		Handler: func(context.Context, estimator.Report) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- p.Run(ctx) }()
	go func() { ended <- e.Run(ctx) }()
	time.Sleep(time.Minute) // fake time
	r.collect(t)
	cancel()
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Fatal(err)
	}
}

// recordServer runs a server over a store with one container and sends it a request, to
// record its instruments.
func recordServer(t *testing.T, r *instrumentRecorder) {
	t.Helper()
	db := changefeedtest.NewStore(t)
	changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
	handler, err := rest.New(db, rest.Options{Metrics: r})
	if err != nil {
		t.Fatal(err)
	}
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	r.collect(t)
}

// recordCommands reads a container as `tail` does and copies it as `replicate` does, to
// record their instruments.
func recordCommands(t *testing.T, r *instrumentRecorder) {
	t.Helper()
	account, err := connect.NewAccount("").OpenSettings(connect.Settings{Data: shop(t, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := account.Close(); err != nil {
			t.Error(err)
		}
	}()
	source, err := countReads(t.Context(), account.Source("shop", "orders", cosmos.SourceOptions{}), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.Read(t.Context(), feed.Request{Key: feed.PartitionKey{"ada"}, From: feed.Beginning()}); err != nil {
		t.Fatal(err)
	}
	at := func(name string) replicate.Container {
		return replicate.Container{Account: account, Database: "shop", Container: name}
	}
	if err := replicate.Run(t.Context(), replicate.Config{
		From: at("orders"), To: at("copy"), Leases: at("leases"), Create: true, UntilCaughtUp: true,
		Out: collectingWriter{t, r}, Metrics: r,
	}); err != nil {
		t.Fatal(err)
	}
}

// collectingWriter is the output of a replication. It calls collect for each line,
// because the instruments have values only while the replication runs.
type collectingWriter struct {
	t *testing.T
	r *instrumentRecorder
}

func (w collectingWriter) Write(line []byte) (int, error) {
	w.r.collect(w.t)
	return len(line), nil
}
