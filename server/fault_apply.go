package server

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// maxHeldBody bounds the body of a request that is held: it is read first, because the end of its
// connection is noticed only behind it.
const maxHeldBody = 16 << 20

// meet carries out an operation, unless something is in its way: a frozen
// partition first, and then a fault.
func (s *Server) meet(x *exchange, serve func(*exchange) error) error {
	if s.freezes.none() && len(s.faults.active()) == 0 {
		return serve(x)
	}
	t := &target{x: x}
	if err := s.freezes.wait(x, t); err != nil {
		return err
	}
	f := s.faults.meets(x, t)
	if f == nil {
		return serve(x)
	}
	if f.After {
		unseen := *x
		unseen.w = &unseenWriter{header: http.Header{}}
		_ = serve(&unseen) // whatever came of it, nobody is told
	}
	if f.Delay > 0 {
		if err := x.hold(); err != nil {
			return err
		}
		if err := s.pause(x, f.Delay); err != nil {
			return err
		}
	}
	switch {
	case f.Drop:
		s.o.Logger.DebugContext(x.r.Context(), "connection dropped by a fault", "fault", f.id, "operation", x.op,
			"activity", x.activity, "carried out", f.After)
		panic(http.ErrAbortHandler) // what net/http has for it
	case f.Status != 0:
		message := f.Message
		if message == "" {
			message = "This failure was injected, by fault " + f.id + "."
		}
		return &statusError{status: f.Status, substatus: f.SubStatus, message: message, retryAfter: f.RetryAfter}
	}
	return serve(x)
}

// hold makes a request ready to wait: its body is read, so that the client's leaving is noticed.
func (x *exchange) hold() error {
	if x.r.ContentLength == 0 {
		return nil
	}
	body, err := x.body(maxHeldBody)
	if err != nil {
		return err
	}
	x.r.Body = io.NopCloser(bytes.NewReader(body))
	x.r.ContentLength = int64(len(body))
	return nil
}

// pause waits; for the client to leave, or the server to end, at most.
func (s *Server) pause(x *exchange, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-x.r.Context().Done():
		return x.r.Context().Err()
	case <-s.draining:
		return errEnding
	}
}

// errEnding is what a request is answered with that is held when the server ends.
var errEnding = failure(http.StatusServiceUnavailable, wire.SubNone, "the server is ending")

// unseenWriter takes an answer that nobody gets.
type unseenWriter struct{ header http.Header }

func (w *unseenWriter) Header() http.Header         { return w.header }
func (w *unseenWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *unseenWriter) WriteHeader(int)             {}
