package connect

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/internal/memnet"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
)

// embedded is a store in a directory, behind a server in this process. Commands reach the
// server over a network in memory.
type embedded struct {
	db        *store.DB
	endpoint  string
	key       string
	transport *http.Transport
	server    *http.Server
	served    chan error
}

// opened counts the stores that this process has opened. SDKs cache an account's
// properties by endpoint, so each store gets an endpoint of its own.
var opened atomic.Int64

// openEmbedded opens the store in dir, and starts a server over it. The account's host is
// localhost, as for a store that is used in process. Leases therefore have the same ids
// either way.
func openEmbedded(dir string) (*embedded, error) {
	db, err := openExisting(dir)
	if err != nil {
		return nil, err
	}
	e, err := serveEmbedded(db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return e, nil
}

func serveEmbedded(db *store.DB) (*embedded, error) {
	secret := make([]byte, 64)
	_, _ = rand.Read(secret) // it never fails
	address := fmt.Sprintf("localhost:%d", opened.Add(1))
	e := &embedded{db: db, endpoint: "http://" + address + "/", key: base64.StdEncoding.EncodeToString(secret), served: make(chan error, 1)}
	handler, err := server.New(db, server.Options{Keys: []string{e.key}, PublicEndpoint: e.endpoint})
	if err != nil {
		return nil, err
	}
	var network memnet.Network
	listener, err := network.Listen(address)
	if err != nil {
		return nil, err
	}
	e.transport = &http.Transport{DialContext: network.Dial, MaxIdleConnsPerHost: 64}
	e.server = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	e.server.RegisterOnShutdown(handler.Drain)
	go func() { e.served <- e.server.Serve(listener) }()
	return e, nil
}

// close stops the server, and then closes the store.
func (e *embedded) close() error {
	e.transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if e.server.Shutdown(ctx) != nil {
		_ = e.server.Close() // the command no longer needs the remaining connections
	}
	return errors.Join(e.ended(), e.db.Close())
}

// openExisting opens the store in dir. It does not create a store, because dir may be
// mistyped.
func openExisting(dir string) (*store.DB, error) {
	if _, err := os.Stat(filepath.Join(dir, "FORMAT")); err != nil { // each store has this file, see internal/layout/FORMAT.md
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s has no store", dir)
		}
		return nil, err
	}
	return store.Open(dir, store.Options{})
}

// ended waits until Serve returns, and returns its error. It returns nil after a regular
// shutdown.
func (e *embedded) ended() error {
	if err := <-e.served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
