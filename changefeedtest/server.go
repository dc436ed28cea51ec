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

// Server serves the Cosmos DB REST protocol over a store in memory. Because clients reach
// it over a network in memory, too, they can run in a testing/synctest bubble together
// with it. Its methods are safe for concurrent use, and fail the test if they fail.
type Server struct {
	// Endpoint is the account's URL. No two servers in a process share one, because SDKs
	// cache an account's properties by its URL.
	Endpoint string
	// Key is the account's key.
	Key string
	// DB is the store behind the server; each shows the other's writes.
	DB *store.DB

	t       testing.TB
	handler *server.Server
	client  *http.Client
}

// NewServer starts a server over an empty store in memory. When the test ends, the server
// stops, and the store is checked and closed as by [NewStore].
//
// An azcosmos client reaches the server through its transport:
//
//	s := changefeedtest.NewServer(t)
//	key, err := azcosmos.NewKeyCredential(s.Key)
//	client, err := azcosmos.NewClientWithKey(s.Endpoint, key, &azcosmos.ClientOptions{
//		ClientOptions: azcore.ClientOptions{Transport: s.Client()}})
//
// The server stores throughput but does not enforce it. To get throttled requests, add a
// fault ([Server.Fail]).
func NewServer(t testing.TB) *Server {
	t.Helper()
	return NewServerOver(t, testkit.NewStore(t, store.Options{}), server.Options{})
}

// NewServerOver starts a server over your own store, or with options. Close the store
// after the test has ended. The server ignores o.PublicEndpoint and sets its own.
// [Server.Key] is the first of o.Keys, or the emulators' key if there are none.
func NewServerOver(t testing.TB, db *store.DB, o server.Options) *Server {
	t.Helper()
	account := testkit.Serve(t, db, o)
	return &Server{
		Endpoint: account.Endpoint, Key: account.Key, DB: db,
		t: t, handler: account.Handler, client: account.Client,
	}
}

// Client returns the HTTP client for the server's network, the only way to reach it.
// Azure SDKs take it as their policy.Transporter.
func (s *Server) Client() *http.Client { return s.client }

// Faults returns the faults that the server applies to requests, at first none. Use
// [Server.Fail] to add one; reach for Faults to list or remove them.
func (s *Server) Faults() *server.Faults { return s.handler.Faults() }

// Fail adds a fault. It fails the test if the fault is invalid.
func (s *Server) Fail(f server.Fault) {
	s.t.Helper()
	if _, err := s.handler.Faults().Add(f); err != nil {
		s.t.Fatal(err)
	}
}

// Partitions returns a container's live physical partitions.
func (s *Server) Partitions(database, container string) []feed.Partition {
	s.t.Helper()
	all, err := s.container(database, container).Partitions(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// Split splits a physical partition in the middle of its range and returns the two new
// ones. Reads and writes continue meanwhile.
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

// Freeze holds the requests to a physical partition until [Server.Thaw] is called. See
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
