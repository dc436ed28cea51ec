package cosmos_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

// openAsGateway opens leases on a server that answers 404 without a sub-status, as
// gateways of Azure Cosmos DB may do. reads is the number of times that the container's
// properties were read.
func openAsGateway(t *testing.T, s *changefeedtest.Server) (opened lease.Store, reads *atomic.Int64) {
	t.Helper()
	reads = new(atomic.Int64)
	opened = openAltered(t, s, func(r *http.Request, res *http.Response) {
		if res.StatusCode == http.StatusNotFound {
			res.Header.Del(wire.HeaderSubStatus)
		}
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/colls/leases") {
			reads.Add(1)
		}
	})
	reads.Store(0)
	return opened, reads
}

// The store must return feed.ErrNotFound for a deleted lease document, and another error
// if the lease container was deleted. After ErrNotFound the owner of a lease puts it
// back.
func TestDeletedContainerIsNotADeletedLease(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, s *changefeedtest.Server) lease.Store{
		"404/1003": func(t *testing.T, s *changefeedtest.Server) lease.Store {
			t.Helper()
			return openAltered(t, s, func(*http.Request, *http.Response) {})
		},
		"404/0": func(t *testing.T, s *changefeedtest.Server) lease.Store {
			t.Helper()
			opened, _ := openAsGateway(t, s)
			return opened
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
				leaseContainer(t, s)
				ctx, opened := t.Context(), open(t, s)
				l, err := opened.Create(ctx, lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
				if err != nil {
					t.Fatal(err)
				}
				if err := opened.Delete(ctx, l); err != nil {
					t.Fatal(err)
				}
				_, err = opened.Update(ctx, l)
				for what, err := range map[string]error{"update": err, "delete": opened.Delete(ctx, l)} {
					if !errors.Is(err, feed.ErrNotFound) {
						t.Errorf("%s of a deleted lease: %v; want feed.ErrNotFound", what, err)
					}
				}
				if err := opened.SetInitialized(ctx, false); err != nil {
					t.Errorf("delete a marker that does not exist: %v", err)
				}
				time.Sleep(time.Minute)
				if err := s.DB.DeleteContainer(ctx, "db", "leases"); err != nil {
					t.Fatal(err)
				}
				_, err = opened.Update(ctx, l)
				_, createErr := opened.Create(ctx, l)
				_, listErr := opened.List(ctx)
				for what, err := range map[string]error{
					"update": err, "create": createErr, "list": listErr, "delete": opened.Delete(ctx, l), "mark": opened.SetInitialized(ctx, false),
				} {
					if errors.Is(err, feed.ErrNotFound) {
						t.Errorf("%s: %v, which means that only the lease is gone", what, err)
					}
					wantWords(t, err, "no container leases of database db")
				}
			})
		})
	}
}

// The lease container was deleted, and many of its leases are requested. The store must
// not read the container's properties for each of them. It may reuse a result for a short
// time only.
func TestContainerOfMissingLeasesIsReadRarely(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		ctx := t.Context()
		opened, reads := openAsGateway(t, s)
		miss := func(want int64) {
			t.Helper()
			for range 20 {
				if err := opened.Delete(ctx, lease.Lease{ID: "none", Token: "0", ETag: `"none"`}); !errors.Is(err, feed.ErrNotFound) {
					t.Fatalf("%v; want feed.ErrNotFound", err)
				}
			}
			if got := reads.Load(); got != want {
				t.Errorf("the container was read %d times; want %d", got, want)
			}
		}
		miss(1)
		time.Sleep(time.Minute)
		miss(2)
	})
}

// A lease document is missing, and the container's properties cannot be read. The store
// must not return feed.ErrNotFound, because the container may have been deleted.
func TestMissingLeaseIsReportedOnlyAfterItsContainerIsRead(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		ctx := t.Context()
		opened, _ := openAsGateway(t, s)
		l, err := opened.Create(ctx, lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
		if err == nil {
			err = opened.Delete(ctx, l)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Fail(server.Fault{Operation: "read container", Status: 429, SubStatus: 3200})
		_, err = opened.Update(ctx, l)
		var throttled *feed.ThrottledError
		if errors.Is(err, feed.ErrNotFound) || errors.As(err, &throttled) {
			t.Errorf("%v; want an error of unknown outcome", err)
		}
		wantWords(t, err, "update lease 0", "cannot be read")
		s.Faults().Clear()
		if _, err = opened.Update(ctx, l); !errors.Is(err, feed.ErrNotFound) {
			t.Errorf("%v; want feed.ErrNotFound", err)
		}
	})
}

// The lease container of a running processor is deleted. The processor must put no lease
// back, and notify an error that names the container. After the container was recreated,
// the processor must resume. It may deliver changes again, because the new container has
// no marker.
func TestOwnersOutliveTheirLeaseContainer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		c := changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/id"}})
		items := func(n int) {
			t.Helper()
			for range n {
				if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%s"}`, rand.Text()), storetype.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		gateway := altered{s.Client(), func(_ *http.Request, res *http.Response) {
			if res.StatusCode == http.StatusNotFound {
				res.Header.Del(wire.HeaderSubStatus)
			}
		}}
		o := cosmos.Options{}
		o.Transport = gateway
		a := account(t, s, o)
		got := &delivered{counts: map[string]int{}}
		var named, putBack atomic.Int64
		stop := host(t, changefeed.Config{
			Processor: "p", Handler: got, Start: feed.Beginning(),
			Source: a.Source("db", "items", cosmos.SourceOptions{}), Leases: a.Leases("db", "leases", cosmos.LeaseOptions{}),
			Notify: func(n changefeed.Notification) {
				if n.Err != nil && strings.Contains(n.Err.Error(), "there is no container leases") {
					named.Add(1)
				}
				if n.Err != nil && strings.Contains(n.Err.Error(), "create") {
					putBack.Add(1)
				}
			},
		})
		items(10)
		time.Sleep(30 * time.Second)
		if err := s.DB.DeleteContainer(t.Context(), "db", "leases"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if named.Load() == 0 || putBack.Load() > 0 {
			t.Errorf("%d errors name the container; %d leases were put back into a container that does not exist", named.Load(), putBack.Load())
		}
		leaseContainer(t, s)
		time.Sleep(5 * time.Minute)
		items(10)
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		got.mu.Lock()
		defer got.mu.Unlock()
		if len(got.counts) != 20 {
			t.Errorf("%d of 20 changes are delivered", len(got.counts))
		}
	})
}
