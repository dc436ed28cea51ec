package serve

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

// A server in memory starts again, and its clients create their containers again. The
// resource ids that a client has cached must not name the new ones, whose positions are
// others.
func TestAServerInMemoryStartsWithOtherResourceIDs(t *testing.T) {
	var old feed.Identity
	for range 2 {
		opened, err := Config{}.open(slog.New(slog.DiscardHandler), memoryPlan{}, descriptorPlan{})
		if err != nil {
			t.Fatal(err)
		}
		db := (*engine.DB)(opened)
		if _, err := opened.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "shop"}); err != nil {
			t.Fatal(err)
		}
		c, err := db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/pk"}})
		if err != nil {
			t.Fatal(err)
		}
		if found, err := db.ContainerByRID(t.Context(), c.Identity().ContainerRID); err != nil || found != c {
			t.Errorf("the container is not found by its own rid: %v", err)
		}
		if old.ContainerRID != "" {
			if _, err := db.ContainerByRID(t.Context(), old.ContainerRID); !errors.Is(err, feed.ErrNotFound) {
				t.Errorf("the rid of the old container: %v, want not found", err)
			}
			if _, err := db.DatabaseByRID(t.Context(), old.DatabaseRID); !errors.Is(err, feed.ErrNotFound) {
				t.Errorf("the rid of the old database: %v, want not found", err)
			}
		}
		old = c.Identity()
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A client that stays up while a server in memory starts again reads on from its position.
// It must be told that the container is another one. With the container's old id, the answer
// would be 404/1002 again and again, which SDKs retry, or a page from the middle of the new feed.
func TestAClientNoticesThatTheServerInMemoryStartedAgain(t *testing.T) {
	var current atomic.Pointer[server.Server]
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().ServeHTTP(w, r) }))
	t.Cleanup(proxy.Close)
	// start replaces the server by one with an empty store, in which the client creates its
	// container again.
	start := func(documents ...string) {
		db, err := Config{}.open(slog.New(slog.DiscardHandler), memoryPlan{}, descriptorPlan{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := server.New(db, server.Options{Keys: []string{wire.EmulatorKey}, PublicEndpoint: proxy.URL + "/"})
		if err != nil {
			t.Fatal(err)
		}
		current.Store(s)
		t.Cleanup(func() {
			s.Drain()
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "shop"}); err != nil {
			t.Fatal(err)
		}
		c, err := db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/pk"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range documents {
			if _, err := c.Create(t.Context(), nil, []byte(d), storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	start(`{"id":"1","pk":"a"}`, `{"id":"2","pk":"a"}`)
	a, err := cosmos.WithKey(proxy.URL, wire.EmulatorKey, cosmos.Options{ClientOptions: azcore.ClientOptions{Transport: proxy.Client()}})
	if err != nil {
		t.Fatal(err)
	}
	source := a.Source("shop", "orders", cosmos.SourceOptions{})
	page, err := source.Read(t.Context(), feed.Request{Range: feed.Full(), From: feed.Beginning()})
	if err != nil || len(page.Changes) != 2 {
		t.Fatalf("%d changes, %v", len(page.Changes), err)
	}
	start(`{"id":"other","pk":"a"}`)
	_, err = source.Read(t.Context(), feed.Request{Range: feed.Full(), From: feed.After(page.Continuation)})
	if recreated, ok := errors.AsType[*cosmos.RecreatedError](err); !ok || !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("a read after the restart: %v (%v); want a RecreatedError", err, recreated)
	}
}
