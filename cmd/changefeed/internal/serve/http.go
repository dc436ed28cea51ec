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

// These timeouts limit each connection. A client that sends or reads slowly holds one
// connection and a few kilobytes. It delays no other client.
const (
	// headerTime is the maximum time for a request's headers, and for the TLS handshake.
	headerTime = 10 * time.Second
	// bodyTime is the maximum time for a request's body, counted from the end of its
	// headers.
	bodyTime = time.Minute
	// writeTime is the maximum time for one write of an answer. An answer has at most 4
	// MB, so a client must read about 70 KB/s.
	writeTime = time.Minute
	// idleTime is the time for which an idle connection is kept. It is longer than the
	// idle time of any SDK's pool. So the client closes the connection, and the server
	// does not close it while a request is on its way.
	idleTime = 5 * time.Minute
)

// limits are a server's configured limits.
type limits struct {
	// drain is the maximum time that requests in flight may take after the server has
	// begun to end.
	drain time.Duration
	// header is the maximum size of a request's line and headers, in bytes. The longest
	// headers are ETags, keys, the session tokens of all partitions, and continuations.
	header int
}

// httpSlack is the number of bytes by which http.Server lets headers exceed
// MaxHeaderBytes.
const httpSlack = 4 << 10

// guard is a handler that limits the connections of its server. Guard returns the
// listener to use.
type guard interface {
	Guard(h *http.Server, l net.Listener) net.Listener
}

// drainer is a handler that may hold requests for long. Drain makes it answer them.
type drainer interface{ Drain() }

// serveHTTP serves until ctx ends. It then accepts no connections, gives the requests in
// flight the time bounds.drain, and cuts off the others. It speaks only HTTP/1.1, as SDKs
// do with a gateway. There a dropped connection affects one request, and a slow client
// has a connection of its own.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler, bounds limits, logger *slog.Logger) error {
	// Requests outlive ctx, so that they can finish while the server drains.
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	srv := &http.Server{
		Handler:           paced(h),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    bounds.header - httpSlack,
		Protocols:         new(http.Protocols),
		BaseContext:       func(net.Listener) context.Context { return base },
		// Failed handshakes and invalid requests are errors of clients, so they are
		// logged at debug level.
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	srv.Protocols.SetHTTP1(true)
	srv.DisableGeneralOptionsHandler = true // OPTIONS * needs a signature, too, so the handler answers it
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
	logger.Info("shutting down; waiting for requests in flight", "at most", bounds.drain)
	wait, cancel := context.WithTimeout(base, bounds.drain)
	defer cancel()
	err := srv.Shutdown(wait)
	if errors.Is(err, context.DeadlineExceeded) {
		logger.Warn("requests cut off: they took longer than the drain time", "drain", bounds.drain)
		cut()
		err = srv.Close()
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	if err != nil {
		return fmt.Errorf("shut down the server: %w", err)
	}
	return nil
}

// paced limits the time for a request's body, and for each write of its answer.
//
// The timeouts of http.Server do not fit, because they limit a whole request or a whole
// answer. A timeout that is long enough for a large page would give a slow client as much
// time for a small one.
func paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if r.ContentLength == 0 {
			next.ServeHTTP(&pacedWriter{ResponseWriter: w, c: c}, r)
			return
		}
		// The deadline also applies after the handler, while http.Server reads the rest of an
		// unread body.
		_ = c.SetReadDeadline(time.Now().Add(bodyTime)) // an error means that the connection has ended
		// The original request keeps its body. By it, http.Server recognizes a client that
		// waits for "100 Continue", and a body that it need not read to the end. With a
		// replaced body, it would wait for the whole body before it sends an error.
		timed := struct { // one allocation for all of them
			r    http.Request
			body pacedBody
			w    pacedWriter
		}{*r, pacedBody{ReadCloser: r.Body, c: c}, pacedWriter{ResponseWriter: w, c: c}}
		timed.r.Body = &timed.body
		next.ServeHTTP(&timed.w, &timed.r)
	})
}

// pacedBody removes the read deadline when the body has been read. After that,
// http.Server reads the connection only to notice its end, which may take any time.
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

// Write sets a new deadline for each write. The last deadline also covers the flush at
// the end of the answer.
func (w *pacedWriter) Write(p []byte) (int, error) {
	_ = w.c.SetWriteDeadline(time.Now().Add(writeTime))
	return w.ResponseWriter.Write(p)
}

// WriteHeader sets a deadline, because an answer without a body has no Write.
func (w *pacedWriter) WriteHeader(status int) {
	_ = w.c.SetWriteDeadline(time.Now().Add(writeTime))
	w.ResponseWriter.WriteHeader(status)
}

// PassesHeaders tells package server that this writer, the only one between it and http.Server,
// neither reads nor changes the headers of an answer.
func (w *pacedWriter) PassesHeaders() {}

// Unwrap lets http.ResponseController reach the underlying writer.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
