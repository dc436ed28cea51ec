package changefeed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
)

// A producer writes its trace context into the document, so the span in which the handler
// processes the document links to the producer's.
func ExampleConfig_traces() {
	exported := tracetest.NewInMemoryExporter() // a service exports to a collector, by OTLP
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exported))
	tracer := provider.Tracer("shop")

	orders := memory.NewSource(memory.Options{})
	ctx, place := tracer.Start(context.Background(), "place order")
	order := struct {
		ID       string                 `json:"id"`
		Customer string                 `json:"customer"`
		Trace    propagation.MapCarrier `json:"trace"`
	}{"1", "ada", propagation.MapCarrier{}}
	propagation.TraceContext{}.Inject(ctx, order.Trace) // sets traceparent and, if there is one, tracestate
	document, err := json.Marshal(order)
	if err != nil {
		log.Fatal(err)
	}
	if err := orders.Upsert(feed.PartitionKey{"ada"}, string(document)); err != nil {
		log.Fatal(err)
	}
	place.End()

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	processor, err := changefeed.New(changefeed.Config{
		Processor:   "mailer",
		Source:      orders,
		Leases:      memory.NewLeases(nil),
		Start:       feed.Beginning(),
		Traces:      provider,
		TraceParent: "/trace/traceparent",
		Handler: changefeed.HandlerFunc(func(ctx context.Context, _ *changefeed.Batch) error {
			_, send := tracer.Start(ctx, "send mail") // a child of the span of this call
			defer send.End()
			stop() // a service runs until a signal
			return nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := processor.Run(ctx); err != nil {
		log.Fatal(err)
	}

	for _, span := range exported.GetSpans() {
		for _, link := range span.Links {
			linked := link.SpanContext.SpanID() == place.SpanContext().SpanID()
			fmt.Printf("%q links to the span of the order: %t\n", span.Name, linked)
		}
	}
	// Output:
	// "process sim/items" links to the span of the order: true
}
