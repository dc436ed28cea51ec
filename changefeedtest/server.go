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

// Server is a server of the Cosmos DB REST protocol over a store in memory. Clients reach
// it over a network in memory, so they can run in a testing/synctest bubble together with
// it. Its methods are safe for concurrent use. If a method fails, the test fails.
type Server struct {
	// Endpoint is the account's URL. No two servers of a process share an endpoint,
	// because SDKs cache the properties of an account by its URL.
	Endpoint string
	// Key is the account's key.
	Key string
	// DB is the store. The server and DB show each other's writes.
	DB *store.DB

	t       testing.TB
	handler *server.Server
	client  *http.Client
}

// servers is the number of servers started in the process.
var servers atomic.Int64

// NewServer starts a server over an empty store in memory. When the test ends, the server
// stops, and the store is checked and closed as by [NewStore].
//
// A client of azcosmos reaches the server through the transport:
//
//	s := changefeedtest.NewServer(t)
//	key, err := azcosmos.NewKeyCredential(s.Key)
//	client, err := azcosmos.NewClientWithKey(s.Endpoint, key, &azcosmos.ClientOptions{
//		ClientOptions: azcore.ClientOptions{Transport: s.Client()}})
//
// The server stores the throughput of containers but does not enforce it. To get
// throttled requests, add a fault.
func NewServer(t testing.TB) *Server {
	t.Helper()
	return NewServerOver(t, newStore(t, store.Options{IgnoreThroughput: true}), server.Options{})
}

// NewServerOver starts a server over the caller's store. The caller closes the store
// after the test has ended. PublicEndpoint of o is ignored; the server sets its own.
// [Server.Key] is the first of o.Keys. If o has no keys, it is the emulators' key.
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
		t.Fatalf("cannot create the server: %v", err)
	}
	var network memnet.Network
	listener, err := network.Listen(host + ":80")
	if err != nil {
		t.Fatalf("cannot start the server: %v", err)
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
		// A client that is still connected when the test ends was not closed by the test.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close() // error: the listeners are closed already
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended: %v", err)
		}
	})
	return s
}

// clientRetries is longer than the time in which an SDK repeats a request on its own. By
// default azcore retries three times, within at most 12 s.
const clientRetries = time.Minute

// awaitClients waits, in a bubble, until clients have finished the requests that they
// send on their own. With the first request after five minutes, azcosmos reads the
// account again in the background. If the server stopped during such a request, the SDK
// would wait for its next attempt after the bubble's main goroutine has ended. Then fake
// time would no longer advance.
func (s *Server) awaitClients() {
	if inBubble() {
		s.handler.Faults().Clear()
		time.Sleep(clientRetries) // fake time
	}
}

// inBubble reports whether the goroutine runs in a testing/synctest bubble.
func inBubble() (in bool) {
	defer func() { in = recover() == nil }()
	synctest.Wait() // panics outside of a bubble
	return true
}

// Client returns the HTTP client for the server's network, the only way to reach the
// server. It implements policy.Transporter of the Azure SDKs.
func (s *Server) Client() *http.Client { return s.client }

// Faults returns the faults that the server applies to requests. At first there are none.
func (s *Server) Faults() *server.Faults { return s.handler.Faults() }

// Fail adds a fault. It fails the test if the fault is invalid.
func (s *Server) Fail(f server.Fault) {
	s.t.Helper()
	if _, err := s.handler.Faults().Add(f); err != nil {
		s.t.Fatal(err)
	}
}

// Partitions returns the live physical partitions of a container.
func (s *Server) Partitions(database, container string) []feed.Partition {
	s.t.Helper()
	all, err := s.container(database, container).Partitions(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// Split splits a physical partition in the middle of its range and returns the two new
// partitions. Reads and writes continue meanwhile.
func (s *Server) Split(database, container, partition string) []feed.Partition {
	s.t.Helper()
	made, err := s.container(database, container).Split(context.Background(), partition, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return made
}

// Merge merges two neighbouring physical partitions and returns the new one.
func (s *Server) Merge(database, container, a, b string) feed.Partition {
	s.t.Helper()
	made, err := s.container(database, container).Merge(context.Background(), a, b)
	if err != nil {
		s.t.Fatal(err)
	}
	return made
}

// Freeze holds the requests to a physical partition until Thaw is called. See
// [server.Server.Freeze].
func (s *Server) Freeze(database, container, partition string) {
	s.t.Helper()
	if err := s.handler.Freeze(context.Background(), s.container(database, container), partition); err != nil {
		s.t.Fatal(err)
	}
}

// Thaw releases the requests that Freeze holds.
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
