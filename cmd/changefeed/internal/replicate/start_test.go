package replicate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/storetype"
)

// outage makes a range of connections fail. Connections are counted from the first, and
// each request has a connection of its own.
type outage struct {
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	from, to int64
	// answered reports whether the failing requests are carried out. Then only their
	// answers are lost.
	answered bool
	// refused reports whether no server listens, so that there is no connection.
	refused bool
	made    atomic.Int64
}

// Dial is a function for http.Transport.DialContext.
func (o *outage) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := o.dial(ctx, network, address)
	n := o.made.Add(1)
	if err != nil || n < o.from || n >= o.to {
		return conn, err
	}
	if o.refused {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	return &failingConn{Conn: conn, answered: o.answered}, nil
}

// failingConn is a connection that is reset at its first write or at its first read.
type failingConn struct {
	net.Conn
	answered bool
}

func (c *failingConn) Write(p []byte) (int, error) {
	if !c.answered {
		_ = c.Close()
		return 0, &net.OpError{Op: "write", Err: syscall.ECONNRESET}
	}
	return c.Conn.Write(p)
}

func (c *failingConn) Read(p []byte) (int, error) {
	if c.answered {
		_, _ = c.Conn.Read(p) // the server carries out the request
	}
	_ = c.Close()
	return 0, &net.OpError{Op: "read", Err: syscall.ECONNRESET}
}

// The connection fails at each request of a start in turn. The start must retry and
// succeed, and the target must be the same as without the failure.
func TestAnOutageAtAnyRequestOfTheStartEndsNoReplication(t *testing.T) {
	for name, kind := range map[string]struct{ answered, refused bool }{"cut": {}, "answered": {answered: true}, "refused": {refused: true}} {
		t.Run(name, func(t *testing.T) {
			original := http.DefaultTransport // connect clones the default transport for each account
			defer func() { http.DefaultTransport = original }()
			for from := int64(1); from < 40; from += 2 {
				synctest.Test(t, func(t *testing.T) {
					replicateThroughOutage(t, &outage{from: from, to: from + 7, answered: kind.answered, refused: kind.refused})
				})
			}
		})
	}
}

func replicateThroughOutage(t *testing.T, o *outage) {
	t.Helper()
	server := changefeedtest.NewServer(t)
	network, ok := server.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the transport is a %T", server.Client().Transport)
	}
	listens, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	o.dial = func(ctx context.Context, n, _ string) (net.Conn, error) {
		return network.DialContext(ctx, n, net.JoinHostPort(listens.Hostname(), cmp.Or(listens.Port(), "80")))
	}
	http.DefaultTransport = &http.Transport{DialContext: o.Dial, DisableKeepAlives: true}
	s := &stage{T: t, said: &lines{}}
	s.from = changefeedtest.NewContainer(t, server.DB, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 3})
	endpoint := server.Endpoint
	if o.refused {
		endpoint = "http://localhost/" // a client does not retry a refused connection of its own machine
	}
	if s.account, err = connect.NewAccount("").OpenSettings(connect.Settings{Endpoint: endpoint, Key: server.Key}); err != nil {
		t.Fatal(err)
	}
	s.account.DB = server.DB
	s.fill(20)
	cfg := s.config()
	cfg.To.Database, cfg.To.Container, cfg.Leases.Database, cfg.Key = "other", "copy", "other", []string{"/product"}
	// The start must go on soon after the outage.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := Run(ctx, cfg); err != nil {
		t.Fatalf("an outage from request %d on: %v\n%s", o.from, err, s.said)
	}
	if s.to, err = server.DB.Container(t.Context(), "other", "copy"); err != nil {
		t.Fatal(err)
	}
	s.equal(20)
	partitions, err := s.account.Source("other", "copy", cosmos.SourceOptions{}).Partitions(ctx)
	if err != nil || len(partitions) != 3 {
		t.Errorf("an outage from request %d on: the target has %d partitions, %v", o.from, len(partitions), err)
	}
	if n := o.made.Load(); n < o.to {
		t.Errorf("only %d requests were sent", n)
	}
	if err := s.account.Close(); err != nil {
		t.Error(err)
	}
}

// If the account rejects a request permanently, the start ends at once. If the start is
// interrupted during an outage, it deletes the containers that it has created.
func TestAStartInterruptedInAnOutageReportsItAndLeavesNothing(t *testing.T) {
	original := http.DefaultTransport
	defer func() { http.DefaultTransport = original }()
	synctest.Test(t, func(t *testing.T) {
		server := changefeedtest.NewServer(t)
		network, ok := server.Client().Transport.(*http.Transport)
		if !ok {
			t.Fatalf("the transport is a %T", server.Client().Transport)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		http.DefaultTransport = &http.Transport{DisableKeepAlives: true, DialContext: func(dial context.Context, n, address string) (net.Conn, error) {
			conn, err := network.DialContext(dial, n, address)
			if _, made := server.DB.Container(dial, "other", "copy"); made == nil && ctx.Err() == nil { // interrupt the start as soon as the target exists
				time.AfterFunc(time.Minute, interrupt)
				return &failingConn{Conn: conn}, err
			}
			return conn, err
		}}
		changefeedtest.NewContainer(t, server.DB, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
		s := &stage{T: t, said: &lines{}}
		var err error
		if s.account, err = connect.NewAccount("").OpenSettings(connect.Settings{Endpoint: server.Endpoint, Key: server.Key}); err != nil {
			t.Fatal(err)
		}
		s.account.DB = server.DB
		before := s.names()
		cfg := s.config()
		cfg.To.Database, cfg.To.Container, cfg.Leases.Database = "other", "copy", "other"
		var unfinished *UnfinishedError
		if err := Run(ctx, cfg); !errors.As(err, &unfinished) || ctx.Err() == nil {
			t.Errorf("it ended with %v\n%s", err, s.said)
		}
		if after := s.names(); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("it left %v, before %v\n%s", after, before, s.said)
		}
		if err := s.account.Close(); err != nil {
			t.Error(err)
		}
	})
}
