package main

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
)

// countedSource counts the reads of `changefeed tail`; docs/metrics.md describes the instruments.
type countedSource struct {
	*cosmos.Source
	reads, changes metric.Int64Counter
	units          metric.Float64Counter
}

// countReads returns a source that counts the reads of s with instruments of p. If p is
// nil, it returns s.
func countReads(ctx context.Context, s *cosmos.Source, p metric.MeterProvider) (feed.Source, error) {
	if p == nil {
		return s, nil
	}
	meter := p.Meter("github.com/changefeed-go/changefeed/cmd/changefeed")
	c := &countedSource{Source: s}
	var errs [3]error
	c.reads, errs[0] = meter.Int64Counter("changefeed.tail.reads", metric.WithUnit("{read}"), metric.WithDescription("Reads, by outcome."))
	c.changes, errs[1] = meter.Int64Counter("changefeed.tail.changes", metric.WithUnit("{change}"), metric.WithDescription("Changes read."))
	c.units, errs[2] = meter.Float64Counter("changefeed.tail.request_units", metric.WithUnit("{RU}"), metric.WithDescription("What the reads cost, in request units."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	// The counters are there from the start, so that the first failure shows as growth.
	for _, outcome := range []string{"changes", "nothing", "throttled", "gone", "error"} {
		c.reads.Add(ctx, 0, withOutcome(outcome))
	}
	c.changes.Add(ctx, 0)
	c.units.Add(ctx, 0)
	return c, nil
}

func withOutcome(outcome string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("outcome", outcome))
}

// Read implements [feed.Source].
func (c *countedSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	page, err := c.Source.Read(ctx, r)
	if err != nil && ctx.Err() != nil {
		return page, err
	}
	c.reads.Add(ctx, 1, withOutcome(readOutcome(page, err)))
	c.changes.Add(ctx, int64(len(page.Changes)))
	c.units.Add(ctx, page.Charge)
	return page, err
}

func readOutcome(p feed.Page, err error) string {
	if _, gone := errors.AsType[*feed.GoneError](err); gone {
		return "gone"
	}
	if _, throttled := errors.AsType[*feed.ThrottledError](err); throttled {
		return "throttled"
	}
	switch {
	case err != nil:
		return "error"
	case len(p.Changes) == 0:
		return "nothing"
	}
	return "changes"
}
