package changefeed

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
	"github.com/changefeed-go/changefeed/internal/keypath"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// traces makes the OpenTelemetry spans of a host, by the semantic conventions for messaging.
// docs/traces.md describes them to users.
//
//	read        a read that returned changes, or failed             client
//	process     a call of the handler; its context carries the span consumer
//	checkpoint  a lease write whose position moves over batches     client
//	            that the handler has handled or checkpointed in a span
//
// A read and a call of the handler begin traces of their own, even if Run's context has a span,
// because that one would last as long as the process. A checkpoint continues the trace of the
// latest batch that it covers.
//
// A nil *traces makes no spans and allocates nothing. Spans begin and end on the goroutines that
// make the calls, and never on a worker's, which must not wait for the user's exporter.
type traces struct {
	tracer trace.Tracer
	// parent and state lead to the traceparent and the tracestate in a document. Without
	// Config.TraceParent they are empty.
	parent, state []string
	// Each has what all spans of one operation have in common.
	read, process, checkpoint operation
}

// operation is the name of a kind of span, and the options with which each begins.
type operation struct {
	name    string
	options []trace.SpanStartOption
}

// maxLinks bounds the links of a span. It is the default limit of OpenTelemetry's SDKs, which
// would drop the others.
const maxLinks = 128

// These are the attributes for which the conventions have no name.
const (
	attemptKey  = attribute.Key("messaging.changefeed.attempt")
	firstLSNKey = attribute.Key("messaging.changefeed.lsn.first")
	lastLSNKey  = attribute.Key("messaging.changefeed.lsn.last")
	unitsKey    = attribute.Key("messaging.changefeed.request_units")
)

// newTraces returns the spans of the host owner, or nil if cfg has no provider. Each span names
// the monitored container by its identity.
func newTraces(cfg Config, identity feed.Identity, owner string) *traces {
	if cfg.Traces == nil {
		return nil
	}
	t := &traces{tracer: cfg.Traces.Tracer("github.com/changefeed-go/changefeed", trace.WithSchemaURL(semconv.SchemaURL))}
	if names, _ := keypath.Parse(cfg.TraceParent); len(names) > 0 { // Config was validated
		t.parent, t.state = names, slices.Clone(names)
		t.state[len(names)-1] = "tracestate"
	}
	destination := identity.Database + "/" + identity.Container
	of := func(name string, typ attribute.KeyValue, kind trace.SpanKind) operation {
		return operation{name + " " + destination, []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(
			semconv.MessagingSystemKey.String("changefeed"), semconv.MessagingOperationName(name), typ,
			semconv.MessagingDestinationName(destination), semconv.ServerAddress(identity.AccountHost),
			semconv.MessagingConsumerGroupName(cfg.Processor), semconv.MessagingClientID(owner),
		)}}
	}
	t.read = of("read", semconv.MessagingOperationTypeReceive, trace.SpanKindClient)
	t.process = of("process", semconv.MessagingOperationTypeProcess, trace.SpanKindConsumer)
	t.checkpoint = of("checkpoint", semconv.MessagingOperationTypeSettle, trace.SpanKindClient)
	return t
}

// start begins a span of operation o on the lease with the token.
func (t *traces) start(ctx context.Context, o operation, token string, attempt int, more ...trace.SpanStartOption) (context.Context, trace.Span) {
	options := append(slices.Clip(o.options), trace.WithAttributes(
		semconv.MessagingDestinationPartitionID(token), attemptKey.Int(attempt)))
	return t.tracer.Start(ctx, o.name, append(options, more...)...)
}

// ofChanges returns an option for a span with changes. There is at least one.
func ofChanges(changes []feed.Change) trace.SpanStartOption {
	return trace.WithAttributes(semconv.MessagingBatchMessageCount(len(changes)),
		firstLSNKey.Int64(changes[0].LSN), lastLSNKey.Int64(changes[len(changes)-1].LSN))
}

// endSpan ends span with err, which may be nil.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		span.SetAttributes(semconv.ErrorType(cause(err)))
	}
	span.End()
}

// cause returns the error of the user's code in err, or else err.
func cause(err error) error {
	if failure, ok := errors.AsType[*HandlerError](err); ok && failure.Err != nil {
		return failure.Err
	}
	return err
}

// didRead records a read that began at began and returned page and err. An idle lease reads
// all the time, so an empty page makes no span: the span begins when the answer is known. Neither
// does a partition that is gone, or the end of ctx, because nothing has failed then.
func (t *traces) didRead(ctx context.Context, token string, began time.Time, attempt int, page feed.Page, err error) {
	if t == nil || err == nil && len(page.Changes) == 0 || err != nil && ctx.Err() != nil {
		return
	}
	if _, gone := errors.AsType[*feed.GoneError](err); gone {
		return
	}
	more := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithTimestamp(began)}
	if err == nil {
		more = append(more, ofChanges(page.Changes), trace.WithAttributes(unitsKey.Float64(page.Charge)))
	}
	_, span := t.start(ctx, t.read, token, attempt, more...)
	endSpan(span, err)
}

