package server

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// This file limits the memory that clients can occupy by their connections. A guard
// watches all connections. It counts the memory of request headers and enforces
// Options.MaxConnections. When the memory is used up, it closes connections whose clients
// are stalled.

const (
	// headerLine is the memory that net/http needs for a header line, in addition to its
	// text, in bytes.
	headerLine = 300
	// progressBytes is the number of bytes that a connection must transfer within
	// stallTime. A connection that transfers fewer is stalled.
	progressBytes = 16 << 10
	stallTime     = 2 * time.Second
	// cutInterval is the shortest time between two searches for stalled connections. A
	// search reads every connection, so it must not run for every refused request.
	cutInterval = 100 * time.Millisecond
	// writePart is the size of the parts in which an answer is written, in bytes. A
	// connection has made progress when a part is written.
	writePart = 256 << 10
	// refusalTime limits the time for sending a 429 to a client whose headers do not fit
	// into memory.
	refusalTime = time.Second
)

// Guard returns a listener that replaces l and closes connections beyond
// Options.MaxConnections. The listener also counts request headers, so that
// Options.MemoryLimit covers them. Without Guard, the number of connections has no limit,
// and the memory limit covers only bodies, answers and queries.
//
// Guard sets h.ConnState and h.ConnContext, so call it before h serves, and let h serve
// the listener that it returns. l may be a TLS listener.
func (s *Server) Guard(h *http.Server, l net.Listener) net.Listener {
	g := &guard{Listener: l, b: s.budget, most: s.o.MaxConnections, header: cmp.Or(h.ReadHeaderTimeout, h.ReadTimeout)}
	h.ConnState = g.changed
	h.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, guardedKey{}, guardedOf(c))
	}
	if s.budget != nil {
		s.budget.cutStalled = g.cutStalled
	}
	return g
}

// guardedKey is the context key under which a request finds its *guardedConn.
type guardedKey struct{}

type guard struct {
	net.Listener
	b    *budget
	most int
	// header limits the time of a TLS handshake. 0 means no limit.
	header time.Duration

	mu sync.Mutex // guards the rest
	// all holds every open connection. resting holds those without a request, beginning
	// with the one that has been idle longest.
	all     map[*guardedConn]struct{}
	resting list.List
	// lastCut is the time of the last search for stalled connections, for cutInterval.
	lastCut time.Time
}

// Accept accepts a connection. If there are already Options.MaxConnections, it closes the
// connection that has been idle longest. If no connection is idle, it closes the new one.
func (g *guard) Accept() (net.Conn, error) {
	for {
		accepted, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &guardedConn{Conn: accepted, g: g}
		c.memory.b = g.b
		if oldest, ok := g.admit(c); !ok {
			c.cut()
			continue
		} else if oldest != nil {
			oldest.cut()
		}
		if t, ok := accepted.(*tls.Conn); ok {
			return &guardedTLS{guardedConn: c, tls: t}, nil
		}
		return c, nil
	}
}

// admit adds a connection to the guard. At the limit, it returns the connection that has
// been idle longest, which the caller must close. ok is false if no connection is idle.
func (g *guard) admit(c *guardedConn) (oldest *guardedConn, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = map[*guardedConn]struct{}{}
	}
	if g.most > 0 && len(g.all) >= g.most {
		front := g.resting.Front()
		if front == nil {
			return nil, false
		}
		oldest = front.Value.(*guardedConn) //nolint:errcheck // the list holds nothing else
		g.forget(oldest)
	}
	g.all[c] = struct{}{}
	c.rest = g.resting.PushBack(c)
	return oldest, true
}

// forget removes a connection from the guard. The caller must hold g.mu.
func (g *guard) forget(c *guardedConn) {
	delete(g.all, c)
	if c.rest != nil {
		g.resting.Remove(c.rest)
		c.rest = nil
	}
}

