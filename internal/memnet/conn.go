package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// bufferSize is the number of bytes that one direction of a connection can hold. It is
// similar to a kernel's buffers for a loopback connection.
const bufferSize = 256 << 10

// pipe returns the two ends of a new connection between two addresses.
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

// Close closes both directions. The other end can still read the written bytes.
func (c *conn) Close() error {
	c.in.closeReader()
	c.out.closeWriter()
	c.read.set(time.Time{}) // without a deadline, no timer is left
	c.write.set(time.Time{})
	return nil
}

// CloseWrite makes the other end read io.EOF after the written bytes.
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

// stream is one direction of a connection. It holds the bytes that are written and not
// read yet.
type stream struct {
	mu  sync.Mutex // guards the rest
	buf []byte
	// writerClosed and readerClosed report which end has closed the stream.
	writerClosed, readerClosed bool
	// changed is closed when a field above changes. It is nil if no goroutine waits.
	changed chan struct{}
}

// notify wakes all goroutines that wait for a change of the stream. The caller must hold
// s.mu.
func (s *stream) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// wait returns a channel that is closed at the next change of the stream. The caller must
// hold s.mu.
func (s *stream) wait() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// step calls try, and again after each change of the stream, until try is done or returns
// an error. After the deadline it returns os.ErrDeadlineExceeded. s.mu is held during
// try.
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
		case <-over: // the loop checks whether the deadline was set to a later time
		}
	}
}

func (s *stream) read(p []byte, d *deadline) (n int, err error) {
	err = s.step(d, func() (bool, error) {
		switch {
		case s.readerClosed:
			return false, net.ErrClosed
		case len(s.buf) > 0:
			n = copy(p, s.buf)
			if s.buf = s.buf[n:]; len(s.buf) == 0 {
				s.buf = nil
			}
			return true, nil
		case s.writerClosed:
			return false, io.EOF
		}
		return len(p) == 0, nil
	})
	return n, err
}

func (s *stream) write(p []byte, d *deadline) (n int, err error) {
	err = s.step(d, func() (bool, error) {
		switch {
		case s.writerClosed:
			return false, net.ErrClosed
		case s.readerClosed:
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
	s.readerClosed, s.buf = true, nil
	s.notify()
}

func (s *stream) closeWriter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writerClosed = true
	s.notify()
}

// deadline is the deadline of reads or of writes. newDeadline returns one.
type deadline struct {
	mu    sync.Mutex // guards the rest
	timer *time.Timer
	// passed is closed after the deadline. set replaces it only then, so that waiting
	// goroutines see every deadline.
	passed chan struct{}
}

func newDeadline() *deadline { return &deadline{passed: make(chan struct{})} }

// over returns a channel that is closed after the deadline.
func (d *deadline) over() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}

// set sets the deadline. The zero time means that there is no deadline.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.passed // the function of the timer is about to close it, without a lock
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
