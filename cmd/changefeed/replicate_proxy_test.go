package main

import (
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter is a TCP proxy that cuts each connection after 4 KiB to 64 MiB, counted in both
// directions together. The logarithm of that number is drawn evenly. A page of the feed
// has up to about 4 MiB, and must pass sometimes. Half of the connections are reset, so
// that their peers also meet broken pipes.
type cutter struct {
	listener net.Listener
	// cuts counts the connections that were cut.
	cuts atomic.Int64

	mu     sync.Mutex // guards the fields below
	rng    *rand.Rand
	target string
	open   map[net.Conn]bool
	closed bool
	serves sync.WaitGroup
}

// startCutter listens on a free port of this machine until the test ends.
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
			_ = conn.Close() // the test is over; a peer may have closed it already
		}
		c.mu.Unlock()
		c.serves.Wait()
	})
	return c
}

// url returns the proxy's address as a URL.
func (c *cutter) url() string { return "http://" + c.listener.Addr().String() + "/" }

// forward sends new connections to a host and port.
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

// serve carries one connection to the target until either side closes it or its
// bytes are used up.
func (c *cutter) serve(client net.Conn) {
	c.mu.Lock()
	target, reset := c.target, c.rng.IntN(2) == 0
	budget := int64(4096 * math.Exp2(14*c.rng.Float64()))
	c.mu.Unlock()
	defer c.drop(client)
	server, err := (&net.Dialer{}).Dial("tcp", target)
	if err != nil {
		return // the server is down
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
				n += int(max(rest, -int64(n))) // the last bytes before the cut
				if tcp, ok := client.(*net.TCPConn); ok && reset {
					_ = tcp.SetLinger(0) // an error means that the connection is closed already
				}
				_, _ = to.Write(buffer[:n]) // the peer may have closed it
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

// keep registers a connection for the end of the test. It reports whether the test
// still runs.
func (c *cutter) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = true
	return !c.closed
}

// drop closes a connection.
func (c *cutter) drop(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
	_ = conn.Close() // it may be closed already
}
