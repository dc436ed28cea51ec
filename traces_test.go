package changefeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/changefeed-go/changefeed/feed"
)

// spans are those that have ended, with an operation of the processor.
type spans struct{ recorder *tracetest.SpanRecorder }

func newSpans() (spans, trace.TracerProvider) {
	s := spans{tracetest.NewSpanRecorder()}
	return s, sdk.NewTracerProvider(sdk.WithSpanProcessor(s.recorder))
}

// of returns the spans of an operation in the order of their ends.
func (s spans) of(operation string) []sdk.ReadOnlySpan {
	return slices.DeleteFunc(s.recorder.Ended(), func(span sdk.ReadOnlySpan) bool { return span.Name() != operation+" d/c" })
}

// lines returns a line for each span of an operation: its attempt, the number of its changes, the
// LSNs, and its error.
func (s spans) lines(operation string) []string {
	var lines []string
	for _, span := range s.of(operation) {
		line := "attempt " + attr(span, "messaging.changefeed.attempt")
		if count := attr(span, "messaging.batch.message_count"); count != "" {
			line += fmt.Sprintf(", %s changes, LSN %s to %s", count, attr(span, "messaging.changefeed.lsn.first"), attr(span, "messaging.changefeed.lsn.last"))
		}
		if span.Status().Code == codes.Error {
			line += ", " + span.Status().Description + " (" + attr(span, "error.type") + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

func attr(span sdk.ReadOnlySpan, key attribute.Key) string {
	for _, a := range span.Attributes() {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

func expectLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSpansDescribeReadsCallsAndCheckpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans, provider := newSpans()
		source, leases := onePartition(150), newFakeStore()
		source.fail = func(n int, _ feed.Request) error {
			if n == 2 {
				return &feed.ThrottledError{RetryAfter: time.Second}
			}
			return nil
		}
		failed := 0
		leases.before = func(w fakeWrite) error {
			if w.op == "update" && w.lease.Continuation == "150" && failed < 2 {
				failed++
				return errors.New("503")
			}
			return nil
		}
		h := &deliveries{results: []error{errors.New("no"), errors.New("panics")}}
		r := start(t, Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning, Traces: provider})
		pause(time.Hour)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		expectLines(t, "reads", spans.lines("read"),
			"attempt 1, 100 changes, LSN 1 to 100",
			"attempt 1, request rate is large: try again after 1s (*feed.ThrottledError)",
			"attempt 2, 50 changes, LSN 101 to 150")
		expectLines(t, "calls", spans.lines("process"),
			"attempt 1, 100 changes, LSN 1 to 100, handler: handle LSN 1 to 100: no (*errors.errorString)",
			"attempt 2, 100 changes, LSN 1 to 100, handler: handle LSN 1 to 100: panic: panics (*changefeed.panicError)",
			"attempt 3, 100 changes, LSN 1 to 100",
			"attempt 1, 50 changes, LSN 101 to 150")
		expectLines(t, "checkpoints", spans.lines("checkpoint"),
			"attempt 1", "attempt 1, 503 (*errors.errorString)", "attempt 2, 503 (*errors.errorString)", "attempt 3")
		if n := len(spans.recorder.Ended()); n != 11 {
			t.Errorf("there are %d spans", n)
		}
		for operation, want := range map[string]struct {
			kind trace.SpanKind
			typ  string
		}{
			"read": {trace.SpanKindClient, "receive"}, "process": {trace.SpanKindConsumer, "process"}, "checkpoint": {trace.SpanKindClient, "settle"},
		} {
			span := spans.of(operation)[0]
			got := map[string]string{}
			for _, a := range span.Attributes() {
				got[string(a.Key)] = a.Value.String()
			}
			for key, want := range map[string]string{
				"messaging.system": "changefeed", "messaging.operation.name": operation, "messaging.operation.type": want.typ,
				"messaging.destination.name": "d/c", "messaging.destination.partition.id": "0", "server.address": "localhost",
				"messaging.consumer.group.name": "test",
			} {
				if got[key] != want {
					t.Errorf("%s: %s is %q, not %q", operation, key, got[key], want)
				}
			}
			if !strings.HasPrefix(got["messaging.client.id"], "host") || span.SpanKind() != want.kind || span.InstrumentationScope().SchemaURL == "" {
				t.Errorf("%s: %v of kind %s, %+v", operation, got, span.SpanKind(), span.InstrumentationScope())
			}
		}
		if span := spans.of("read")[0]; span.EndTime().Sub(span.StartTime()) != time.Millisecond || attr(span, "messaging.changefeed.request_units") != "2" {
			t.Errorf("a read of a millisecond and 2 RU is %s and has %v", span.EndTime().Sub(span.StartTime()), span.Attributes())
		}
	})
}

// A lease without changes reads and renews all the time, which nobody wants to see.
func TestIdleLeaseMakesNoSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans, provider := newSpans()
		source, leases := newFakeSource("0"), newFakeStore()
		r := start(t, Config{
			Source: drifting{source, new(int64)}, Leases: leases, Handler: &collector{}, Start: fromBeginning, Traces: provider,
		})
		pause(time.Hour)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		if moved := leases.doc("0").Continuation; moved < "2" {
			t.Fatalf("the position is %q, and should have moved", moved)
		}
		if ended := spans.recorder.Started(); len(ended) > 0 {
			t.Errorf("there are %d spans, the first is %s", len(ended), ended[0].Name())
		}
	})
}