// handling begins the span of a call of the handler with b, and returns the context for the
// handler. The span is nil if there are no traces.
func (t *traces) handling(ctx context.Context, token string, b *queuedBatch) (context.Context, trace.Span) {
	if t == nil {
		return ctx, nil
	}
	return t.start(ctx, t.process, token, b.attempts, trace.WithNewRoot(), ofChanges(b.Changes), trace.WithLinks(t.producers(b.Changes)...))
}

// handled ends the span of a call of the handler that returned err. ErrGap is no failure.
func (t *traces) handled(span trace.Span, err error) {
	if t == nil {
		return
	}
	if failure, ok := errors.AsType[*HandlerError](err); ok && failure.gap {
		err = nil
	}
	endSpan(span, err)
}

// producers returns links to the spans that wrote the changes, each once, and at most maxLinks.
func (t *traces) producers(changes []feed.Change) []trace.Link {
	var links []trace.Link
	for i := range changes {
		if len(t.parent) == 0 || len(links) == maxLinks {
			break
		}
		ctx := propagation.TraceContext{}.Extract(context.Background(), documentCarrier{t, changes[i].Current})
		if span := trace.SpanContextFromContext(ctx); span.IsValid() && !slices.ContainsFunc(links, linksTo(span)) {
			links = append(links, trace.Link{SpanContext: span})
		}
	}
	return links
}

// linksTo returns a function that reports whether a link leads to span.
func linksTo(span trace.SpanContext) func(trace.Link) bool {
	return func(l trace.Link) bool {
		return l.SpanContext.TraceID() == span.TraceID() && l.SpanContext.SpanID() == span.SpanID()
	}
}

// documentCarrier is a document from which the W3C propagator reads a trace context. It is nil for
// a delete: the trace context in the previous version is not that of the delete.
type documentCarrier struct {
	t        *traces
	document []byte
}

// Get returns the text at the path for key, or "" if there is no text.
func (c documentCarrier) Get(key string) string {
	names := c.t.parent
	if key == "tracestate" {
		names = c.t.state
	}
	raw, err := keypath.Find(c.document, names)
	if err != nil || len(raw) == 0 || raw[0] != '"' {
		return ""
	}
	text, err := jsonscan.New(raw, 1).Text()
	if err != nil {
		return ""
	}
	return text.String()
}

func (documentCarrier) Set(string, string) {}
func (documentCarrier) Keys() []string     { return nil }

// unsettled has the spans of batches whose position is not stored yet: those of calls of the
// handler, and those in which the user called Batch.Checkpoint. They are at most maxLinks, the
// latest.
type unsettled []spanOfBatch

type spanOfBatch struct {
	page int64 // the last one of the batch
	span trace.SpanContext
}

// settles records that a batch, whose last page has the number page, was handled or checkpointed
// in span, which may be nil.
func (lw *leaseWriter) settles(page int64, span trace.Span) {
	if lw.w.traces == nil || span == nil || page <= lw.progress.durable.page || !span.SpanContext().IsValid() {
		return
	}
	if len(lw.unsettled) == maxLinks {
		lw.unsettled = slices.Delete(lw.unsettled, 0, 1)
	}
	lw.unsettled = append(lw.unsettled, spanOfBatch{page, span.SpanContext()})
}

// settled forgets the batches up to a page, whose position is stored.
func (u *unsettled) settled(page int64) {
	*u = slices.DeleteFunc(*u, func(b spanOfBatch) bool { return b.page <= page })
}

// sender is a method of the lease store that writes a lease.
type sender func(context.Context, lease.Lease) (lease.Lease, error)

// traced returns a sender that calls send in the span of a checkpoint, if the position at covers
// batches. Otherwise it returns send. So a renewal has no span, although an idle range advances.
func (lw *leaseWriter) traced(at pagePosition, send sender) sender {
	w, durable, attempt := lw.w, lw.progress.durable.at, lw.attempts
	var parent spanOfBatch
	var links []trace.Link
	for _, b := range lw.unsettled {
		if b.page > at.page {
			continue
		}
		if other := parent; b.page >= other.page {
			parent, b = b, other
		}
		if b.page > 0 {
			links = append(links, trace.Link{SpanContext: b.span})
		}
	}
	if parent.page == 0 {
		return send
	}
	return func(ctx context.Context, doc lease.Lease) (lease.Lease, error) {
		ctx, span := w.traces.start(trace.ContextWithSpanContext(ctx, parent.span), w.traces.checkpoint, w.token, attempt, trace.WithLinks(links...))
		answer, err := send(ctx, doc)
		verdict, current := protocol.Judge(err, w.owner, durable, at.at)
		if verdict == protocol.Mine && current.Continuation == at.at { // an earlier attempt has stored it
			endSpan(span, nil)
		} else {
			endSpan(span, err)
		}
		return answer, err
	}
}
