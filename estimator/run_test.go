package estimator_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// gauges returns the current values of the metrics. A key is the metric's name with its
// attributes, except "processor".
func gauges(t *testing.T, reader *metric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.WithoutCancel(t.Context()), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			var points []metricdata.DataPoint[float64]
			switch data := m.Data.(type) {
			case metricdata.Gauge[float64]:
				points = data.DataPoints
			case metricdata.Sum[float64]:
				points = data.DataPoints
			}
			for _, p := range points {
				name := m.Name
				for _, l := range p.Attributes.ToSlice() {
					if l.Key != "processor" {
						name += " " + l.Value.String()
					}
				}
				found[name] = p.Value
			}
		}
	}
	return found
}

func TestRunReportsAndExportsEachInterval(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, false)
		w.write(10)
		w.create(whole(`"4"`))
		reader := metric.NewManualReader()
		var reports []estimator.Report
		var told []error
		refused := errors.New("not now")
		e := w.estimator(estimator.Config{
			Interval: 10 * time.Second, Metrics: metric.NewMeterProvider(metric.WithReader(reader)),
			Handler: func(_ context.Context, r estimator.Report) error {
				if reports = append(reports, r); len(reports) == 2 {
					return refused
				}
				return nil
			},
			OnError: func(err error) { told = append(told, err) },
		})
		ctx, stop := context.WithCancel(w.ctx)
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if len(reports) != 3 || reports[2].Total.LSNs != 6 || reports[2].Total.Age != 20*time.Second {
			t.Errorf("%d reports; %+v", len(reports), reports)
		}
		if len(told) != 1 || !errors.Is(told[0], refused) {
			t.Errorf("OnError received %v", told)
		}
		got := gauges(t, reader)
		for name, want := range map[string]float64{
			"changefeed.estimator.lease.lag 0": 6, "changefeed.estimator.lease.age 0": 20,
			"changefeed.estimator.lag": 6, "changefeed.estimator.age": 20,
			"changefeed.estimator.leases owned": 0, "changefeed.estimator.leases free": 1, "changefeed.estimator.leases unknown": 0,
			"changefeed.estimator.leases failed": 0, "changefeed.estimator.leases splitting": 0,
			"changefeed.estimator.leases stopped":   0,
			"changefeed.estimator.leases left_over": 0,
			"changefeed.estimator.request_units":    3 * reports[0].Total.Charge,
		} {
			if got[name] != want {
				t.Errorf("%s is %v, not %v", name, got[name], want)
			}
			delete(got, name)
		}
		if len(got) > 0 {
			t.Errorf("unexpected gauges: %v", got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := e.Run(w.ctx); !errors.Is(err, changefeed.ErrUsed) {
			t.Errorf("a second Run: %v", err)
		}
		if got := gauges(t, reader); len(got) > 1 { // only the counter of request units remains
			t.Errorf("gauges after Run: %v", got)
		}
	})
}

func TestGaugesHaveNoOldValuesWhenAMeasurementFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, false)
		w.create(whole(`"0"`), lease.Lease{Token: "1", PartitionID: "1", Continuation: `"0"`})
		w.source.answer = func(r feed.Request) (feed.Page, error) {
			if r.Partition.ID == "1" {
				return feed.Page{}, errors.New("503")
			}
			return feed.Page{End: 1}, nil
		}
		leases := &failing{Container: w.leases}
		reader := metric.NewManualReader()
		var told []error
		e, err := estimator.New(estimator.Config{
			Processor: "projector", Source: w.source, Leases: leases, Metrics: metric.NewMeterProvider(metric.WithReader(reader)),
			OnError: func(err error) { told = append(told, err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(w.ctx)
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		got := gauges(t, reader)
		if _, has := got["changefeed.estimator.lease.lag 1"]; has || got["changefeed.estimator.leases failed"] != 1 {
			t.Errorf("a lease that could not be read: %v", got)
		}
		if _, has := got["changefeed.estimator.lease.lag 0"]; !has {
			t.Errorf("a lease that was read: %v", got)
		}
		down := errors.New("503")
		leases.set(down)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := gauges(t, reader); len(got) > 1 || len(told) != 1 || !errors.Is(told[0], down) {
			t.Errorf("OnError received %v; the gauges are %v", told, got)
		}
		leases.set(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := gauges(t, reader); len(got) < 5 || len(told) != 1 {
			t.Errorf("OnError received %v; the gauges are %v", told, got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// failing is a lease container whose List returns err, if err is not nil.
type failing struct {
	lease.Container

	mu  sync.Mutex // guards err
	err error
}

func (f *failing) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *failing) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *failing) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	s, err := f.Container.Open(ctx, k)
	return &failingStore{Store: s, f: f}, err
}

type failingStore struct {
	lease.Store
	f *failing
}

func (s *failingStore) List(ctx context.Context) (lease.Listing, error) {
	if err := s.f.get(); err != nil {
		return lease.Listing{}, err
	}
	return s.Store.List(ctx)
}

// For a processor without leases, Run must call Handler with a report, so that a scaler
// starts the first host.
func TestRunReportsAProcessorWithoutLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, false)
		var reports []estimator.Report
		var told []error
		e := w.estimator(estimator.Config{
			Handler: func(_ context.Context, r estimator.Report) error { reports = append(reports, r); return nil },
			OnError: func(err error) { told = append(told, err) },
		})
		ctx, stop := context.WithCancel(w.ctx)
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(reports) != 1 || reports[0].Total.Reference != 1 || len(told) != 1 || !errors.Is(told[0], feed.ErrNotFound) {
			t.Errorf("%+v, told %v", reports, told)
		}
		w.create(whole(`"0"`))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(reports) != 2 || reports[1].Total.Leases != 1 || len(told) != 1 {
			t.Errorf("%+v, told %v", reports, told)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