// drifting is a source whose empty pages have ever newer positions. Its partition goes in the end.
type drifting struct {
	*fakeSource
	reads *int64
}

func (d drifting) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	page, err := d.fakeSource.Read(ctx, r)
	*d.reads++
	page.Continuation = position(*d.reads)
	return page, err
}

// A span of the user's is a child of the call's, and a checkpoint continues the trace of the call.
// Each call has a trace of its own, though Run's context has a span.
func TestSpansOfTheUserAndOfCheckpointsBelongToTheCall(t *testing.T) {
	for _, manual := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			spans, provider := newSpans()
			ctx, outer := provider.Tracer("test").Start(t.Context(), "whole process")
			ctx, stop := context.WithCancel(ctx)
			p, err := New(Config{
				Processor: "test", Source: onePartition(250), Leases: newFakeStore(), Start: fromBeginning, Traces: provider,
				Checkpoint: Checkpointing{Manual: manual},
				Handler: HandlerFunc(func(ctx context.Context, b *Batch) error {
					ctx, own := provider.Tracer("test").Start(ctx, "own")
					defer own.End()
					if manual {
						return b.Checkpoint(ctx)
					}
					return nil
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			go func() { defer stop(); pause(time.Minute) }()
			if err := p.Run(ctx); err != nil {
				t.Fatal(err)
			}
			outer.End()
			calls, checkpoints := spans.of("process"), spans.of("checkpoint")
			var owns []sdk.ReadOnlySpan
			for _, span := range spans.recorder.Ended() {
				if span.Name() == "own" {
					owns = append(owns, span)
				}
			}
			if len(calls) != 3 || len(owns) != 3 || len(checkpoints) != 3 {
				t.Fatalf("manual %t: %d calls, %d spans in them, %d checkpoints", manual, len(calls), len(owns), len(checkpoints))
			}
			for i, call := range calls {
				within := call
				if manual {
					within = owns[i]
				}
				if call.Parent().IsValid() || owns[i].Parent().SpanID() != call.SpanContext().SpanID() ||
					checkpoints[i].Parent().SpanID() != within.SpanContext().SpanID() {
					t.Errorf("manual %t: call %d has the parent %v; the user's span has %v, and the checkpoint %v", manual, i,
						call.Parent(), owns[i].Parent(), checkpoints[i].Parent())
				}
			}
			for _, read := range spans.of("read") {
				if read.Parent().IsValid() {
					t.Error("a read has a parent")
				}
			}
		})
	}
}

// A checkpoint that covers several batches continues the trace of the latest one, and links to the
// others, but to no more than an SDK keeps.
func TestCheckpointLinksToTheBatchesThatItCovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans, provider := newSpans()
		r := start(t, Config{
			Source: onePartition(200), Leases: newFakeStore(), Handler: &collector{took: time.Millisecond}, Start: fromBeginning, Traces: provider,
			MaxItems: 1, Checkpoint: Checkpointing{Changes: 150},
		})
		pause(time.Minute)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		calls, checkpoints := spans.of("process"), spans.of("checkpoint")
		if len(calls) != 200 || len(checkpoints) != 2 {
			t.Fatalf("%d calls, %d checkpoints", len(calls), len(checkpoints))
		}
		for i, last := range []int{149, 199} {
			if parent := checkpoints[i].Parent().SpanID(); parent != calls[last].SpanContext().SpanID() {
				t.Errorf("checkpoint %d continues another trace than that of call %d", i, last)
			}
		}
		if first, rest := len(checkpoints[0].Links()), len(checkpoints[1].Links()); first != maxLinks-1 || rest != 49 {
			t.Errorf("the checkpoints have %d and %d links", first, rest)
		}
	})
}

