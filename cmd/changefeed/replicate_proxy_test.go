package main

import (
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter is a TCP proxy that cuts each connection after a random number of bytes, from 4
// KiB to 64 MiB in both directions together. The logarithm of that number is uniform. A
// page of the feed has up to about 4 MiB, and must pass sometimes. Half of the
// connections are reset, so that their peers also get broken pipes.
type cutter struct {
	listener net.Listener
	// cuts counts the connections that the proxy has cut.
	cuts atomic.Int64

	mu     sync.Mutex // guards the fields below
	rng    *rand.Rand
	target string
	open   map[net.Conn]bool
	closed bool
	serves sync.WaitGroup
}

// startCutter starts a proxy on a free port of this machine. It ends with the test.
func startCutter(t *testing.T, seed uint64) *cutter {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: listener, rng: rand.New(rand.NewPCG(seed, 7)), open: map[net.Conn]bool{}}
	c.serves.Go(c.accept)
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		c.closed = true
		for conn := range c.open {
			_ = conn.Close() // the test is over, and a peer may have closed the connection already
		}
		c.mu.Unlock()
		c.serves.Wait()
	})
	return c
}

// url returns the proxy's address as a URL.
func (c *cutter) url() string { return "http://" + c.listener.Addr().String() + "/" }

// forward makes the proxy forward new connections to a host and port.
func (c *cutter) forward(target string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.target = target
}

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.serves.Go(func() { c.serve(client) })
	}
}

// serve forwards one connection to the target. It ends when either side closes the
// connection, or when its number of bytes is reached.
func (c *cutter) serve(client net.Conn) {
	c.mu.Lock()
	target, reset := c.target, c.rng.IntN(2) == 0
	budget := int64(4096 * math.Exp2(14*c.rng.Float64()))
	c.mu.Unlock()
	defer c.drop(client)
	server, err := (&net.Dialer{}).Dial("tcp", target)
	if err != nil {
		return // the server does not run
	}
	defer c.drop(server)
	if !c.keep(client) || !c.keep(server) {
		return
	}
	var left atomic.Int64
	left.Store(budget)
	var copies sync.WaitGroup
	carry := func(to, from net.Conn) {
		buffer := make([]byte, 4096)
		for {
			n, err := from.Read(buffer)
			if rest := left.Add(-int64(n)); err == nil && rest < 0 {
				c.cuts.Add(1)
				n += int(max(rest, -int64(n))) // n is the number of bytes before the cut
				if tcp, ok := client.(*net.TCPConn); ok && reset {
					_ = tcp.SetLinger(0) // an error means that the connection is closed already
				}
				_, _ = to.Write(buffer[:n]) // an error means that the peer has closed the connection
				err = net.ErrClosed
			} else if err == nil {
				_, err = to.Write(buffer[:n])
			}
			if err != nil {
				c.drop(client)
				c.drop(server)
				return
			}
		}
	}
	copies.Go(func() { carry(server, client) })
	copies.Go(func() { carry(client, server) })
	copies.Wait()
}

// keep registers a connection, so that it is closed at the end of the test. It returns
// false if the test has ended.
func (c *cutter) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = true
	return !c.closed
}

// drop closes a connection and removes it from the proxy.
func (c *cutter) drop(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
	_ = conn.Close() // the connection may be closed already
}
