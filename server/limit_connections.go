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

// A guard watches the connections of a server. It counts the memory of their request
// headers, enforces Options.MaxConnections, and closes stalled connections when the
// budget is used up.

const (
	// headerLine is the memory of a header line in addition to its text, in bytes.
	headerLine = 300
	// progressBytes is the number of bytes that a connection must transfer within
	// stallTime. Otherwise it is stalled.
	progressBytes = 16 << 10
	stallTime     = 2 * time.Second
	// cutInterval is the shortest time between two searches for stalled connections.
	cutInterval = 100 * time.Millisecond
	// writePart is the size, in bytes, of the parts in which an answer is written.
	// Progress is visible between two parts.
	writePart = 256 << 10
	// refusalTime limits the time for refusing the headers of a request.
	refusalTime = time.Second
)

// Guard returns a listener that replaces l and closes connections beyond
// Options.MaxConnections. The listener also counts the headers of requests, so that
// Options.MemoryLimit covers them. Without Guard, the memory limit covers only bodies,
// answers and queries, and the number of connections is not limited.
//
// Guard sets h.ConnState and h.ConnContext. l may be a TLS listener. Call Guard before h
// serves, and let h serve the returned listener.
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

// guardedKey is the context key of a request's *guardedConn.
type guardedKey struct{}

type guard struct {
	net.Listener
	b    *budget
	most int
	// header limits the time of the TLS handshake. 0 means no limit.
	header time.Duration

	mu sync.Mutex // guards the rest
	// all holds the connections. resting holds the connections without a request. The one
	// that has rested longest comes first.
	all     map[*guardedConn]struct{}
	resting list.List
	// lastCut is the time of the last search for stalled connections.
	lastCut time.Time
}

// Accept accepts a connection. At the limit, it closes the connection that has rested
// longest. If none rests, it closes the new connection.
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

// admit registers a connection. If oldest is not nil, the caller must close it. ok is
// false if there is no room.
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

// forget removes a connection. The caller must hold g.mu.
func (g *guard) forget(c *guardedConn) {
	delete(g.all, c)
	if c.rest != nil {
		g.resting.Remove(c.rest)
		c.rest = nil
	}
}

// changed is the ConnState function of the http.Server. It releases the memory of
// finished requests and keeps the list of resting connections.
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

// cutStalled closes the connections that hold memory and whose clients are stalled.
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

// The phases of a connection. Each is named for the data that the server waits for. In
// phaseWork it waits for none.
const (
	phaseHeaders = iota
	phaseWork
	phaseBody
)

// guardedConn is a connection that a guard watches.
type guardedConn struct {
	net.Conn
	g *guard
	// memory is the counted memory of the current request.
	memory heldMemory
	// rest is the element of guard.resting, or nil if the connection has a request. g.mu
	// guards it.
	rest *list.Element

	phase   atomic.Int32
	writing atomic.Bool
	// moved is the time at which the connection last completed progressBytes, or at which
	// a phase or a write began. since counts the bytes after that.
	moved atomic.Int64 // Unix time in nanoseconds
	since atomic.Int64
}

// guardedOf returns the guarded connection of c, or nil.
func guardedOf(c net.Conn) *guardedConn {
	if t, ok := c.(*guardedTLS); ok {
		return t.guardedConn
	}
	g, _ := c.(*guardedConn)
	return g
}

// begin begins a phase.
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

// stalled reports whether the connection holds much memory while its client transfers no
// data.
func (c *guardedConn) stalled(now time.Time) bool {
	return (c.writing.Load() || c.phase.Load() != phaseWork) && c.memory.size() >= progressBytes &&
		now.UnixNano()-c.moved.Load() >= int64(stallTime)
}

// cut closes the connection without waiting for anything.
func (c *guardedConn) cut() {
	raw := c.Conn
	if t, ok := raw.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	_ = raw.Close() // reads and writes then return an error
}

// Read reads from the connection and counts the headers as they arrive.
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
		return 0, &net.OpError{Op: "read", Net: "tcp", Err: failed} // http.Server does not answer after this error
	}
	return n, err
}

// refuse answers 429 to a request whose headers do not fit in memory. It gives the client
// a moment to read the answer.
func (c *guardedConn) refuse() {
	c.memory.releaseAll()
	body := `{"code":"TooManyRequests","message":"` + errBusy.message + `"}`
	_ = c.SetDeadline(time.Now().Add(refusalTime))
	_, err := io.WriteString(c.Conn, "HTTP/1.1 429 Too Many Requests\r\nx-ms-retry-after-ms: "+
		strconv.FormatInt(busyRetry.Milliseconds(), 10)+"\r\nretry-after: "+strconv.Itoa(int(busyRetry.Seconds()))+
		"\r\ncontent-type: application/json\r\nConnection: close\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
	if err = errors.Join(err, c.CloseWrite()); err == nil {
		_, _ = io.Copy(io.Discard, c.Conn) // until the client disconnects or the deadline passes
	}
}

// Write writes in parts, so that a slow client can be distinguished from a stalled one.
func (c *guardedConn) Write(p []byte) (written int, err error) {
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

// CloseWrite closes the writing side, so that the client can still read.
func (c *guardedConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// guardedTLS is a guardedConn over TLS.
type guardedTLS struct {
	*guardedConn
	tls *tls.Conn
}

// ConnectionState carries out the handshake. http.Server calls it before it reads the
// first request, on the goroutine of the connection. It would carry out the handshake of
// a *tls.Conn itself, but the guard hides that type.
func (c *guardedTLS) ConnectionState() tls.ConnectionState {
	if c.g.header > 0 {
		_ = c.tls.SetDeadline(time.Now().Add(c.g.header)) // an error here means that the connection has ended
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

// looksLikeHTTP reports whether the header of a TLS record is the beginning of a plain
// HTTP request.
func looksLikeHTTP(header [5]byte) bool {
	switch string(header[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "PATCH", "DELET":
		return true
	}
	return false
}
