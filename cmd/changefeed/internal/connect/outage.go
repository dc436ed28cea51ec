package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/internal/outage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// Outage prints the failures of requests that a command retries: a line when they begin,
// one a minute with their number, and one when they end. Throttling is printed only if it
// lasts for a minute. Create it with [NewOutage]. It is safe for concurrent use.
type Outage struct {
	log   outage.Log
	lines *slog.Logger
	began time.Time
}

// NewOutage returns an Outage that passes its lines to write. subject is what they are
// about, for instance "requests".
func NewOutage(subject string, write func(line string)) *Outage {
	return &Outage{log: outage.Log{Subject: subject}, lines: slog.New(lines{write: write}), began: time.Now()}
}

// Failed prints a failed request that is retried, unless its outage was printed recently.
// member names what the request concerns. It may be empty.
func (o *Outage) Failed(member string, err error) {
	o.log.Failed(o.lines, time.Since(o.began), member, err, Throttled(err))
}

// Worked records that a request succeeded. It ends the failures of member, and those
// without a member. A command calls it from time to time, because the end of an outage is
// printed a while after it.
func (o *Outage) Worked(member string) {
	if o.log.Lasts() {
		o.log.Worked(o.lines, time.Since(o.began), member)
	}
}

// WhileThrottled calls f, and again every interval while the account throttles its
// requests. It returns the error of f or, if ctx ends, that of ctx. If o is nil, it calls f
// once.
func (o *Outage) WhileThrottled(ctx context.Context, interval time.Duration, f func() error) error {
	for {
		err := f()
		switch {
		case o == nil || err != nil && !Throttled(err):
			return err
		case err == nil:
			o.Worked("")
			return nil
		}
		o.Failed("", err)
		if err := follow.Sleep(ctx, interval); err != nil {
			return err
		}
	}
}

// lines is a [slog.Handler] that prints records as lines of text, without times and
// levels.
type lines struct {
	write func(line string)
	attrs []slog.Attr
}

// Enabled implements [slog.Handler].
func (lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs implements [slog.Handler].
func (l lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.attrs = append(slices.Clip(l.attrs), attrs...)
	return l
}

// WithGroup implements [slog.Handler]. Lines have no groups.
func (l lines) WithGroup(string) slog.Handler { return l }

// Handle implements [slog.Handler].
func (l lines) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(l.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	var facts []string
	text := ""
	for _, a := range attrs {
		if err, is := a.Value.Any().(error); is {
			text = ": " + Secretless(Text(err)) + strings.TrimPrefix(Advice(err), "\n")
		} else {
			facts = append(facts, fmt.Sprintf("%s=%s", a.Key, a.Value))
		}
	}
	if len(facts) > 0 {
		text = " (" + strings.Join(facts, " ") + ")" + text
	}
	l.write(r.Message + text)
	return nil
}

// Throttled reports whether err is throttling, which passes by itself.
func Throttled(err error) bool {
	_, throttled := errors.AsType[*feed.ThrottledError](err)
	return throttled || Status(err) == http.StatusTooManyRequests
}

// Temporary reports whether the request that returned err may succeed later. That of a
// refused connection may, because the server may be starting.
func Temporary(err error) bool {
	var (
		request *url.Error
		network net.Error
	)
	status := Status(err)
	switch {
	case errors.Is(err, feed.ErrNotFound), errors.Is(err, feed.ErrMisconfigured), errors.Is(err, feed.ErrUnsupported):
		return false
	case Throttled(err):
		return true
	case status != 0:
		return status >= http.StatusInternalServerError || status == http.StatusRequestTimeout || status == wire.StatusRetryWith
	case Hopeless(err):
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	return errors.As(err, &request) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded)
}
