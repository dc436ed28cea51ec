package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// bufferSize is how many bytes one direction of a connection holds: as much as a
// kernel's buffers on a loopback connection, roughly.
const bufferSize = 256 << 10

// pipe makes the two ends of a connection.
func pipe(client, server net.Addr) (a, b net.Conn) {
	up, down := &stream{}, &stream{}
	return &conn{in: down, out: up, local: client, remote: server, read: newDeadline(), write: newDeadline()},
		&conn{in: up, out: down, local: server, remote: client, read: newDeadline(), write: newDeadline()}
}

// conn is one end of a connection.
type conn struct {
	in, out       *stream
	local, remote net.Addr
	read, write   *deadline
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p, c.read) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p, c.write) }

// Close ends both directions. What was written can still be read by the other end.
func (c *conn) Close() error {
	c.in.closeReader()
	c.out.closeWriter()
	c.read.set(time.Time{}) // no timer outlives the connection
	c.write.set(time.Time{})
	return nil
}

// CloseWrite tells the other end that no more is written.
func (c *conn) CloseWrite() error {
	c.out.closeWriter()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return nil
}

// stream is one direction.
type stream struct {
	mu  sync.Mutex // guards the rest
	buf []byte
	// written tells that the writer has closed, unread that the reader has.
	written, unread bool
	// changed is closed when something of the above changes; nil: nobody waits.
	changed chan struct{}
}

// notify wakes those who wait. s.mu is held.
func (s *stream) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// wait returns what is closed at the next change. s.mu is held.
func (s *stream) wait() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// step tries something until it is done, fails, or the deadline is over. try is called with s.mu
// held.
func (s *stream) step(d *deadline, try func() (done bool, err error)) error {
	for {
		over := d.over()
		select {
		case <-over:
			return os.ErrDeadlineExceeded
		default:
		}
		s.mu.Lock()
		done, err := try()
		if done || err != nil {
			s.notify()
			s.mu.Unlock()
			return err
		}
		changed := s.wait()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-over: // said at the top, unless it was moved
		}
	}
}

func (s *stream) read(p []byte, d *deadline) (n int, err error) {
	err = s.step(d, func() (bool, error) {
		switch {
		case s.unread:
			return false, net.ErrClosed
		case len(s.buf) > 0:
			n = copy(p, s.buf)
			if s.buf = s.buf[n:]; len(s.buf) == 0 {
				s.buf = nil
			}
			return true, nil
		case s.written:
			return false, io.EOF
		}
		return len(p) == 0, nil
	})
	return n, err
}

func (s *stream) write(p []byte, d *deadline) (n int, err error) {
	err = s.step(d, func() (bool, error) {
		switch {
		case s.written:
			return false, net.ErrClosed
		case s.unread:
			return false, syscall.EPIPE
		}
		room := min(bufferSize-len(s.buf), len(p)-n)
		s.buf = append(s.buf, p[n:n+room]...)
		if n += room; room > 0 {
			s.notify()
		}
		return n == len(p), nil
	})
	return n, err
}

func (s *stream) closeReader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread, s.buf = true, nil
	s.notify()
}

func (s *stream) closeWriter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = true
	s.notify()
}

// deadline is when reads, or writes, of a connection end. Make it with newDeadline.
type deadline struct {
	mu    sync.Mutex // guards the rest
	timer *time.Timer
	// passed is closed while the time has come. Another time replaces it only then, so
	// that who waits sees every time that is set.
	passed chan struct{}
}

func newDeadline() *deadline { return &deadline{passed: make(chan struct{})} }

// over returns what is closed when the time has come.
func (d *deadline) over() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}

// set sets the time; zero: never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.passed // its function is about to close it, and needs no lock for that
	}
	d.timer = nil
	select {
	case <-d.passed:
		d.passed = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	passed := d.passed
	if left := time.Until(t); left > 0 {
		d.timer = time.AfterFunc(left, func() { close(passed) })
	} else {
		close(passed)
	}
}
