// Package listen opens the listeners that flags ask for, with errors that say what to do.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
)

// Error reports that an address of a flag can't be used by anybody. Its text names the flag.
type Error struct {
	flag, address, reason string
	err                   error
}

func (e *Error) Error() string { return fmt.Sprintf("%s is %q: %s", e.flag, e.address, e.reason) }

// Unwrap returns the error underneath.
func (e *Error) Unwrap() error { return e.err }

// On listens on an address, host:port, that a flag names. Errors: *[Error]; those of the
// operating system.
func On(ctx context.Context, flag, where string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", where)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another program listens on %s: end it, or choose another address with %s (port 0 is a free one)", where, flag)
	}
	var (
		dns     *net.DNSError
		address *net.AddrError
	)
	switch {
	case errors.As(err, &address), errors.As(err, &dns) && strings.Contains(dns.Err, "unknown port"):
		return nil, &Error{flag, where, "its port is a number from 0 (a free one) to 65535", err}
	case errors.As(err, &dns):
		return nil, &Error{flag, where, "its host cannot be looked up: " + dns.Err, err}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, &Error{flag, where, "no interface of this machine has the address", err}
	case errors.Is(err, syscall.EACCES):
		return nil, &Error{flag, where, "only root may listen on a port that low; choose one from 1024", err}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", where, err)
	}
	return l, nil
}
