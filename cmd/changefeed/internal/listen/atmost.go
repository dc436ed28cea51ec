package listen

import (
	"net"
	"sync"
)

// AtMost returns a listener that keeps at most n connections of l open. Further ones wait to be accepted.
func AtMost(l net.Listener, n int) net.Listener {
	return &bounded{Listener: l, open: make(chan struct{}, n), closed: make(chan struct{})}
}

type bounded struct {
	net.Listener
	// open has an element for each open connection.
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

// Close closes the listener, and ends an Accept that waits.
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
