package replicate

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instrument offers what the replication counts, beside the metrics of its processors; a
// nil provider: nothing.
//
//	changefeed.replicate.documents  {document}  documents of this process, by what was done: copied, moved, deleted, unsure
//	changefeed.replicate.behind     {LSN}       how far all processes together are behind the source, at the last look
func (r *replication) instrument(provider metric.MeterProvider) (stop func() error, err error) {
	if provider == nil {
		return func() error { return nil }, nil
	}
	meter := provider.Meter("github.com/changefeed-go/changefeed/cmd/changefeed/internal/replicate")
	documents, err1 := meter.Int64ObservableCounter("changefeed.replicate.documents", metric.WithUnit("{document}"),
		metric.WithDescription("Documents of this process, by what was done."))
	behind, err2 := meter.Int64ObservableGauge("changefeed.replicate.behind", metric.WithUnit("{LSN}"),
		metric.WithDescription("How far all processes together are behind the source, at the last look."))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	done := func(what string) metric.MeasurementOption {
		return metric.WithAttributes(attribute.String("done", what))
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(documents, r.writer.copied.Load(), done("copied"))
		o.ObserveInt64(documents, r.writer.moved.Load(), done("moved"))
		o.ObserveInt64(documents, r.writer.deleted.Load(), done("deleted"))
		o.ObserveInt64(documents, r.writer.unsure.Load(), done("unsure"))
		o.ObserveInt64(behind, r.progress.behind.Load())
		return nil
	}, documents, behind)
	if err != nil {
		return nil, err
	}
	return registration.Unregister, nil
}
