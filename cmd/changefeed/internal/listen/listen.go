// Package listen opens the listeners that flags ask for, with errors that say what to do.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// On listens on an address, host:port, that a flag says.
func On(ctx context.Context, flag, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another program listens on %s: end it, or choose another address with %s (port 0 is a free one)", address, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}
