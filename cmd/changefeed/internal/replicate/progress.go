package replicate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
)

// window is the time span over which the rate and the remaining time are computed.
const window = time.Minute

// progress prints the progress of the replication.
type progress struct {
	mu    sync.Mutex // guards out
	out   io.Writer
	write *writer
	began time.Time
	// seen contains the measurements in the last window, the oldest first. Each one also
	// has the number of documents that this process had written or deleted.
	seen []sample
	// behind is the lag of all leases at the last measurement, in LSNs.
	behind atomic.Int64
}

type sample struct {
	measurement
	copied int64
}

// forget discards the measurements. They cannot be compared with those of the next feed.
func (p *progress) forget() { p.seen = nil }

// add records a measurement, and drops those that are older than the window.
func (p *progress) add(s measurement) {
	p.behind.Store(s.behind)
	p.seen = append(p.seen, sample{s, p.write.copied.Load() + p.write.deleted.Load()})
	for len(p.seen) > 2 && s.at.Sub(p.seen[0].at) > window {
		p.seen = p.seen[1:]
	}
}

// line returns the progress as one line of text. what is its beginning.
func (p *progress) line(what string) string {
	last := p.seen[len(p.seen)-1]
	parts := []string{what + " " + documents(p.write.copied.Load())}
	if n := p.write.moved.Load(); n > 0 {
		parts = append(parts, view.Thousands(n)+" moved")
	}
	if n := p.write.deleted.Load(); n > 0 {
		parts = append(parts, view.Thousands(n)+" deleted")
	}
	if rate, ok := p.rate(); ok {
		parts = append(parts, view.Thousands(int64(rate))+"/s")
	}
	switch {
	case last.caughtUp && last.behind == 0:
		parts = append(parts, "caught up")
	case last.caughtUp:
		parts = append(parts, "caught up except for the last seconds")
	default:
		parts = append(parts, fmt.Sprintf("%d %% of the way", int(last.part*100)))
		if left, ok := p.left(); ok {
			parts = append(parts, "about "+left.String()+" left")
		}
	}
	leases := "leases"
	if last.leases == 1 {
		leases = "lease"
	}
	parts = append(parts, fmt.Sprintf("%d of %d %s owned", last.owned, last.leases, leases))
	return strings.Join(parts, ", ")
}

// rate returns how many documents per second this process writes or deletes. ok is false
// if there are too few measurements.
func (p *progress) rate() (perSecond float64, ok bool) {
	first, last := p.seen[0], p.seen[len(p.seen)-1]
	took := last.at.Sub(first.at).Seconds()
	if took <= 0 {
		return 0, false
	}
	return float64(last.copied-first.copied) / took, true
}

// left returns the estimated time until all processes together have copied everything. It
// divides LSNs by LSNs, so it does not matter how many LSNs a change takes.
func (p *progress) left() (time.Duration, bool) {
	first, last := p.seen[0], p.seen[len(p.seen)-1]
	took, done := last.at.Sub(first.at), first.behind-last.behind
	if took <= 0 || done <= 0 {
		return 0, false
	}
	left := time.Duration(float64(took) * float64(last.behind) / float64(done))
	if left > time.Minute {
		return left.Round(time.Minute / 4), true
	}
	return left.Round(time.Second), true
}

// say prints one line, and ignores errors. If the reader of the output is gone, the
// caller of Run ends ctx.
func (p *progress) say(format string, args ...any) {
	text := view.OneLine(fmt.Sprintf(format, args...)) + "\n"
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.out, text)
}

// errorLog prints errors that are retried. All hosts of this process share it. Failed
// requests are an outage, whose members are the source, the target, the leases and the
// measurements. Of other errors it prints one text at most once in the time repeat.
type errorLog struct {
	*connect.Outage
	progress *progress
	fail     context.CancelCauseFunc

	mu   sync.Mutex // guards the fields below
	last string
	at   time.Time
}

// The members of an outage.
const (
	toSource  = "source"
	toTarget  = "target"
	toLeases  = "leases"
	toMeasure = "measurement"
)

func newErrorLog(p *progress) *errorLog {
	return &errorLog{progress: p, Outage: connect.NewOutage("requests", func(line string) { p.say("%s", line) })}
}

// lostError reports that changes were lost before they were read.
type lostError struct{ err error }

func (e *lostError) Error() string {
	return connect.Text(e.err) + "; changes are lost, so the copy must begin again with another --processor, into an empty target"
}

// Unwrap returns the error underneath.
func (e *lostError) Unwrap() error { return e.err }

// repeat is the minimum time between two lines about the same error.
const repeat = time.Minute

func (t *errorLog) notify(n changefeed.Notification) {
	if n.Event != changefeed.Failed || errors.Is(n.Err, errHeld) {
		return
	}
	// If the source or a handler reports ErrNotFound, a container is missing, which ends
	// the run. The processor itself handles a missing lease.
	var source *changefeed.SourceError
	var handler *changefeed.HandlerError
	if fatal(n.Err) && (errors.As(n.Err, &source) || errors.As(n.Err, &handler)) {
		t.fail(n.Err)
		return
	}
	if _, ok := errors.AsType[*feed.HistoryLostError](n.Err); ok {
		t.fail(&lostError{n.Err})
		return
	}
	if !connect.Temporary(n.Err) && connect.Status(n.Err) == 0 { // a problem that no request will solve
		t.print(n.Err)
		return
	}
	member := toTarget
	if errors.As(n.Err, &source) {
		member = toSource
	} else if _, leases := errors.AsType[*changefeed.LeaseStoreError](n.Err); leases {
		member = toLeases
	}
	t.Failed(member, n.Err)
}

// print prints an error that is retried, unless it was printed recently.
func (t *errorLog) print(err error) {
	text := connect.Text(err)
	t.mu.Lock()
	again := text == t.last && time.Since(t.at) < repeat
	if !again {
		t.last, t.at = text, time.Now()
	}
	t.mu.Unlock()
	if !again {
		t.progress.say("%s%s; retrying", text, connect.Advice(err))
	}
}

// instrument registers the metrics of the replication, in addition to those of its
// processors. If provider is nil, it does nothing.
//
//	changefeed.replicate.documents  {document}  documents of this process,
//	                                            by operation: copied, moved, deleted, unsure
//	changefeed.replicate.behind     {LSN}       lag of all processes together, at the last measurement
func (r *replication) instrument(provider metric.MeterProvider) (stop func() error, err error) {
	if provider == nil {
		return func() error { return nil }, nil
	}
	meter := provider.Meter("github.com/changefeed-go/changefeed/cmd/changefeed/internal/replicate")
	documents, err1 := meter.Int64ObservableCounter("changefeed.replicate.documents", metric.WithUnit("{document}"),
		metric.WithDescription("Documents that this process copied, moved or deleted, by what was done."))
	behind, err2 := meter.Int64ObservableGauge("changefeed.replicate.behind", metric.WithUnit("{LSN}"),
		metric.WithDescription("How far the replication's processes together were behind at the last measurement."))
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