// changed is the ConnState function of the http.Server. When a request has ended, it
// releases the memory of the connection and adds the connection to the idle ones.
func (g *guard) changed(conn net.Conn, state http.ConnState) {
	c := guardedOf(conn)
	switch state {
	case http.StateActive: // the headers are complete
		c.begin(phaseWork)
	case http.StateIdle:
		c.memory.releaseAll()
		c.begin(phaseHeaders)
	case http.StateClosed, http.StateHijacked:
		c.memory.releaseAll()
	case http.StateNew:
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch _, known := g.all[c]; {
	case state == http.StateClosed || state == http.StateHijacked:
		g.forget(c)
	case !known: // Accept closed it to make room for another one
	case state == http.StateActive && c.rest != nil:
		g.resting.Remove(c.rest)
		c.rest = nil
	case state == http.StateIdle && c.rest == nil:
		c.rest = g.resting.PushBack(c)
	}
}

// cutStalled closes the connections that hold memory and whose clients make no progress.
func (g *guard) cutStalled() {
	g.mu.Lock()
	now := time.Now()
	if now.Sub(g.lastCut) < cutInterval {
		g.mu.Unlock()
		return
	}
	g.lastCut = now
	var stalled []*guardedConn
	for c := range g.all {
		if c.stalled(now) {
			stalled = append(stalled, c)
		}
	}
	g.mu.Unlock()
	for _, c := range stalled {
		c.cut()
	}
}

// These are the phases of a connection. In phaseHeaders the server waits for the headers
// of a request, and in phaseBody for its body. In phaseWork it waits for no data of the
// client.
const (
	phaseHeaders = iota
	phaseWork
	phaseBody
)

// guardedConn is a connection that a guard watches.
type guardedConn struct {
	net.Conn
	g *guard
	// memory counts the bytes that the current request uses.
	memory heldMemory
	// rest is the connection's element in guard.resting. It is nil while the connection
	// has a request. guard.mu guards it.
	rest *list.Element

	// answer has header lines of the next answer, or is nil. Only the goroutine that serves
	// the connection uses it.
	answer *headerWriter

	phase   atomic.Int32
	writing atomic.Bool
	// moved is the time of the last progress: the start of the phase or the write, or the
	// time at which progressBytes more were transferred. since is the number of bytes
	// transferred after that.
	moved atomic.Int64 // Unix time in nanoseconds
	since atomic.Int64
}

// guardedOf returns the *guardedConn in c, which is a *guardedConn or a *guardedTLS. It
// returns nil for other types.
func guardedOf(c net.Conn) *guardedConn {
	if t, ok := c.(*guardedTLS); ok {
		return t.guardedConn
	}
	g, _ := c.(*guardedConn)
	return g
}

// begin records that the connection enters a phase.
func (c *guardedConn) begin(phase int32) {
	c.phase.Store(phase)
	c.mark()
}

func (c *guardedConn) mark() {
	c.since.Store(0)
	c.moved.Store(time.Now().UnixNano())
}

func (c *guardedConn) progress(n int) {
	if c.since.Add(int64(n)) >= progressBytes {
		c.mark()
	}
}

// stalled reports whether the connection waits for its client, holds at least
// progressBytes of memory, and has made no progress for stallTime.
func (c *guardedConn) stalled(now time.Time) bool {
	return (c.writing.Load() || c.phase.Load() != phaseWork) && c.memory.size() >= progressBytes &&
		now.UnixNano()-c.moved.Load() >= int64(stallTime)
}

// cut closes the connection at once, without a TLS alert and without sending buffered
// data.
func (c *guardedConn) cut() {
	raw := c.Conn
	if t, ok := raw.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	_ = raw.Close() // makes the pending reads and writes return an error
}

// Read reads from the connection. While headers are read, it counts their memory as they
// arrive.
func (c *guardedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	if c.phase.Load() != phaseHeaders {
		c.progress(n)
		return n, err
	}
	if c.memory.held[ofHeaders].Load() == 0 {
		c.mark()
	}
	c.progress(n)
	size := int64(n + headerLine*bytes.Count(p[:n], []byte{'\n'}))
	if failed := c.memory.grow(ofHeaders, size); failed != nil {
		c.refuse()
		return 0, &net.OpError{Op: "read", Net: "tcp", Err: failed} // http.Server sends no answer after an error of this type
	}
	return n, err
}

// refuse answers 429 to a request whose headers do not fit into memory. It then waits up
// to refusalTime, so that the client can read the answer.
func (c *guardedConn) refuse() {
	c.memory.releaseAll()
	body := `{"code":"TooManyRequests","message":"` + errBusy.message + `"}`
	_ = c.SetDeadline(time.Now().Add(refusalTime))
	_, err := io.WriteString(c.Conn, "HTTP/1.1 429 Too Many Requests\r\nx-ms-retry-after-ms: "+
		strconv.FormatInt(busyRetry.Milliseconds(), 10)+"\r\nretry-after: "+strconv.Itoa(int(busyRetry.Seconds()))+
		"\r\ncontent-type: application/json\r\nConnection: close\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
	if err = errors.Join(err, c.CloseWrite()); err == nil {
		_, _ = io.Copy(io.Discard, c.Conn) // until the client disconnects or refusalTime ends
	}
}

// Write writes the data in parts of writePart bytes. So a slow client, which takes one
// part after the other, can be distinguished from a stalled one.
func (c *guardedConn) Write(p []byte) (written int, err error) {
	if c.answer != nil {
		return c.writeLines(p)
	}
	c.mark()
	c.writing.Store(true)
	defer c.writing.Store(false)
	for {
		part := p[written:min(len(p), written+writePart)]
		n, err := c.Conn.Write(part)
		written += n
		c.progress(n)
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// CloseWrite closes the connection for writing. The client can still read the data that
// was sent.
func (c *guardedConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// guardedTLS is a guardedConn whose connection uses TLS.
type guardedTLS struct {
	*guardedConn
	tls *tls.Conn
}

// ConnectionState performs the TLS handshake and returns its result. http.Server performs
// the handshake only for a *tls.Conn, and the guard hides that type. But http.Server
// calls ConnectionState before the first request, on the goroutine of the connection.
func (c *guardedTLS) ConnectionState() tls.ConnectionState {
	if c.g.header > 0 {
		_ = c.tls.SetDeadline(time.Now().Add(c.g.header)) // an error means that the connection has ended
	}
	err := c.tls.Handshake() //nolint:noctx // the deadline limits it, and the context is not used
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
		_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
	if err != nil {
		c.cut()
	}
	_ = c.tls.SetDeadline(time.Time{})
	return c.tls.ConnectionState()
}

// looksLikeHTTP reports whether the first bytes of a connection, which should be the
// header of a TLS record, begin a plain HTTP request.
func looksLikeHTTP(header [5]byte) bool {
	switch string(header[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "PATCH", "DELET":
		return true
	}
	return false
}
