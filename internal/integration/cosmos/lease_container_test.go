package cosmos_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/lease/leasetest"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestLeasesConform(t *testing.T) {
	leasetest.RunInBubble(t, leasesOn(func(t *testing.T) (*store.DB, *cosmos.Account) {
		s := changefeedtest.NewServer(t)
		return s.DB, account(t, s, cosmos.Options{})
	}, "/id"))
}

func TestLeasesOfJavasDialectsConform(t *testing.T) {
	if race.Enabled {
		t.Skip("runs the suite of TestLeasesConform with other documents, which one goroutine encodes")
	}
	for _, d := range []lease.Dialect{lease.JavaHandleChanges, lease.JavaLatestVersion} {
		t.Run(d.Name(), func(t *testing.T) {
			leasetest.RunInBubble(t, leasesIn(d, func(t *testing.T) (*store.DB, *cosmos.Account) {
				s := changefeedtest.NewServer(t)
				return s.DB, account(t, s, cosmos.Options{})
			}, "/id"))
		})
	}
}

func TestLeasesConformByKeyField(t *testing.T) {
	leasetest.RunInBubble(t, leasesOn(func(t *testing.T) (*store.DB, *cosmos.Account) {
		skipLong(t)
		s := changefeedtest.NewServer(t)
		return s.DB, account(t, s, cosmos.Options{})
	}, "/partitionKey"))
}

func TestLeasesConformWithoutAKey(t *testing.T) {
	leasetest.RunInBubble(t, leasesOn(func(t *testing.T) (*store.DB, *cosmos.Account) {
		skipLong(t)
		s := changefeedtest.NewServer(t)
		return s.DB, account(t, s, cosmos.Options{})
	}, ""))
}

// skipLong skips the case that creates thousands of leases. Only TestLeasesConform runs
// it.
func skipLong(t *testing.T) {
	t.Helper()
	if strings.Contains(t.Name(), "thousands") {
		t.Skip("it takes long and is covered by TestLeasesConform")
	}
}

// This test runs the suite over TCP and in real time, so that connections are kept and
// closed.
func TestLeasesConformOverLoopback(t *testing.T) { leasetest.Run(t, leasesOn(loopback, "/id")) }

// loopback returns a database and an account on a server that listens on the loopback
// address.
func loopback(t *testing.T) (*store.DB, *cosmos.Account) {
	t.Helper()
	skipLong(t)
	db := changefeedtest.NewStore(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it listens at once
	if err != nil {
		t.Fatal(err)
	}
	endpoint := "http://" + listener.Addr().String() + "/"
	h, err := server.New(db, server.Options{Keys: []string{wire.EmulatorKey}, PublicEndpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close() // the server has not used its own listener yet
	s.Listener = listener
	s.Start()
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(func() { h.Drain(); transport.CloseIdleConnections(); s.Close() })
	a, err := cosmos.WithKey(endpoint, wire.EmulatorKey, cosmos.Options{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}}})
	if err != nil {
		t.Fatal(err)
	}
	return db, a
}

// account returns the account of the server s, which is reached in memory.
func account(t testing.TB, s *changefeedtest.Server, o cosmos.Options) *cosmos.Account {
	t.Helper()
	if o.Transport == nil {
		o.Transport = s.Client()
	}
	a, err := cosmos.WithKey(s.Endpoint, s.Key, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// leasesOn returns a function that creates lease containers with the partition key path,
// or without a partition key if path is empty, on the accounts that open returns. The
// former have two partitions, so that a listing must read a page of each.
func leasesOn(open func(t *testing.T) (*store.DB, *cosmos.Account), path string) leasetest.New {
	return leasesIn(lease.DotNet, open, path)
}

func leasesIn(d lease.Dialect, open func(t *testing.T) (*store.DB, *cosmos.Account), path string) leasetest.New {
	return func(t *testing.T) leasetest.Fixture {
		db, a := open(t)
		p := storetype.ContainerProperties{ID: "leases", KeyPaths: []string{path}, Partitions: 2, DefaultTTL: -1}
		key := func(id string) feed.PartitionKey { return feed.PartitionKey{id} }
		if path == "" { // a container that was created without a partition key
			p.KeyPaths, p.Partitions, p.SystemKey = nil, 0, true
			key = func(string) feed.PartitionKey { return feed.PartitionKey{feed.Undefined} }
		}
		c := changefeedtest.NewContainer(t, db, "db", p)
		f := leasetest.Fixture{
			Container: a.Leases("db", "leases", cosmos.LeaseOptions{Dialect: d}),
			Document: func(ctx context.Context, id string) ([]byte, error) {
				res, err := c.Read(ctx, key(id), id, storetype.ReadOptions{})
				return res.Body, err
			},
			Replace: func(ctx context.Context, id string, document []byte) error {
				_, err := c.Upsert(ctx, key(id), document, storetype.WriteOptions{})
				return err
			},
		}
		if path != "/partitionKey" { // the other dialects can use this partition key only
			f.Remove = func(ctx context.Context, id string) error {
				_, err := c.Delete(ctx, key(id), id, storetype.WriteOptions{})
				return err
			}
		}
		return f
	}
}

// fakeKey is the key of the leases of a processor. Its monitored container does not
// exist.
var fakeKey = lease.Key{Processor: "p", Identity: feed.Identity{
	AccountHost: "account.example.com", Database: "db", DatabaseRID: "O7RwAA==", Container: "items", ContainerRID: "O7RwAKylJbY=",
}}

// inBubble runs script in a synctest bubble, with a new server in memory.
func inBubble(t *testing.T, script func(t *testing.T, s *changefeedtest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { script(t, changefeedtest.NewServer(t)) })
}

func leaseContainer(t *testing.T, s *changefeedtest.Server) {
	t.Helper()
	changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}, DefaultTTL: -1})
}

