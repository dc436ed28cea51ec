package changefeed

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// figures returns the current values of the metrics. A key is the metric's name with its
// attributes, except "processor". The value of a histogram is its number of measurements.
func figures(t *testing.T, reader *metric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.WithoutCancel(t.Context()), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	key := func(name string, labels attribute.Set) string {
		for _, l := range labels.ToSlice() {
			if l.Key == "processor" {
				if l.Value.AsString() != "test" {
					t.Errorf("%s has processor %q", name, l.Value.AsString())
				}
				continue
			}
			name += " " + l.Value.String()
		}
		return name
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					found[key(m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					found[key(m.Name, p.Attributes)] = p.Value
				}
			case metricdata.Histogram[int64]: // the sum, because the values are whole numbers
				for _, p := range data.DataPoints {
					found[key(m.Name, p.Attributes)] = float64(p.Sum)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					found[key(m.Name, p.Attributes)] = float64(p.Count)
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	return found
}

// costly is a fakeStore that charges 10 request units for each write.
type costly struct{ *fakeStore }

func (c costly) Open(context.Context, lease.Key) (lease.Store, error) { return c, nil }
func (c costly) Charged() float64                                     { return 10 * float64(len(c.sent())) }

func TestMetricsCountTheWorkOfAProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		source, leases := onePartition(250), newFakeStore()
		source.fail = func(n int, _ feed.Request) error {
			switch n {
			case 2:
				return errors.New("503")
			case 3:
				return &feed.ThrottledError{RetryAfter: time.Second}
			}
			return nil
		}
		h := &collector{fails: []error{errors.New("no"), errors.New("still no")}}
		r := start(t, Config{
			Source: source, Leases: costly{leases}, Handler: h, Start: fromBeginning, PollInterval: 10 * time.Second,
			Metrics: metric.NewMeterProvider(metric.WithReader(reader)),
		})
		pause(30 * time.Second)
		if got := figures(t, reader)["changefeed.processor.leases"]; got != 1 {
			t.Errorf("while it runs, %v leases are owned", got)
		}
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		reads := float64(len(source.requests()) - 2) // without the two reads that failed
		got := figures(t, reader)
		for name, want := range map[string]float64{
			"changefeed.processor.changes":                 250,
			"changefeed.processor.redeliveries":            200, // the first page of 100 changes, two times
			"changefeed.processor.batch.duration ok":       3,
			"changefeed.processor.batch.duration error":    2,
			"changefeed.processor.batch.attempt":           1 + 2 + 3 + 1 + 1,
			"changefeed.processor.retry.delay":             2,
			"changefeed.processor.stopped":                 0,
			"changefeed.processor.checkpoints":             3,
			"changefeed.processor.leases":                  0,
			"changefeed.processor.moves acquired":          1,
			"changefeed.processor.moves shutdown":          1,
			"changefeed.processor.errors handler false":    2,
			"changefeed.processor.errors source false":     1,
			"changefeed.processor.errors source true":      1,
			"changefeed.processor.request_units monitored": 2 * reads,
			"changefeed.processor.request_units leases":    10 * float64(len(leases.sent())),

			// What has not happened yet is there as well.
			"changefeed.processor.errors leases false":  0,
			"changefeed.processor.errors leases true":   0,
			"changefeed.processor.errors letters false": 0,
			"changefeed.processor.errors letters true":  0,
			"changefeed.processor.letters dead":         0,
			"changefeed.processor.letters parked":       0,
			"changefeed.processor.redriven":             0,
			"changefeed.processor.parked":               0,
			"changefeed.processor.paused":               0,
			"changefeed.processor.errors other false":   0,
			"changefeed.processor.moves handed over":    0,
			"changefeed.processor.moves lost":           0,
			"changefeed.processor.moves gone":           0,
			"changefeed.processor.moves shadowed":       0,
			"changefeed.processor.moves abandoned":      0,
		} {
			if value, ok := got[name]; !ok || value != want {
				t.Errorf("%s is %v, and there is one: %t; want %v", name, value, ok, want)
			}
			delete(got, name)
		}
		if len(got) > 0 {
			t.Errorf("there is also %v", got)
		}
	})
}

func TestErrorsAreCountedByOrigin(t *testing.T) {
	for err, want := range map[error]string{
		&HandlerError{Op: "handle", Err: errors.New("x")}:     "handler",
		&SourceError{Op: "read 0", Err: feed.ErrNotFound}:     "source",
		&LeaseStoreError{Op: "renew 0", Err: errors.New("x")}: "leases",
		&ConfigError{Field: "Mode", Problem: "is another's"}:  "other",
	} {
		if got := origin(err); got != want {
			t.Errorf("%v is of %s", err, got)
		}
	}
}

// The figure of stopped leases counts the owned ones, whoever stopped them.
func TestMetricsCountStoppedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		cfg := Config{
			Source: onePartition(3), Leases: newFakeStore(), Handler: &deliveries{results: []error{Stop(errors.New("no"))}},
			Start: fromBeginning, Metrics: metric.NewMeterProvider(metric.WithReader(reader)),
		}
		expect := func(when string, stopped, failures float64) {
			t.Helper()
			pause(20 * time.Second)
			got := figures(t, reader)
			if got["changefeed.processor.stopped"] != stopped || got["changefeed.processor.errors handler false"] != failures {
				t.Errorf("%s: %v", when, got)
			}
		}
		r := start(t, cfg)
		expect("after the stop", 1, 1)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		expect("without the lease", 0, 1)
		start(t, cfg)
		expect("with the stopped lease of another host", 1, 1)
		cfg.Leases.(*fakeStore).edit("0", resume)
		expect("after it was resumed", 0, 1)
	})
}
