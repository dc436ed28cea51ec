package azcosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

// env contains the server's endpoint, its keys, and the clients of the run.
var (
	env       harness.Env
	databases atomic.Int64
)

func TestMain(m *testing.M) {
	var err error
	if env, err = harness.FromEnvironment(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if token := os.Getenv(childToken); token != "" {
		os.Exit(child(token))
	}
	os.Exit(env.Main(m))
}

// item is a document of the scenarios.
type item struct {
	ID string `json:"id"`
	PK string `json:"pk"`
	V  int    `json:"v"`
}

func (i item) json() []byte { return encode(i) }

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a value of the test's own never fails
	}
	return b
}

func decode[T any](t *testing.T, b []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return v
}

// newClient returns a client for the account with this key. As for a user's program, the
// variable SSL_CERT_FILE makes it trust the server's certificate (see the file run).
func newClient(key string, o azcosmos.ClientOptions) (*azcosmos.Client, error) {
	credential, err := azcosmos.NewKeyCredential(key)
	if err != nil {
		return nil, err
	}
	return azcosmos.NewClientWithKey(env.Endpoint+"/", credential, &o)
}

func client(t *testing.T) *azcosmos.Client {
	t.Helper()
	c, err := newClient(env.Key, azcosmos.ClientOptions{})
	ok(t, err)
	t.Cleanup(c.Close)
	return c
}

// database creates a database for a test, and deletes it when the test ends.
func database(t *testing.T) *azcosmos.DatabaseClient {
	t.Helper()
	c := client(t)
	name := fmt.Sprintf("go-%d-%d", os.Getpid(), databases.Add(1))
	_, err := c.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: name}, nil)
	ok(t, err)
	db, err := c.NewDatabase(name)
	ok(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		_, err := db.Delete(ctx, nil)
		ok(t, err)
	})
	return db
}

// container creates a database with one container of 20,000 RU/s, which has two
// partitions. paths are its partition key paths. If empty, the path is /pk.
func container(t *testing.T, paths ...string) *azcosmos.ContainerClient {
	t.Helper()
	properties := azcosmos.ContainerProperties{ID: "items"}
	switch {
	case len(paths) > 1:
		properties.PartitionKeyDefinition = azcosmos.PartitionKeyDefinition{
			Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2, Paths: paths,
		}
	default:
		properties.PartitionKeyDefinition = azcosmos.PartitionKeyDefinition{
			Kind: azcosmos.PartitionKeyKindHash, Version: 2, Paths: []string{"/pk"},
		}
	}
	return containerOf(t, properties)
}

func containerOf(t *testing.T, properties azcosmos.ContainerProperties) *azcosmos.ContainerClient {
	t.Helper()
	db := database(t)
	throughput := azcosmos.NewManualThroughputProperties(20_000)
	_, err := db.CreateContainer(t.Context(), properties, &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput})
	ok(t, err)
	c, err := db.NewContainer(properties.ID)
	ok(t, err)
	owners.Store(c, db.ID())
	t.Cleanup(func() { owners.Delete(c) })
	return c
}

// owners maps a container to the name of its database, which the SDK's client does not
// expose.
var owners sync.Map

// at returns the names of a container and of its database, for requests to the admin API.
func at(c *azcosmos.ContainerClient) harness.Container {
	return harness.Container{Database: databaseOf(c), Name: c.ID()}
}

func databaseOf(c *azcosmos.ContainerClient) string {
	name, _ := owners.Load(c)
	return name.(string)
}

func pk(s string) azcosmos.PartitionKey { return azcosmos.NewPartitionKeyString(s) }

// upsert writes items to a container, each under its partition key.
func upsert(t *testing.T, c *azcosmos.ContainerClient, items ...item) {
	t.Helper()
	for _, i := range items {
		_, err := c.UpsertItem(t.Context(), pk(i.PK), i.json(), nil)
		ok(t, err)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused fails the test unless err is an answer with the given HTTP status.
func refused(t *testing.T, err error, status int) {
	t.Helper()
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		t.Fatalf("not an answer of the server: %v", err)
	}
	if answer.StatusCode != status {
		t.Fatalf("status %d, want %d: %v", answer.StatusCode, status, err)
	}
}

func equal[T comparable](t *testing.T, got, want T, what string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// counter is a policy that counts the requests of a client, including retries.
type counter struct{ requests atomic.Int64 }

func (c *counter) Do(r *policy.Request) (*http.Response, error) {
	c.requests.Add(1)
	return r.Next()
}

// until calls done every 50 ms until it returns true. If that takes longer than a minute,
// it fails the test. what describes the condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
