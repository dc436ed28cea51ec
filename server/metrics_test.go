package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// collected reads all metrics. It returns the value of each sum and gauge, and the count
// of each histogram, by "name{attributes}".
func collected(t *testing.T, r *metric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	set := func(name string, a attribute.Set, v float64) {
		var labels []string
		for _, kv := range a.ToSlice() {
			labels = append(labels, fmt.Sprintf("%s=%s", kv.Key, kv.Value.String()))
		}
		slices.Sort(labels)
		values[name+"{"+strings.Join(labels, ",")+"}"] = v
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					set(m.Name, p.Attributes, float64(p.Count))
				}
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					set(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					set(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					set(m.Name, p.Attributes, float64(p.Value))
				}
			default:
				t.Errorf("%s is %T", m.Name, d)
			}
		}
	}
	return values
}

func TestMetricsCountRequestsBytesUnitsDocumentsAndPartitions(t *testing.T) {
	reader := metric.NewManualReader()
	ts := newTestServer(t, Options{Metrics: metric.NewMeterProvider(metric.WithReader(reader))}).withOrders()
	const doc = `{"id":"1","pk":"ada"}`
	a := ts.do("POST", orders+"/docs", pk(`["ada"]`), doc).want(http.StatusCreated)
	ts.do("POST", orders+"/docs", pk(`["ada"]`), doc).want(http.StatusConflict)
	ts.do("GET", "/nonsense", headers{"Authorization": ""}, "")
	ts.addFault(Fault{Operation: "read document", Drop: true})
	if !ts.dropped(ts.request("GET", orders+"/docs/1", pk(`["ada"]`), "")) {
		t.Fatal("the connection is not dropped")
	}
	ts.plainAdmin("POST", orderPartitions+"/0/split", "").want(http.StatusOK)
	got := collected(t, reader)
	for name, want := range map[string]float64{
		"changefeed.server.request.duration{operation=create document,status=201}": 1,
		"changefeed.server.request.duration{operation=create document,status=409}": 1,
		"changefeed.server.request.duration{operation=read document,status=0}":     1,
		"changefeed.server.received{operation=create document}":                    float64(2 * len(doc)),
		"changefeed.server.received{operation=delete document}":                    0, // there was none
		"changefeed.server.received{operation=unknown}":                            0, // there was none, either
		"changefeed.store.documents{container=orders,database=shop}":               1,
		"changefeed.store.partitions{container=orders,database=shop}":              2,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v, and there is one: %t; want %v", name, value, ok, want)
		}
	}
	if got["changefeed.server.sent{operation=create document}"] <= float64(len(a.body)) {
		t.Errorf("sent is %v, and one answer alone has %d bytes", got, len(a.body))
	}
	for _, name := range []string{"changefeed.server.request_units{operation=create document}", "changefeed.store.size{container=orders,database=shop}"} {
		if got[name] <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
	}
}

func TestReceivedBytesAreCountedAndAnnouncedBytesAreNot(t *testing.T) {
	reader := metric.NewManualReader()
	ts := newTestServer(t, Options{Metrics: metric.NewMeterProvider(metric.WithReader(reader))}).withOrders()
	const doc = `{"id":"1","pk":"ada"}`
	send := func(length int64, h headers) int {
		r := ts.request("POST", orders+"/docs", together(pk(`["ada"]`), h), doc)
		r.ContentLength = length
		w := httptest.NewRecorder()
		ts.ServeHTTP(w, r)
		return w.Code
	}
	if status := send(99_999_999_999, nil); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body with a huge Content-Length: %d", status)
	}
	if status := send(99_999_999_999, headers{"Authorization": ""}); status != http.StatusUnauthorized {
		t.Errorf("unsigned: %d", status)
	}
	// The body is sent in chunks, without a Content-Length. A fault delays the request,
	// so the body is read before the delay and again, from memory, after it. It must be
	// counted once.
	ts.addFault(Fault{Operation: "create document", Delay: time.Nanosecond})
	if status := send(-1, nil); status != http.StatusCreated {
		t.Errorf("in chunks: %d", status)
	}
	const name = "changefeed.server.received{operation=create document}"
	if got := collected(t, reader)[name]; got != float64(len(doc)) {
		t.Errorf("%s is %v, want %d", name, got, len(doc))
	}
}
