// Package azure runs the conformance suites and a processor against an account that you
// own. `make azure` starts it after it has asked; without -azure.endpoint its tests are
// skipped.
package azure

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/internal/wire/wiretest"
)

var endpoint = flag.String("azure.endpoint", "", "`URL` of an account to test; its key is in COSMOS_KEY")

// database is the database of these tests. internal/recorded creates and deletes it, also if
// the tests are interrupted.
const database = "changefeed-conformance"

// client returns a client of the account.
func client() (*wiretest.Client, error) {
	key, err := wire.ParseKey(os.Getenv("COSMOS_KEY"))
	if err != nil {
		return nil, fmt.Errorf("COSMOS_KEY: %w", err)
	}
	return &wiretest.Client{Endpoint: strings.TrimSuffix(*endpoint, "/"), Key: key}, nil
}

// do sends a request, again and again while the account throttles it.
func do(ctx context.Context, c *wiretest.Client, method, path, body string, headers ...string) (http.Header, []byte, error) {
	for {
		h, text, err := c.Do(ctx, method, path, body, append(headers, wire.HeaderVersion, "2020-07-15")...)
		refused, ok := errors.AsType[*wiretest.StatusError](err)
		if !ok || refused.Status != http.StatusTooManyRequests {
			return h, text, err
		}
		ms, err := strconv.Atoi(h.Get("x-ms-retry-after-ms"))
		if err != nil {
			ms = 500
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(time.Duration(ms) * time.Millisecond):
		}
	}
}

// containers counts the containers, each of which has a name of its own.
var containers atomic.Int64

// container is a container of the account, which lives as long as its test.
type container struct {
	*wiretest.Client
	name, path string
}

// newContainer creates a container with the given members besides its id. It skips the test
// if there is no account.
func newContainer(t *testing.T, members string) (container, *cosmos.Account) {
	t.Helper()
	if *endpoint == "" {
		t.Skip("needs -azure.endpoint (make azure)")
	}
	client, err := client()
	if err != nil {
		t.Fatal(err)
	}
	account, err := cosmos.WithKey(*endpoint, os.Getenv("COSMOS_KEY"), cosmos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := container{Client: client, name: fmt.Sprintf("c%d", containers.Add(1))}
	c.path = "/dbs/" + database + "/colls/" + c.name
	if _, _, err := do(t.Context(), client, http.MethodPost, "/dbs/"+database+"/colls", fmt.Sprintf(`{"id":%q,%s}`, c.name, members)); err != nil {
		t.Fatalf("create a container with %s: %v", members, err)
	}
	t.Cleanup(func() {
		err := c.drop(context.WithoutCancel(t.Context()))
		if refused, ok := errors.AsType[*wiretest.StatusError](err); err != nil && (!ok || refused.Status != http.StatusNotFound) {
			t.Errorf("delete the container: %v", err)
		}
	})
	return c, account
}

func (c container) drop(ctx context.Context) error {
	_, _, err := do(ctx, c.Client, http.MethodDelete, c.path, "")
	return err
}

// upsert writes a document with a partition key.
func (c container) upsert(ctx context.Context, key, document string) error {
	_, _, err := do(ctx, c.Client, http.MethodPost, c.path+"/docs", document, wire.HeaderPartitionKey, key, wire.HeaderUpsert, "true")
	return err
}

func (c container) remove(ctx context.Context, key, id string) error {
	_, _, err := do(ctx, c.Client, http.MethodDelete, c.path+"/docs/"+id, "", wire.HeaderPartitionKey, key)
	return err
}