// wantWords checks that err is not nil and that its text contains each of words.
func wantWords(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that contains %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error is %q; want it to contain %q", err, w)
		}
	}
}

func TestMissingLeaseContainerIsCreatedOnlyOnRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		a, ctx := account(t, s, cosmos.Options{}), t.Context()
		_, err := a.Leases("db", "leases", cosmos.LeaseOptions{Create: true}).Open(ctx, fakeKey)
		wantWords(t, err, "no database db", "create it")
		if _, err := s.DB.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "db"}); err != nil {
			t.Fatal(err)
		}
		_, err = a.Leases("db", "leases", cosmos.LeaseOptions{}).Open(ctx, fakeKey)
		wantWords(t, err, "no container leases", "/id", "LeaseOptions.Create")
		if strings.Contains(err.Error(), "open the lease container") {
			t.Errorf("%q repeats the text of its callers", err)
		}
		opened, err := a.Leases("db", "leases", cosmos.LeaseOptions{Create: true, Throughput: 500}).Open(ctx, fakeKey)
		if err != nil {
			t.Fatal(err)
		}
		if err := opened.SetInitialized(ctx, true); err != nil {
			t.Fatal(err)
		}
		c, err := s.DB.Container(ctx, "db", "leases")
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Properties(ctx)
		if err != nil || !reflect.DeepEqual(p.KeyPaths, []string{"/id"}) || p.DefaultTTL != -1 {
			t.Errorf("the container is partitioned by %v with a time to live of %d, %v; want /id and -1", p.KeyPaths, p.DefaultTTL, err)
		}
		again, err := a.Leases("db", "leases", cosmos.LeaseOptions{Create: true}).Open(ctx, fakeKey)
		if err != nil {
			t.Fatal(err)
		}
		if l, err := again.List(ctx); err != nil || l.Initialized.IsZero() {
			t.Errorf("opened again, the leases are %+v, %v; want the marker that was made", l, err)
		}
	})
}

func TestContainersThatCannotHoldLeasesAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		a := account(t, s, cosmos.Options{})
		for _, p := range []storetype.ContainerProperties{
			{ID: "by-customer", KeyPaths: []string{"/customer"}},
			{ID: "by-two", KeyPaths: []string{"/id", "/partitionKey"}},
			{ID: "expires", KeyPaths: []string{"/id"}, DefaultTTL: 60},
		} {
			changefeedtest.NewContainer(t, s.DB, "db", p)
			_, err := a.Leases("db", p.ID, cosmos.LeaseOptions{Create: true}).Open(t.Context(), fakeKey)
			var refused *lease.DialectError
			if !errors.As(err, &refused) {
				t.Errorf("container %s: %v; want a *lease.DialectError", p.ID, err)
			} else {
				wantWords(t, err, p.ID, "/id")
			}
		}
	})
}

func TestLeaseErrorsNameTheMissingPart(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		ctx := t.Context()
		const denied = "Request blocked by Auth mine : Request is blocked because principal [0123] on tenant [4567] does not have required RBAC permissions " +
			"to perform action [Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/create] on any scope."
		readOnly := account(t, s, cosmos.Options{})
		opened, err := readOnly.Leases("db", "leases", cosmos.LeaseOptions{}).Open(ctx, fakeKey)
		if err != nil {
			t.Fatal(err)
		}
		s.Fail(server.Fault{Operation: "create document", Status: 403})
		_, err = opened.Create(ctx, lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
		wantWords(t, err, "create lease 0", "key", "read-write", "leases")

		byToken, err := cosmos.WithCredential(strings.Replace(s.Endpoint, "http:", "https:", 1), emulatorCredential{},
			cosmos.Options{ClientOptions: azcore.ClientOptions{Transport: plain{s.Client()}}})
		if err != nil {
			t.Fatal(err)
		}
		s.Faults().Clear()
		s.Fail(server.Fault{Operation: "create document", Status: 403, SubStatus: 5300, Message: denied})
		s.Fail(server.Fault{Operation: "query documents", Status: 403, SubStatus: 5300, Message: "denied"})
		opened, err = byToken.Leases("db", "leases", cosmos.LeaseOptions{}).Open(ctx, fakeKey)
		if err != nil {
			t.Fatal(err)
		}
		_, err = opened.Create(ctx, lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
		wantWords(t, err, "lacks the right Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/create", "container leases of database db")
		_, err = opened.List(ctx)
		wantWords(t, err, "list leases", "containers/executeQuery")
	})
}

