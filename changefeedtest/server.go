package changefeedtest

import (
	"context"
	"net/http"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/testkit"
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
	return NewServerOver(t, testkit.NewStore(t, store.Options{}), server.Options{})
}

// NewServerOver starts a server over the caller's store. The caller closes the store
// after the test has ended. PublicEndpoint of o is ignored; the server sets its own.
// [Server.Key] is the first of o.Keys. If o has no keys, it is the emulators' key.
func NewServerOver(t testing.TB, db *store.DB, o server.Options) *Server {
	t.Helper()
	account := testkit.Serve(t, db, o)
	return &Server{
		Endpoint: account.Endpoint, Key: account.Key, DB: db,
		t: t, handler: account.Handler, client: account.Client,
	}
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