// Several calls at a time have a span each, with the changes of one key.
func TestEachCallOfALaneHasItsSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans, provider := newSpans()
		source := newFakeSource("0")
		source.writeKeys("0", "a", "b", "a", "c")
		ids := make(chan trace.SpanID, 3)
		r := start(t, Config{
			Source: source, Leases: newFakeStore(), Start: fromBeginning, Traces: provider, Concurrency: 3,
			Handler: HandlerFunc(func(ctx context.Context, _ *Batch) error {
				time.Sleep(time.Second) // so that all are under way
				ids <- trace.SpanContextFromContext(ctx).SpanID()
				return nil
			}),
		})
		pause(time.Minute)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		lines := spans.lines("process")
		slices.Sort(lines)
		expectLines(t, "calls", lines, "attempt 1, 1 changes, LSN 2 to 2", "attempt 1, 1 changes, LSN 4 to 4", "attempt 1, 2 changes, LSN 1 to 3")
		var got, want []string
		for _, span := range spans.of("process") {
			want, got = append(want, span.SpanContext().SpanID().String()), append(got, (<-ids).String())
		}
		slices.Sort(got)
		slices.Sort(want)
		expectLines(t, "spans in the contexts", got, want...)
		if checkpoints := spans.of("checkpoint"); len(checkpoints) == 0 || !checkpoints[0].Parent().IsValid() {
			t.Errorf("%d checkpoints", len(checkpoints))
		}
	})
}

func parentOf(n int) string { return fmt.Sprintf("00-%032x-%016x-01", n+1, n+1) }

func TestCallsLinkToTheProducersOfTheirChanges(t *testing.T) {
	const path = `/"meta"/traceparent`
	document := func(parent, state string) []byte {
		return fmt.Appendf(nil, `{"id":"1","meta":{"traceparent":%s,"tracestate":%s}}`, parent, state)
	}
	quoted := func(n int) string { return `"` + parentOf(n) + `"` }
	var many []feed.Change
	for n := range 2 * maxLinks {
		many = append(many, feed.Change{Current: document(quoted(n), `""`)})
	}
	for name, c := range map[string]struct {
		changes []feed.Change
		want    int
	}{
		"none":                 {[]feed.Change{{Current: []byte(`{"id":"1"}`)}}, 0},
		"one":                  {many[:1], 1},
		"once each":            {[]feed.Change{many[0], many[1], many[0]}, 2},
		"not a string":         {[]feed.Change{{Current: document("7", "8")}, many[0]}, 1},
		"not a traceparent":    {[]feed.Change{{Current: document(`"00-xyz"`, `""`)}}, 0},
		"not JSON":             {[]feed.Change{{Current: []byte(`{"meta":{"traceparent":"`)}}, 0},
		"a damaged tracestate": {[]feed.Change{{Current: document(quoted(1), `"=,"`)}}, 1},
		"a delete":             {[]feed.Change{{Op: feed.Delete, Previous: many[0].Current}}, 0},
		"too many":             {many, maxLinks},
	} {
		traces := newTraces(Config{Traces: noop.NewTracerProvider(), TraceParent: path}, feed.Identity{}, "host")
		if got := traces.producers(c.changes); len(got) != c.want {
			t.Errorf("%s: %d links", name, len(got))
		}
	}

	synctest.Test(t, func(t *testing.T) {
		spans, provider := newSpans()
		source := newFakeSource("0")
		source.logs["0"] = []feed.Change{
			{LSN: 1, Current: document(quoted(1), `"vendor=1"`)}, {LSN: 2, Current: document(quoted(2), "null")},
		}
		r := start(t, Config{Source: source, Leases: newFakeStore(), Handler: &collector{}, Start: fromBeginning, Traces: provider, TraceParent: path})
		pause(time.Minute)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, link := range spans.of("process")[0].Links() {
			c := link.SpanContext
			got = append(got, fmt.Sprintf("00-%s-%s-%s %s", c.TraceID(), c.SpanID(), c.TraceFlags(), c.TraceState()))
		}
		expectLines(t, "links", got, parentOf(1)+" vendor=1", parentOf(2)+" ")
	})
}

// What is no failure for the processor is none in the spans: a stop, a partition that is gone, and
// a handler that returns ErrGap.
func TestSpansHaveNoFailureWhereNothingFailed(t *testing.T) {
	recorded, provider := newSpans()
	traces := newTraces(Config{Traces: provider}, feed.Identity{Database: "d", Container: "c"}, "host")
	ended, end := context.WithCancel(t.Context())
	end()
	traces.didRead(ended, "0", time.Now(), 1, feed.Page{}, context.Canceled)
	traces.didRead(t.Context(), "0", time.Now(), 1, feed.Page{}, &feed.GoneError{})
	_, span := traces.handling(t.Context(), "0", &queuedBatch{Page: feed.Page{Changes: []feed.Change{{LSN: 1}}}})
	traces.handled(span, &HandlerError{Op: "handle", Err: ErrGap, gap: true})
	if spans := recorded.recorder.Ended(); len(spans) != 1 || spans[0].Status().Code != codes.Unset {
		t.Errorf("%d spans: %+v", len(spans), spans)
	}
}

