package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// What a connection may take of the server. A client that sends or reads slowly
// holds a connection and a few kilobytes, and nobody waits for it.
const (
	// headerTime bounds a request's headers, and the TLS handshake.
	headerTime = 10 * time.Second
	// bodyTime bounds a request's body, from its headers on.
	bodyTime = time.Minute
	// writeTime bounds one write of an answer, which has a page of 4 MB at most: a client that
	// reads 70 KB/s keeps up.
	writeTime = time.Minute
	// idleTime is how long a connection without a request is kept: longer than any SDK
	// keeps one in its pool, so that the client closes it, and never at the moment of a request.
	idleTime = 5 * time.Minute
)

// limits are the limits of a server that its configuration sets.
type limits struct {
	// drain is how long requests that are under way may take when the server ends.
	drain time.Duration
	// header bounds a request's line and headers, in bytes: an ETag, a key, a session token of all
	// partitions and a continuation are the large ones.
	header int
}

// httpSlack is how many bytes of headers http.Server takes beyond its MaxHeaderBytes.
const httpSlack = 4 << 10

// guard is a handler that watches the connections of its server.
type guard interface {
	Guard(h *http.Server, l net.Listener) net.Listener
}

// drainer is a handler that holds requests, and can be told to let go of them.
type drainer interface{ Drain() }

// serveHTTP serves until ctx ends. Then no connection is accepted any more, the requests under way
// get the time bounds.drain, and what is left of them is cut off. It speaks HTTP/1.1 only:
// that is what the SDKs speak with a gateway, a dropped connection means one request there, and a
// slow client can be told from the others by its connection.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler, bounds limits, logger *slog.Logger) error {
	// Requests outlive ctx: they get to their end while the server drains.
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	srv := &http.Server{
		Handler:           paced(h),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    bounds.header - httpSlack,
		Protocols:         new(http.Protocols),
		BaseContext:       func(net.Listener) context.Context { return base },
		// Handshakes that fail, and garbage: the client's affair, so at debug level.
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	srv.Protocols.SetHTTP1(true)
	srv.DisableGeneralOptionsHandler = true // OPTIONS * is the handler's, too: nothing is answered without a signature
	if g, ok := h.(guard); ok {
		l = g.Guard(srv, l)
	}
	if d, ok := h.(drainer); ok {
		srv.RegisterOnShutdown(d.Drain)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("accept connections: %w", err)
	case <-ctx.Done():
	}
	logger.Info("ending: no new connections; waiting for requests under way", "at most", bounds.drain)
	wait, cancel := context.WithTimeout(base, bounds.drain)
	defer cancel()
	err := srv.Shutdown(wait)
	if errors.Is(err, context.DeadlineExceeded) {
		logger.Warn("requests were cut off: they took longer than the drain time", "drain", bounds.drain)
		cut()
		err = srv.Close()
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	if err != nil {
		return fmt.Errorf("end the server: %w", err)
	}
	return nil
}

// paced bounds the time of a request's body and of each write of its answer. The time-outs of
// http.Server don't fit: they count from the request's first byte to the answer's last one, so that
// one which is long enough for a large page would let a client dawdle as long.
func paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if r.ContentLength != 0 {
			// In force beyond the handler's end, when the rest of a body that it didn't want is read.
			_ = c.SetReadDeadline(time.Now().Add(bodyTime)) // an error is the connection's end
			// A copy: by the body of its own request http.Server knows a client that waits for "100 Continue", and a body that isn't worth
			// reading to the end. With another one there, it would wait for the body before it sends a refusal.
			timed := *r
			timed.Body = &pacedBody{ReadCloser: r.Body, c: c}
			r = &timed
		}
		next.ServeHTTP(&pacedWriter{ResponseWriter: w, c: c}, r)
	})
}

// pacedBody ends the time limit when the body has been read: the connection is read on, to notice
// that the client is gone, and that has no limit.
type pacedBody struct {
	io.ReadCloser
	c *http.ResponseController
}

func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.c.SetReadDeadline(time.Time{})
	}
	return n, err
}

type pacedWriter struct {
	http.ResponseWriter
	c *http.ResponseController
}

// Write gives each write its time, and so the last one the flush at the end of the answer.
func (w *pacedWriter) Write(p []byte) (int, error) {
	_ = w.c.SetWriteDeadline(time.Now().Add(writeTime))
	return w.ResponseWriter.Write(p)
}

// WriteHeader may be all there is of an answer.
func (w *pacedWriter) WriteHeader(status int) {
	_ = w.c.SetWriteDeadline(time.Now().Add(writeTime))
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
