package memnet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// Network connects clients with listeners by their addresses. The zero value is ready to
// use. It is safe for concurrent use.
type Network struct {
	mu        sync.Mutex // guards listeners
	listeners map[string]*listener
}

// backlog is the largest number of connections that wait to be accepted.
const backlog = 128

// Listen listens on an address, host:port, of any host. It returns an error if the
// address has a listener.
func (n *Network) Listen(address string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[address] != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, syscall.EADDRINUSE)
	}
	if n.listeners == nil {
		n.listeners = map[string]*listener{}
	}
	l := &listener{n: n, address: address, accept: make(chan net.Conn, backlog), closed: make(chan struct{})}
	n.listeners[address] = l
	return l, nil
}

// Dial connects to an address. It can be http.Transport.DialContext, and ignores the
// network. It returns an error if the address has no listener, or if ctx ends while the
// backlog is full.
func (n *Network) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "mem", Addr: addr(address), Err: syscall.ECONNREFUSED}
	if l == nil {
		return nil, refused
	}
	client, server := pipe(addr("client"), addr(address))
	select {
	case <-l.closed:
		return nil, refused
	default:
	}
	select {
	case l.accept <- server:
		return client, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listener is the net.Listener that Network.Listen returns.
type listener struct {
	n       *Network
	address string
	accept  chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close stops listening. It closes connections that were not accepted, and keeps the
// others.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.n.mu.Lock()
		delete(l.n.listeners, l.address)
		l.n.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.accept:
				_ = c.Close() // a connection's Close returns no error
			default:
				return
			}
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return addr(l.address) }

// addr is an address of the network.
type addr string

func (a addr) Network() string { return "mem" }
func (a addr) String() string  { return string(a) }
