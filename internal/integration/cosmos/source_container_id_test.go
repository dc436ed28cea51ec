package cosmos_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// alias is a transport that reaches a server under another name, such as the name of a
// region, a private endpoint or a port mapping.
type alias struct {
	*http.Client
	host string
}

func (a alias) Do(r *http.Request) (*http.Response, error) {
	r.URL.Host, r.Host = a.host, a.host
	return a.Client.Do(r)
}

// aliased returns an account of the server s that reaches it under another name.
func aliased(t *testing.T, s *changefeedtest.Server) *cosmos.Account {
	t.Helper()
	o := cosmos.Options{LimitToEndpoint: true}
	o.Transport = alias{s.Client(), strings.TrimSuffix(strings.TrimPrefix(s.Endpoint, "http://"), "/")}
	a, err := cosmos.WithKey("http://another-name.test:8081/", s.Key, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// side is one way to reach a container: as a source and as a lease container.
type side struct {
	source feed.Source
	leases lease.Container
}

// sidesOf returns all ways to reach container c of server s, by name.
func sidesOf(t *testing.T, s *changefeedtest.Server, c *store.Container) map[string]side {
	t.Helper()
	over := func(a *cosmos.Account) side {
		name := c.Identity().Container
		return side{a.Source("db", name, cosmos.SourceOptions{}), a.Leases("db", name, cosmos.LeaseOptions{})}
	}
	return map[string]side{
		"the store":    {s.DB.Source(c), s.DB.Leases(c)},
		"its endpoint": over(account(t, s, cosmos.Options{})),
		"another name": over(aliased(t, s)),
	}
}

func container(t *testing.T, s *changefeedtest.Server, name string) *store.Container {
	t.Helper()
	return changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: name, KeyPaths: []string{"/id"}})
}

// Run must refuse a lease container that is the monitored container, however both are
// reached. Otherwise each lease write would be a change, whose checkpoint is another
// lease write. On Azure that endless loop costs money.
func TestTheMonitoredContainerIsRefusedAsItsOwnLeaseContainer(t *testing.T) {
	failing := changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error { return errors.New("a handler that has begun the loop") })
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		sides := sidesOf(t, s, container(t, s, "items"))
		for one, a := range sides {
			for other, b := range sides {
				p, err := changefeed.New(changefeed.Config{
					Processor: "p", Source: a.source, Leases: b.leases, Handler: failing, DiscardLeases: true,
				})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				err = p.Run(ctx)
				cancel()
				if bad, ok := errors.AsType[*changefeed.ConfigError](err); !ok || bad.Field != "Leases" || time.Since(began) != 0 {
					t.Errorf("from %s, leases by %s: %v after %s; want a ConfigError of Leases at once", one, other, err, time.Since(began))
				} else {
					wantWords(t, err, "items of database db", "use another container for the leases")
				}
				e, err := estimator.New(estimator.Config{Processor: "p", Source: a.source, Leases: b.leases})
				if err != nil {
					t.Fatal(err)
				}
				_, err = e.Report(t.Context())
				if bad, ok := errors.AsType[*changefeed.ConfigError](err); !ok || bad.Field != "Leases" {
					t.Errorf("estimator, from %s, leases by %s: %v; want a ConfigError of Leases", one, other, err)
				}
			}
		}
		page, err := sides["the store"].source.Read(t.Context(), feed.Request{From: feed.Beginning()})
		if err != nil || len(page.Changes) > 0 {
			t.Errorf("%d changes were written, %v; want none", len(page.Changes), err)
		}
	})
}

// Two stores number their containers alike, so containers of two servers may have the
// same rid. They must count as different containers.
func TestContainersOfTwoAccountsDiffer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		twin := changefeedtest.NewServer(t)
		items, leases := sidesOf(t, s, container(t, s, "items")), sidesOf(t, twin, container(t, twin, "items"))
		for _, a := range items {
			for _, b := range leases {
				opened, err := b.leases.Open(t.Context(), fakeKey)
				if err != nil {
					t.Fatal(err)
				}
				if same, err := protocol.SameContainer(t.Context(), a.source.(feed.Identifier), opened.(feed.Identifier)); err != nil || same {
					t.Errorf("they are taken for one: %t, %v", same, err)
				}
			}
		}
		identity, err := items["its endpoint"].source.Identity(t.Context())
		if other, otherErr := leases["its endpoint"].source.Identity(t.Context()); err != nil || otherErr != nil || identity.ContainerRID != other.ContainerRID {
			t.Fatalf("the resource ids are %s and %s; the test needs them to be equal", identity.ContainerRID, other.ContainerRID)
		}
		other := sidesOf(t, s, container(t, s, "leases"))
		stop := host(t, changefeed.Config{
			Processor: "p", Source: items["the store"].source, Leases: other["another name"].leases, Handler: &delivered{counts: map[string]int{}},
		})
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Errorf("leases in another container of the account: %v", err)
		}
	})
}

// While the ids of the two containers cannot be read, Run must retry. When it has read
// them, it must refuse the monitored container as its own lease container.
func TestTheStartWaitsUntilTheContainersAreIdentified(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		c := container(t, s, "items")
		s.Fail(server.Fault{Operation: "read account", Status: 503, Count: 5})
		a := account(t, s, cosmos.Options{LimitToEndpoint: true})
		p, err := changefeed.New(changefeed.Config{
			Processor: "p", Handler: &delivered{},
			Source: a.Source("db", "items", cosmos.SourceOptions{}), Leases: s.DB.Leases(c),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		err = p.Run(ctx)
		if bad, ok := errors.AsType[*changefeed.ConfigError](err); !ok || bad.Field != "Leases" {
			t.Errorf("%v; want a ConfigError of Leases", err)
		}
	})
}