// emulatorCredential is a credential whose tokens have the form that emulators accept.
type emulatorCredential struct{}

func (emulatorCredential) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	expires := time.Now().Add(time.Hour)
	parts := []string{`{"alg":"RS256","kid":"CosmosEmulatorPrimaryMaster"}`, fmt.Sprintf(`{"exp":%d}`, expires.Unix()), wire.EmulatorKey}
	for i, part := range parts {
		parts[i] = base64.RawURLEncoding.EncodeToString([]byte(part))
	}
	return azcore.AccessToken{Token: strings.Join(parts, "."), ExpiresOn: expires}, nil
}

// plain is a transport that sends requests for https over http. A client sends tokens to
// https endpoints only, and the server has no TLS.
type plain struct{ *http.Client }

func (p plain) Do(r *http.Request) (*http.Response, error) {
	r.URL.Scheme = "http"
	return p.Client.Do(r)
}

// The store must return a 429 at once as a ThrottledError. The SDK's own retries would
// take minutes, in which the caller's lease would expire.
func TestThrottledLeaseRequestIsAnsweredAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		ctx := t.Context()
		eager := cosmos.Options{ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{StatusCodes: []int{429, 503}, MaxRetries: 9}}}
		opened, err := account(t, s, eager).Leases("db", "leases", cosmos.LeaseOptions{}).Open(ctx, fakeKey)
		if err != nil {
			t.Fatal(err)
		}
		l, err := opened.Create(ctx, lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		hits := countRequests(s)
		s.Fail(server.Fault{Container: "leases", Database: "db", Status: 429, SubStatus: 3200, RetryAfter: 1500 * time.Millisecond})
		_, listErr := opened.List(ctx)
		_, updateErr := opened.Update(ctx, l)
		_, createErr := opened.Create(ctx, lease.Lease{Token: "1", PartitionID: "1", Range: feed.Full()})
		for what, err := range map[string]error{
			"list": listErr, "update": updateErr, "create": createErr, "delete": opened.Delete(ctx, l), "mark": opened.SetInitialized(ctx, true),
		} {
			var throttled *feed.ThrottledError
			if !errors.As(err, &throttled) || throttled.RetryAfter != 1500*time.Millisecond {
				t.Errorf("%s: %v; want a *feed.ThrottledError of 1.5 s", what, err)
			}
		}
		if n := hits(); n != 5 || time.Since(began) > 0 {
			t.Errorf("5 calls made %d requests", n)
		}
	})
}

// countRequests returns a function that returns the number of requests that the server
// has received since this call.
func countRequests(s *changefeedtest.Server) func() int64 {
	var n atomic.Int64
	s.Fail(server.Fault{Delay: time.Nanosecond, Match: func(*http.Request) bool { n.Add(1); return false }})
	return n.Load
}

// failingDial is a transport on which connections fail, as if a name could not be resolved.
type failingDial struct {
	next  http.RoundTripper
	fails atomic.Int64
}

func (f *failingDial) Do(r *http.Request) (*http.Response, error) {
	if f.fails.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route to host")}
	}
	return f.next.RoundTrip(r)
}

// A processor starts a moment before its network works. It must open its leases as soon
// as the network works, so the first error must not be kept as the account's regions are.
func TestFirstFailureToReachTheAccountIsNotCached(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		transport := &failingDial{next: s.Client().Transport}
		transport.fails.Store(1000)
		leases := account(t, s, cosmos.Options{ClientOptions: azcore.ClientOptions{Transport: transport}}).Leases("db", "leases", cosmos.LeaseOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := leases.Open(ctx, fakeKey); err == nil {
			t.Fatal("leases of an account that cannot be reached are opened")
		}
		transport.fails.Store(0)
		if _, err := leases.Open(ctx, fakeKey); err != nil {
			t.Fatalf("as soon as the account is reached: %v", err)
		}
	})
}

// Open must return when its context ends, also while the account is read.
func TestOpeningLeasesEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		s.Fail(server.Fault{Operation: "read account", Delay: time.Hour})
		leases := account(t, s, cosmos.Options{}).Leases("db", "leases", cosmos.LeaseOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		_, err := leases.Open(ctx, fakeKey)
		if took := time.Since(began); err == nil || took > 11*time.Second {
			t.Errorf("Open of an account that does not answer took %s: %v; want the 10 s of its context", took, err)
		}
		s.Faults().Clear()
		if _, err := leases.Open(t.Context(), fakeKey); err != nil {
			t.Errorf("after it: %v", err)
		}
	})
}
