package integration

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/testkit"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// The start of all hosts together needs more request units than the lease container has.
// Their retries must not keep each other from starting. The leases are distributed, and
// the usage then falls to the usage at rest. The test runs in process, and over HTTP,
// where the server answers 429.
func TestHostsOnATightLeaseContainerComeToRest(t *testing.T) {
	for name, over := range map[string]bool{"store": false, "cosmos": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { restOnATightLeaseContainer(t, over) })
		})
	}
}

// tightEngine returns a function that returns the source and the lease container of a
// store, in process or behind a server.
func tightEngine(t *testing.T, db *store.DB, items, leases *store.Container, over bool) func() (feed.Source, lease.Container) {
	t.Helper()
	if !over {
		return func() (feed.Source, lease.Container) { return db.Source(items), db.Leases(leases) }
	}
	s := changefeedtest.NewServerOver(t, db, server.Options{})
	return func() (feed.Source, lease.Container) {
		a, err := cosmos.WithKey(s.Endpoint, s.Key, cosmos.Options{ClientOptions: azcore.ClientOptions{Transport: s.Client()}})
		if err != nil {
			t.Fatal(err)
		}
		return a.Source("shop", "items", cosmos.SourceOptions{}), a.Leases("shop", "leases", cosmos.LeaseOptions{})
	}
}

func restOnATightLeaseContainer(t *testing.T, over bool) {
	t.Helper()
	const hosts, partitions = 3, 4
	ctx, stop := context.WithCancel(context.Background())
	db := testkit.NewStore(t, store.Options{EnforceThroughput: true})
	items := changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/id"}, Partitions: partitions})
	leases := changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}, Throughput: 20})
	engine := tightEngine(t, db, items, leases, over)
	var throttled atomic.Int64
	var held [hosts]atomic.Int64
	ended := make(chan error, hosts)
	for i := range hosts {
		source, container := engine()
		cfg := changefeed.Config{
			Processor: "tight", Instance: fmt.Sprintf("host-%d", i),
			Source: source, Leases: container,
			Handler: changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error { return nil }),
			Notify: func(n changefeed.Notification) {
				if _, ok := errors.AsType[*feed.ThrottledError](n.Err); ok {
					throttled.Add(1)
				}
				switch n.Event {
				case changefeed.Acquired:
					held[i].Add(1)
				case changefeed.Released:
					held[i].Add(-1)
					if n.Reason == changefeed.Lost {
						t.Errorf("lease %s was lost", n.LeaseToken)
					}
				case changefeed.Failed, changefeed.Stopped, changefeed.Resumed, changefeed.GivenUp, changefeed.Paused, changefeed.Unpaused:
				}
			},
		}
		changefeedtest.Seed(&cfg, uint64(i)+1)
		p, err := changefeed.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- p.Run(ctx) }()
	}
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	for i := range held {
		if n := held[i].Load(); n < partitions/hosts || n > (partitions+hosts-1)/hosts {
			t.Errorf("host %d has %d of %d leases", i, n, partitions)
		}
	}
	stop()
	for range hosts {
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	if source, container := engine(); !initialised(t, source, container) {
		t.Error("the marker does not exist")
	}
	if n := throttled.Load(); n > 500 || n == 0 {
		t.Errorf("%d requests were throttled in 10 minutes; want 1 to 500", n)
	}
}

// initialised reports whether the marker exists. It waits until the container has throughput again.
func initialised(t *testing.T, source feed.Source, leases lease.Container) bool {
	t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	identity, err := source.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := leases.Open(t.Context(), lease.Key{Processor: "tight", Identity: identity})
	if err != nil {
		t.Fatal(err)
	}
	listing, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return !listing.Initialized.IsZero()
}
