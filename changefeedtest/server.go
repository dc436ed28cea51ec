package changefeedtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/memnet"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
)

// Server is a Cosmos DB REST server over a store in memory, reached over a
// network in memory, so that clients and it also run inside a testing/synctest bubble.
// Its methods may be called concurrently; where they fail, the test does.
type Server struct {
	// Endpoint is the account's URL; no two servers of a process have the same, because SDKs
	// remember what they know of an account by it.
	Endpoint string
	// Key is the account's key.
	Key string
	// DB is the store. What is done to it shows in the server, and the other way round.
	DB *store.DB

	t       testing.TB
	handler *server.Server
	client  *http.Client
}

// servers numbers the servers of the process.
var servers atomic.Int64

// NewServer starts a server over an empty store in memory. When the test ends, the server ends, and
// the store is checked and closed as by [NewStore].
//
// A client of azcosmos reaches it by the transport:
//
//	s := changefeedtest.NewServer(t)
//	key, err := azcosmos.NewKeyCredential(s.Key)
//	client, err := azcosmos.NewClientWithKey(s.Endpoint, key, &azcosmos.ClientOptions{
//		ClientOptions: azcore.ClientOptions{Transport: s.Client()}})
//
// The throughput of containers is kept, and bounds nothing; for throttled requests add a fault.
func NewServer(t testing.TB) *Server {
	t.Helper()
	return NewServerOver(t, newStore(t, store.Options{IgnoreThroughput: true}), server.Options{})
}

// NewServerOver starts a server over a store that the caller made, and closes after the test's end. PublicEndpoint
// is always the server's own; the first of Keys signs for [Server.Key].
func NewServerOver(t testing.TB, db *store.DB, o server.Options) *Server {
	t.Helper()
	host := fmt.Sprintf("account-%d.changefeed.test", servers.Add(1))
	s := &Server{Endpoint: "http://" + host + "/", Key: wire.EmulatorKey, DB: db, t: t}
	if len(o.Keys) > 0 {
		s.Key = o.Keys[0]
	}
	o.PublicEndpoint = s.Endpoint
	var err error
	if s.handler, err = server.New(db, o); err != nil {
		t.Fatalf("make the server: %v", err)
	}
	var network memnet.Network
	listener, err := network.Listen(host + ":80")
	if err != nil {
		t.Fatalf("start the server: %v", err)
	}
	transport := &http.Transport{DialContext: network.Dial, MaxIdleConnsPerHost: 64}
	s.client = &http.Client{Transport: transport}
	srv := &http.Server{Handler: s.handler, ReadHeaderTimeout: time.Minute}
	srv.RegisterOnShutdown(s.handler.Drain)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	t.Cleanup(func() {
		s.awaitClients()
		transport.CloseIdleConnections()
		// Whose client is still there at the end of a test has forgotten it.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close() // of listeners that are closed already
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended: %v", err)
		}
	})
	return s
}

// clientRetries is longer than an SDK repeats a request by itself: azcore's default is three
// times, after 12 s in all at most.
const clientRetries = time.Minute

// awaitClients waits, in a bubble, until clients have finished their own requests. azcosmos reads the account again in the
// background, with the first request after five minutes. Would the server end meanwhile, the SDK would wait for its
// next attempt when the bubble's main goroutine is gone, and time with it.
func (s *Server) awaitClients() {
	if inBubble() {
		s.handler.Faults().Clear()
		time.Sleep(clientRetries) // no time at all
	}
}

// inBubble reports whether the goroutine runs in a testing/synctest bubble.
func inBubble() (in bool) {
	defer func() { in = recover() == nil }()
	synctest.Wait() // panics outside of a bubble
	return true
}

// Client is the only way to reach the server: an HTTP client for its network. It is a
// policy.Transporter, as Azure SDKs want it.
func (s *Server) Client() *http.Client { return s.client }

// Faults are what goes wrong with the requests to the server; nothing, at first.
func (s *Server) Faults() *server.Faults { return s.handler.Faults() }

// Fail adds a fault.
func (s *Server) Fail(f server.Fault) {
	s.t.Helper()
	if _, err := s.handler.Faults().Add(f); err != nil {
		s.t.Fatal(err)
	}
}

// Partitions are the live physical partitions of a container.
func (s *Server) Partitions(database, container string) []feed.Partition {
	s.t.Helper()
	all, err := s.container(database, container).Partitions(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// Split divides a physical partition in the middle of its range, and returns the two new ones. Readers and
// writers go on.
func (s *Server) Split(database, container, partition string) []feed.Partition {
	s.t.Helper()
	made, err := s.container(database, container).Split(context.Background(), partition, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return made
}

// Merge makes one physical partition of two neighbours, and returns it.
func (s *Server) Merge(database, container, a, b string) feed.Partition {
	s.t.Helper()
	made, err := s.container(database, container).Merge(context.Background(), a, b)
	if err != nil {
		s.t.Fatal(err)
	}
	return made
}

// Freeze holds the requests to a physical partition until Thaw; see [server.Server.Freeze].
func (s *Server) Freeze(database, container, partition string) {
	s.t.Helper()
	if err := s.handler.Freeze(context.Background(), s.container(database, container), partition); err != nil {
		s.t.Fatal(err)
	}
}

// Thaw lets the requests go on that Freeze holds.
func (s *Server) Thaw(database, container, partition string) {
	s.t.Helper()
	if err := s.handler.Thaw(context.Background(), s.container(database, container), partition); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) container(database, container string) *store.Container {
	s.t.Helper()
	c, err := s.DB.Container(context.Background(), database, container)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}