// A handler whose context ends because it takes longer than the drain has failed, but nobody needs a
// notification that the host stops.
func TestCallThatTheDrainEndsHasAFailedSpanAndNoNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans, provider := newSpans()
		r, said := idle(t, newFakeStore(), Config{
			Source: onePartition(3), Handler: &collector{took: time.Hour}, Start: fromBeginning, Traces: provider, DrainTimeout: time.Second,
		})
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		if calls := spans.of("process"); len(calls) != 1 || calls[0].Status().Code != codes.Error {
			t.Errorf("the calls: %v", spans.lines("process"))
		}
		if failed := said.of(Failed); len(failed) > 0 {
			t.Errorf("notified of %+v", failed)
		}
	})
}

// A write whose position covers neither a call with handled changes nor a checkpoint in a span has
// no trace to continue, so it has no span.
func TestWriteWithoutAHandledBatchMakesNoSpan(t *testing.T) {
	for name, cfg := range map[string]Config{
		"hidden by the filter": {Handler: &collector{}, Filter: func(feed.Change) bool { return false }, Start: fromBeginning},
		"given up":             withLetters(Config{Handler: HandlerFunc(func(context.Context, *Batch) error { return errors.New("no") })}, newPost(), 1),
		"checkpointed in a context without a span": {
			Handler:    HandlerFunc(func(_ context.Context, b *Batch) error { return b.Checkpoint(context.Background()) }), //nolint:contextcheck // which is the case
			Checkpoint: Checkpointing{Manual: true}, Start: fromBeginning,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			spans, provider := newSpans()
			source, leases := newFakeSource("0"), newFakeStore()
			source.items("a", "1", "2", "3")
			cfg.Source, cfg.Leases, cfg.Traces = source, leases, provider
			r := start(t, cfg)
			pause(time.Hour)
			if err := r.end(); err != nil {
				t.Fatal(err)
			}
			if at := leases.doc("0").Continuation; at != "3" {
				t.Errorf("%s: the position is %q", name, at)
			}
			if lines := spans.lines("checkpoint"); len(lines) > 0 {
				t.Errorf("%s: %v", name, lines)
			}
		})
	}
}

// A conflict may show that an earlier attempt has stored the position, as after a lost answer.
func TestConflictWithAnAttemptOfOursIsNoFailedCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans, provider := newSpans()
		leases := newFakeStore()
		lost := 0
		leases.after = func(w fakeWrite) error {
			if w.op == "update" && w.lease.Continuation == "3" && lost == 0 {
				lost++
				return errors.New("no answer")
			}
			return nil
		}
		r := start(t, Config{Source: onePartition(3), Leases: leases, Handler: &collector{}, Start: fromBeginning, Traces: provider})
		pause(time.Minute)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		expectLines(t, "checkpoints", spans.lines("checkpoint"), "attempt 1, no answer (*errors.errorString)", "attempt 2")
	})
}

// Without traces, nothing is allocated for them.
func TestNoTracesCostNoAllocation(t *testing.T) {
	w := &worker{host: &host{}}
	lw := &leaseWriter{w: w}
	ctx := t.Context()
	b := &queuedBatch{Page: feed.Page{Changes: []feed.Change{{LSN: 1, Current: []byte(`{}`)}}}}
	var send sender
	if n := testing.AllocsPerRun(100, func() {
		w.traces.didRead(ctx, "0", time.Time{}, 1, b.Page, nil)
		_, span := w.traces.handling(ctx, "0", b)
		w.traces.handled(span, nil)
		lw.settles(1, span)
		send = lw.traced(pagePosition{page: 1}, send)
		lw.unsettled.settled(1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkTraces measures a call of the handler with 100 changes: without traces, with spans that
// the sampler drops, and with recorded ones that link to 100 producers.
func BenchmarkTraces(b *testing.B) {
	var changes []feed.Change
	for n := range 100 {
		changes = append(changes, feed.Change{LSN: int64(n), Current: fmt.Appendf(nil, `{"id":"%d","text":"%0900d","traceparent":"%s"}`, n, 0, parentOf(n))})
	}
	for name, cfg := range map[string]Config{
		"off":     {},
		"dropped": {Traces: sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample()))},
		"on":      {Traces: sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample()))},
		"links":   {Traces: sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample())), TraceParent: "/traceparent"},
	} {
		w := &worker{host: &host{cfg: cfg, traces: newTraces(cfg, feed.Identity{Database: "d", Container: "c"}, "host")}, trust: &trust{ctx: b.Context()}}
		observer := plainObserver{HandlerFunc(func(context.Context, *Batch) error { return nil })}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.call(observer, &queuedBatch{Page: feed.Page{Changes: changes}}, &Batch{}, time.Time{})
			}
		})
	}
}
