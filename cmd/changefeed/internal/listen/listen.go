// Package listen opens the listeners that flags name. Its errors name the flag and the
// remedy.
package listen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Error reports that the address of a flag cannot be listened on. Its text names the
// flag.
type Error struct {
	flag, address, reason string
	err                   error
}

func (e *Error) Error() string { return fmt.Sprintf("%s is %q: %s", e.flag, e.address, e.reason) }

// Unwrap returns the error underneath.
func (e *Error) Unwrap() error { return e.err }

// On listens on an address, host:port, that a flag names. It returns an *[Error] if the
// address is invalid, and otherwise the operating system's error.
func On(ctx context.Context, flag, where string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", where)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another program listens on %s; stop it, or choose another address with %s (port 0 chooses a free port)", where, flag)
	}
	var (
		dns     *net.DNSError
		address *net.AddrError
	)
	switch {
	case errors.As(err, &address), errors.As(err, &dns) && strings.Contains(dns.Err, "unknown port"):
		return nil, &Error{flag, where, "its port must be a number from 0 (a free port) to 65535", err}
	case errors.As(err, &dns):
		return nil, &Error{flag, where, "its host cannot be looked up: " + dns.Err, err}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, &Error{flag, where, "no interface of this machine has the address", err}
	case errors.Is(err, syscall.EACCES):
		return nil, &Error{flag, where, "only root may listen on this port; choose one from 1024", err}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", where, err)
	}
	return l, nil
}

// maxHeader and idleTime limit each client of Serve.
const (
	maxHeader = 16 << 10
	idleTime  = 2 * time.Minute
)

// Serve answers the requests of l by handler in the background until stop is called, which
// returns when the last request has ended. It is for the small endpoints beside a command's
// work, such as metrics and health. headers and answers limit the times of a client. A
// failure of l is logged with the endpoint's name.
func Serve(l net.Listener, name string, handler http.Handler, headers, answers time.Duration, logger *slog.Logger) (stop func()) {
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: headers, WriteTimeout: answers, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			logger.Error(name+" endpoint failed", "error", err)
		}
	}()
	return func() {
		_ = srv.Close() // an error of Close does not matter, because nothing is lost
		<-done
	}
}

// AtMost returns a listener that accepts connections of l. If n of them are open, Accept
// waits until one is closed.
func AtMost(l net.Listener, n int) net.Listener {
	return &bounded{Listener: l, open: make(chan struct{}, n), closed: make(chan struct{})}
}

type bounded struct {
	net.Listener
	// open contains one element for each open connection.
	open   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.open <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.open
		return nil, err
	}
	return &boundedConn{Conn: c, leave: sync.OnceFunc(func() { <-b.open })}, nil
}

// Close closes the listener. A waiting Accept returns an error.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

type boundedConn struct {
	net.Conn
	leave func()
}

func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
