package simulation

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/internal/testkit"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// cosmosEngine is the embedded store behind two servers, reached over HTTP as Azure
// Cosmos DB is. One account has the monitored container, the other the lease container.
// The tests change the containers through the store itself.
type cosmosEngine struct {
	*storeEngine
	t                   testing.TB
	items, leasesServer *testkit.Account
	leasesContainer     *store.Container
}

var _ engine = (*cosmosEngine)(nil)

// newCosmosEngine returns an engine that is closed when the test ends.
func newCosmosEngine(t testing.TB, partitions int, mode feed.Mode) *cosmosEngine {
	t.Helper()
	inner, err := newStoreEngine(context.Background(), mode, storetype.ContainerProperties{Partitions: partitions}, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inner.close(); err != nil {
			t.Error(err)
		}
	})
	leases := testkit.NewStore(t, store.Options{PurgeInterval: -1, Memory: 4 << 20})
	documents := testkit.NewContainer(t, leases, storeDatabase, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}, DefaultTTL: -1})
	return &cosmosEngine{
		storeEngine: inner, t: t,
		items:        testkit.Serve(t, inner.db, server.Options{}),
		leasesServer: testkit.Serve(t, leases, server.Options{}), leasesContainer: documents,
	}
}

// account returns a new client of a server's account. Each host gets its own client, so
// that hosts do not share cached account properties.
func (e *cosmosEngine) account(s *testkit.Account) *cosmos.Account {
	e.t.Helper()
	a, err := cosmos.WithKey(s.Endpoint, s.Key, cosmos.Options{ClientOptions: azcore.ClientOptions{Transport: s.Client}})
	if err != nil {
		e.t.Fatal(err)
	}
	return a
}

func (e *cosmosEngine) source() feed.Source {
	return e.account(e.items).Source(storeDatabase, "items", cosmos.SourceOptions{Dialect: e.dialect})
}

func (e *cosmosEngine) leases() lease.Container {
	return e.account(e.leasesServer).Leases(storeDatabase, "leases", cosmos.LeaseOptions{Dialect: e.dialect})
}

// close does nothing. The end of the test closes the servers and then the stores.
func (e *cosmosEngine) close() error { return nil }

// overSeeds returns the number of seeds that TestSimulationOverHTTP runs.
func overSeeds() uint64 {
	switch {
	case *simSeeds > 0:
		return uint64(*simSeeds)
	case testing.Short() || race.Enabled:
		return 2
	}
	return 8
}

// TestSimulationOverHTTP runs seeds of the simulation over HTTP, judged by the same rules. Hosts
// have the same faults as in memory, but clocks are right. In seeds with faults, the servers
// also refuse requests and drop connections.
func TestSimulationOverHTTP(t *testing.T) {
	total, disturbed, hits := &totals{}, 0, 0
	for seed := *simFirst; seed < *simFirst+overSeeds(); seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := planOf(seed)
				p.overHTTP = true
				sc := newScenario(p)
				e := newCosmosEngine(t, sc.partitions, sc.mode)
				e.dialect = sc.dialect
				if sc.faultLevel != calm {
					disturbed++
					e.disturb(seed, time.Now().Add(sc.active))
				}
				s := sc.simulate(t.Context(), e, true)
				for _, v := range s.violations {
					t.Errorf("seed %d: %s", seed, v)
				}
				if t.Failed() {
					t.Logf("\n%s\n%s", tail(s.trace), sc)
				}
				total.add(s)
				for _, f := range slices.Concat(e.items.Handler.Faults().List(), e.leasesServer.Handler.Faults().List()) {
					hits += f.Hits
				}
			})
		})
	}
	t.Logf("%s; %d requests failed at the servers", total, hits)
	if hits < 10*disturbed {
		t.Errorf("%d requests failed in %d seeds", hits, disturbed)
	}
}

// disturb makes the servers fail a part of the requests for documents, until the given
// time. A server does not carry out a request that it fails. Requests that are carried
// out but not answered are faults of the hosts' links, because the ledger must record them.
func (e *cosmosEngine) disturb(seed uint64, until time.Time) {
	for i, s := range []*testkit.Account{e.items, e.leasesServer} {
		for k, f := range []server.Fault{
			{Status: 429, SubStatus: 3200, RetryAfter: 400 * time.Millisecond},
			{Status: 449, RetryAfter: 50 * time.Millisecond},
			{Status: 503},
			{Status: 500},
			{Status: 408},
			{Drop: true},
			{Status: 410, SubStatus: 1008},
			{Delay: 700 * time.Millisecond},
		} {
			f.Probability, f.Seed = 0.01, seed<<8|uint64(i<<4|k)
			f.Match = func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/docs") && time.Now().Before(until) }
			if _, err := s.Handler.Faults().Add(f); err != nil {
				e.t.Fatal(err)
			}
		}
	}
}
