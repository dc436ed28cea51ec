package server

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/memnet"
)

func TestConnectionsBeyondTheLimitReplaceTheLongestResting(t *testing.T) {
	guardedServer(t, Options{MaxConnections: 3}, func(_ *testing.T, g guarded) {
		busy := g.dial()
		g.write(busy, "POST", orders+"/docs", pk(`["p"]`), `{"id":"1",`, 50)
		synctest.Wait()
		first := g.dial()
		synctest.Wait()
		second := g.dial()
		g.write(second, "GET", orders, nil, "", 0)
		g.answer(second)
		third := g.dial()
		g.write(third, "GET", orders, nil, "", 0)
		g.wants(g.answer(third), http.StatusOK)
		if _, err := first.Read(make([]byte, 1)); err == nil {
			g.t.Error("the connection that rested longest was kept")
		}
		if _, err := io.WriteString(busy, `"pk":"p"}`+strings.Repeat(" ", 31)); err != nil {
			g.t.Error(err)
		}
		g.wants(g.answer(busy), http.StatusCreated)
		g.write(second, "GET", orders, nil, "", 0)
		g.wants(g.answer(second), http.StatusOK)
	})
}

// A connection that rests again after a request must make room for a new one. Otherwise a
// server whose clients keep their connections would refuse every new client.
func TestConnectionThatRestsAgainMakesRoom(t *testing.T) {
	guardedServer(t, Options{MaxConnections: 2}, func(_ *testing.T, g guarded) {
		served := func(c net.Conn) {
			g.write(c, "GET", orders, nil, "", 0)
			g.wants(g.answer(c), http.StatusOK)
			synctest.Wait()
		}
		first, second := g.dial(), g.dial()
		served(second)
		served(first)
		served(g.dial())
		if _, err := second.Read(make([]byte, 1)); err == nil {
			g.t.Error("the connection that has rested longest since its request was kept")
		}
		served(first)
	})
}

func TestConnectionsBeyondTheLimitAreClosedIfAllAreBusy(t *testing.T) {
	guardedServer(t, Options{MaxConnections: 1}, func(_ *testing.T, g guarded) {
		busy := g.dial()
		g.write(busy, "POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p"`, 19)
		synctest.Wait()
		if _, err := g.dial().Read(make([]byte, 1)); err == nil {
			g.t.Error("a connection beyond the limit was kept")
		}
		if _, err := io.WriteString(busy, `}`); err != nil {
			g.t.Error(err)
		}
		g.wants(g.answer(busy), http.StatusCreated)
	})
}

func TestAHandshakeHasTheTimeOfHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{})
		var network memnet.Network
		l, err := network.Listen("server:443")
		if err != nil {
			t.Fatal(err)
		}
		h := &http.Server{Handler: ts, ReadHeaderTimeout: 10 * time.Second}
		l = ts.Guard(h, tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: make([]tls.Certificate, 1)}))
		served := make(chan error, 1)
		go func() { served <- h.Serve(l) }()
		c, err := network.Dial(t.Context(), "tcp", "server:443")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%d bytes were answered to silence", n)
		}
		if after := time.Since(began); after != h.ReadHeaderTimeout {
			t.Errorf("a silent client was disconnected after %s", after)
		}
		_ = c.Close()
		_ = h.Close()
		<-served
	})
}
