package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/memnet"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
)

// Account is a running server. Clients reach it over a network in memory.
type Account struct {
	// Endpoint is the account's URL. No two accounts of a process share an endpoint,
	// because SDKs cache the properties of an account by its URL.
	Endpoint string
	// Key is the account's key.
	Key     string
	Handler *server.Server
	// Client is the HTTP client for the account's network.
	Client *http.Client
}

// servers is the number of servers started in the process.
var servers atomic.Int64

// Serve starts a server over a store. The server stops when the test ends. PublicEndpoint
// of o is ignored. The account's key is the first of o.Keys, or the emulators' key.
func Serve(t testing.TB, db *store.DB, o server.Options) *Account {
	t.Helper()
	host := fmt.Sprintf("account-%d.changefeed.test", servers.Add(1))
	a := &Account{Endpoint: "http://" + host + "/", Key: wire.EmulatorKey}
	if len(o.Keys) > 0 {
		a.Key = o.Keys[0]
	}
	o.PublicEndpoint = a.Endpoint
	var err error
	if a.Handler, err = server.New(db, o); err != nil {
		t.Fatalf("cannot create the server: %v", err)
	}
	var network memnet.Network
	listener, err := network.Listen(host + ":80")
	if err != nil {
		t.Fatalf("cannot start the server: %v", err)
	}
	transport := &http.Transport{DialContext: network.Dial, MaxIdleConnsPerHost: 64}
	a.Client = &http.Client{Transport: transport}
	srv := &http.Server{Handler: a.Handler, ReadHeaderTimeout: time.Minute}
	srv.RegisterOnShutdown(a.Handler.Drain)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	t.Cleanup(func() {
		a.awaitClients()
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
	return a
}

// clientRetries is longer than the time in which an SDK repeats a request on its own. By
// default azcore retries three times, within at most 12 s.
const clientRetries = time.Minute

// awaitClients waits, in a bubble, until clients have finished the requests that they
// send on their own. With the first request after five minutes, azcosmos reads the
// account again in the background. If the server stopped during such a request, the SDK
// would wait for its next attempt after the bubble's main goroutine has ended. Then fake
// time would no longer advance.
func (a *Account) awaitClients() {
	if inBubble() {
		a.Handler.Faults().Clear()
		time.Sleep(clientRetries) // fake time
	}
}

// inBubble reports whether the goroutine runs in a testing/synctest bubble.
func inBubble() (in bool) {
	defer func() { in = recover() == nil }()
	synctest.Wait() // panics outside of a bubble
	return true
}
