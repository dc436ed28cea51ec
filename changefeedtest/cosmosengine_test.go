package changefeedtest

import (
	"context"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
)

// cosmosEngine is the embedded store behind two servers, reached over HTTP as Azure Cosmos DB is: the monitored container in
// one account, the lease container in another. What a test does to the containers it does to the store itself.
type cosmosEngine struct {
	*storeEngine
	t                   testing.TB
	items, leasesServer *Server
}

var _ engine = (*cosmosEngine)(nil)

// newCosmosEngine makes an engine that ends with the test.
func newCosmosEngine(t testing.TB, partitions int, mode feed.Mode) *cosmosEngine {
	t.Helper()
	inner, err := newStoreEngine(context.Background(), partitions, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inner.close(); err != nil {
			t.Error(err)
		}
	})
	leases := newStore(t, store.Options{IgnoreThroughput: true, PurgeInterval: -1, Memory: 4 << 20})
	NewContainer(t, leases, storeDatabase, store.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}, DefaultTTL: -1})
	return &cosmosEngine{
		storeEngine: inner, t: t,
		items:        NewServerOver(t, inner.db, server.Options{}),
		leasesServer: NewServerOver(t, leases, server.Options{}),
	}
}

// account is a server's account, for a client of its own: what one host knows of the account, others don't.
func (e *cosmosEngine) account(s *Server) *cosmos.Account {
	e.t.Helper()
	a, err := cosmos.WithKey(s.Endpoint, s.Key, cosmos.Options{ClientOptions: azcore.ClientOptions{Transport: s.Client()}})
	if err != nil {
		e.t.Fatal(err)
	}
	return a
}

func (e *cosmosEngine) source() feed.Source {
	return e.account(e.items).Source(storeDatabase, "items", cosmos.SourceOptions{})
}

func (e *cosmosEngine) leases() lease.Container {
	return e.account(e.leasesServer).Leases(storeDatabase, "leases", cosmos.LeaseOptions{})
}

// close does nothing: the test's end closes the servers, and the stores after them.
func (e *cosmosEngine) close() error { return nil }
