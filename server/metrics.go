package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
)

// metrics holds the OpenTelemetry instruments of the server:
//
//	changefeed.server.request.duration   s    requests by operation and status
//	changefeed.server.received           By   bytes read from bodies of requests, by operation
//	changefeed.server.sent               By   bytes of bodies of answers, by operation
//	changefeed.server.request_units      {RU} request units, by operation
//	changefeed.store.documents           {document}   documents in each container
//	changefeed.store.size                By           size of the documents in each container
//	changefeed.store.partitions          {partition}  partitions of each container
//
// The count of changefeed.server.request.duration is the number of requests. The status
// is 0 if the connection was dropped without an answer.
type metrics struct {
	duration       metric.Float64Histogram
	received, sent metric.Int64Counter
	units          metric.Float64Counter
	// labels caches the attributes of each outcome that has occurred: a
	// map[outcome]metric.MeasurementOption.
	labels sync.Map
}

// outcome is an operation and a status, which are the attributes of a metric. In metrics
// without the attribute status, status is -1.
type outcome struct {
	op     string
	status int
}

// unknownOperation is the operation of requests that are for none.
const unknownOperation = "unknown"

// durationBounds are the bounds of the buckets for request durations, in seconds. They
// range from a read from memory to the usual timeout of a client.
var durationBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60}

// newMetrics creates the instruments of a server. The counters of all operations are there
// from the start, so that the first request shows as growth. It returns nil if p is nil,
// which means no metrics.
func newMetrics(p metric.MeterProvider, db *engine.DB, operations []string) (*metrics, error) {
	if p == nil {
		return nil, nil //nolint:nilnil // nil means no metrics
	}
	meter := p.Meter("github.com/changefeed-go/changefeed/server")
	m := &metrics{}
	var errs [5]error
	m.duration, errs[0] = meter.Float64Histogram("changefeed.server.request.duration", metric.WithUnit("s"),
		metric.WithDescription("How long requests took, by operation and status."), metric.WithExplicitBucketBoundaries(durationBounds...))
	m.received, errs[1] = meter.Int64Counter("changefeed.server.received", metric.WithUnit("By"),
		metric.WithDescription("Bytes received in request bodies."))
	m.sent, errs[2] = meter.Int64Counter("changefeed.server.sent", metric.WithUnit("By"),
		metric.WithDescription("Bytes sent in answers' bodies."))
	m.units, errs[3] = meter.Float64Counter("changefeed.server.request_units", metric.WithUnit("{RU}"),
		metric.WithDescription("What requests cost, in request units."))
	errs[4] = observeContainers(meter, db)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	for _, op := range append(operations[:len(operations):len(operations)], unknownOperation) {
		m.add(context.Background(), op, 0, 0, 0)
	}
	return m, nil
}

// add adds to the counters of an operation.
func (m *metrics) add(ctx context.Context, op string, received, sent int64, units float64) {
	byOp := m.label(outcome{op, -1})
	m.received.Add(ctx, received, byOp)
	m.sent.Add(ctx, sent, byOp)
	m.units.Add(ctx, units, byOp)
}

// observeContainers creates the instruments for the size of the containers. They read the
// store each time the metrics are collected.
func observeContainers(meter metric.Meter, db *engine.DB) error {
	documents, err1 := meter.Int64ObservableGauge("changefeed.store.documents", metric.WithUnit("{document}"),
		metric.WithDescription("Documents in each container."))
	size, err2 := meter.Int64ObservableGauge("changefeed.store.size", metric.WithUnit("By"),
		metric.WithDescription("Bytes that each container's documents take, as they are stored."))
	partitions, err3 := meter.Int64ObservableGauge("changefeed.store.partitions", metric.WithUnit("{partition}"),
		metric.WithDescription("Physical partitions that each container has."))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		return eachContainer(ctx, db, func(c *engine.Container) error {
			stats, err := c.PartitionStats(ctx)
			if err != nil {
				return err
			}
			var items, bytes int64
			for _, p := range stats {
				items, bytes = items+p.Items, bytes+p.Bytes
			}
			id := c.Identity()
			labels := metric.WithAttributes(attribute.String("database", id.Database), attribute.String("container", id.Container))
			o.ObserveInt64(documents, items, labels)
			o.ObserveInt64(size, bytes, labels)
			o.ObserveInt64(partitions, int64(len(stats)), labels)
			return nil
		})
	}, documents, size, partitions)
	return err
}

// eachContainer calls visit for every container of the store. If a container is deleted
// meanwhile, it is skipped.
func eachContainer(ctx context.Context, db *engine.DB, visit func(*engine.Container) error) error {
	databases, err := db.Databases(ctx)
	if err != nil {
		return err
	}
	for _, d := range databases {
		containers, err := db.Containers(ctx, d.ID)
		if err != nil && !errors.Is(err, feed.ErrNotFound) {
			return err
		}
		for _, c := range containers {
			if err := visit(c); err != nil && !errors.Is(err, feed.ErrNotFound) {
				return err
			}
		}
	}
	return nil
}

// record adds a finished request to the metrics. sent is the length of the answer's body
// in bytes. It does nothing if m is nil.
func (m *metrics) record(x *request, sent int64) {
	if m == nil {
		return
	}
	op := x.op
	if op == "" {
		op = unknownOperation
	}
	ctx := context.WithoutCancel(x.r.Context())
	m.duration.Record(ctx, time.Since(x.began).Seconds(), m.label(outcome{op, x.status}))
	m.add(ctx, op, x.received, sent, x.charge)
}

// label returns the attributes for an outcome, from the cache if possible.
func (m *metrics) label(o outcome) metric.MeasurementOption {
	if l, ok := m.labels.Load(o); ok {
		return l.(metric.MeasurementOption) //nolint:errcheck // the map holds nothing else
	}
	labels := []attribute.KeyValue{attribute.String("operation", o.op)}
	if o.status >= 0 {
		labels = append(labels, attribute.Int("status", o.status))
	}
	made := metric.WithAttributeSet(attribute.NewSet(labels...))
	m.labels.Store(o, made)
	return made
}

// countingWriter is an http.ResponseWriter that counts the bytes of the answer's body.
type countingWriter struct {
	http.ResponseWriter
	n int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n += int64(n)
	return n, err
}

// Unwrap returns the writer that w wraps. http.ResponseController calls it.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
