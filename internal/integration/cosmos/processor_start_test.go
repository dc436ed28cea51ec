package cosmos_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// anotherKey is a valid account key that no server of these tests accepts.
var anotherKey = base64.StdEncoding.EncodeToString([]byte("another account's key"))

// beginner is a processor that was not started yet. It records the errors that it
// notifies.
type beginner struct {
	config changefeed.Config
	got    *delivered

	mu   sync.Mutex // guards told
	told []error
}

// newBeginner returns a processor of db/items with leases in db/leases.
func newBeginner(monitored, leases *cosmos.Account) *beginner {
	b := &beginner{got: &delivered{counts: map[string]int{}}}
	b.config = changefeed.Config{
		Processor: "p", Handler: b.got, Start: feed.Beginning(),
		Source: monitored.Source("db", "items", cosmos.SourceOptions{}), Leases: leases.Leases("db", "leases", cosmos.LeaseOptions{}),
		Notify: func(n changefeed.Notification) {
			if n.Event == changefeed.Failed {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.told = append(b.told, n.Err)
			}
		},
	}
	return b
}

// errors returns the texts of all errors that the processor has notified.
func (b *beginner) errors() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprint(b.told)
}

// run runs the processor and returns the result of Run. It ends Run's context after most.
func (b *beginner) run(t *testing.T, most time.Duration) error {
	t.Helper()
	p, err := changefeed.New(b.config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	return p.Run(ctx)
}

// monitoredContainer creates the container db/items with one document.
func monitoredContainer(t *testing.T, s *changefeedtest.Server) *store.Container {
	t.Helper()
	c := changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/id"}})
	addDocument(t, c, "first")
	return c
}

func addDocument(t *testing.T, c *store.Container, id string) {
	t.Helper()
	if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":%q}`, id), storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// withKey returns the account of the server s with the given key.
func withKey(t *testing.T, s *changefeedtest.Server, key string) *cosmos.Account {
	t.Helper()
	var o cosmos.Options
	o.Transport = s.Client()
	a, err := cosmos.WithKey(s.Endpoint, key, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// For each error that waiting cannot heal, such as a wrong key, Run must return at its
// start. Its error must contain the remedy.
func TestRunEndsAtItsStartWithTheRemedy(t *testing.T) {
	const readOnly = "cmVhZGVy"
	good := func(t *testing.T, s *changefeedtest.Server) *cosmos.Account {
		t.Helper()
		return account(t, s, cosmos.Options{})
	}
	bad := func(t *testing.T, s *changefeedtest.Server) *cosmos.Account {
		t.Helper()
		return withKey(t, s, anotherKey)
	}
	both := func(t *testing.T, s *changefeedtest.Server) {
		t.Helper()
		monitoredContainer(t, s)
		leaseContainer(t, s)
	}
	for _, c := range []struct {
		name              string
		prepare           func(t *testing.T, s *changefeedtest.Server)
		monitored, leases func(t *testing.T, s *changefeedtest.Server) *cosmos.Account
		is                error
		want              []string
	}{
		{"a wrong key of the monitored account", both, bad, good, feed.ErrMisconfigured, []string{"identify the monitored container", "use a current key of the account"}},
		{"a wrong key of the lease account", both, good, bad, feed.ErrMisconfigured, []string{"open the lease container", "use a current key of the account"}},
		{"no monitored container", leaseContainer, good, good, feed.ErrNotFound, []string{"container items of database db", "check both names"}},
		{"no lease container", func(t *testing.T, s *changefeedtest.Server) {
			t.Helper()
			monitoredContainer(t, s)
		}, good, good, feed.ErrNotFound, []string{"container leases", "LeaseOptions.Create"}},
		{"a read-only key for the leases", both, good, func(t *testing.T, s *changefeedtest.Server) *cosmos.Account {
			t.Helper()
			return withKey(t, s, readOnly)
		}, feed.ErrMisconfigured, []string{"leases need a read-write key"}},
		{"a read-only key for leases that exist", func(t *testing.T, s *changefeedtest.Server) {
			t.Helper()
			both(t, s)
			if err := newBeginner(good(t, s), good(t, s)).run(t, time.Minute); err != nil {
				t.Fatal(err)
			}
		}, good, func(t *testing.T, s *changefeedtest.Server) *cosmos.Account {
			t.Helper()
			return withKey(t, s, readOnly)
		}, feed.ErrMisconfigured, []string{"acquire", "leases need a read-write key"}},
		{"a firewall", func(t *testing.T, s *changefeedtest.Server) {
			t.Helper()
			both(t, s)
			s.Fail(server.Fault{Operation: "read account", Status: 403, Message: "blocked by your firewall"})
		}, good, good, feed.ErrMisconfigured, []string{"firewall must let this client in"}},
		{"a key that may not read the feed", func(t *testing.T, s *changefeedtest.Server) {
			t.Helper()
			both(t, s)
			s.Fail(server.Fault{Operation: "read partition key ranges", Status: 403})
		}, good, good, feed.ErrMisconfigured, []string{"list partitions", "the key does not allow this"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := changefeedtest.NewServerOver(t, changefeedtest.NewStore(t), server.Options{Keys: []string{wire.EmulatorKey}, ReadOnlyKeys: []string{readOnly}})
				c.prepare(t, s)
				b := newBeginner(c.monitored(t, s), c.leases(t, s))
				err := b.run(t, 10*time.Minute)
				if !errors.Is(err, c.is) {
					t.Fatalf("%v; want %v", err, c.is)
				}
				wantWords(t, err, c.want...)
				if told := b.errors(); told != "[]" {
					t.Errorf("the error of Run is also notified: %s", told)
				}
			})
		})
	}
}

// Run must return at its start if the server's certificate is not trusted. TLS requires a
// server that listens on a port.
func TestRunEndsAtItsStartIfTheServersTLSCannotBeTrusted(t *testing.T) {
	handler, err := server.New(changefeedtest.NewStore(t), server.Options{Keys: []string{wire.EmulatorKey}})
	if err != nil {
		t.Fatal(err)
	}
	secure, plain := httptest.NewUnstartedServer(handler), httptest.NewServer(handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	// nginx refuses plain HTTP on a port of TLS in its own words.
	nginx := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>\r\n", http.StatusBadRequest)
	}))
	t.Cleanup(func() { handler.Drain(); secure.Close(); plain.Close(); nginx.Close() })
	for name, c := range map[string]struct {
		endpoint string
		want     []string
	}{
		"an untrusted certificate": {secure.URL, []string{"is not trusted", "give Options.Transport a client that trusts it"}},
		"https against plain HTTP": {strings.Replace(plain.URL, "http:", "https:", 1), []string{"does not speak TLS", "begin the endpoint with http://"}},
		"http against TLS":         {strings.Replace(secure.URL, "https:", "http:", 1), []string{"speaks TLS", "begin the endpoint with https://"}},
		"http against nginx's TLS": {nginx.URL, []string{"speaks TLS", "begin the endpoint with https://"}},
	} {
		a, err := cosmos.WithKey(c.endpoint, wire.EmulatorKey, cosmos.Options{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err = newBeginner(a, a).run(t, time.Minute)
		if !errors.Is(err, feed.ErrMisconfigured) {
			t.Errorf("%s: %v after %s; want feed.ErrMisconfigured", name, err, time.Since(began))
			continue
		}
		wantWords(t, err, c.want...)
	}
}

// troubled is a transport on which requests fail while its function returns an error.
type troubled struct {
	next    policy.Transporter
	trouble atomic.Pointer[func(r *http.Request) error]
}

func (x *troubled) Do(r *http.Request) (*http.Response, error) {
	if trouble := x.trouble.Load(); trouble != nil {
		if err := (*trouble)(r); err != nil {
			return nil, err
		}
	}
	return x.next.Do(r)
}

func (x *troubled) set(trouble func(r *http.Request) error) { x.trouble.Store(&trouble) }

// A processor may start before its network works, or before a new role has taken effect.
// Run must notify such an error, retry, and process changes as soon as the error is gone.
func TestRunRetriesTransientErrorsAtItsStart(t *testing.T) {
	silent := func(r *http.Request) error { <-r.Context().Done(); return r.Context().Err() }
	failing := func(err error) func(*http.Request) error { return func(*http.Request) error { return err } }
	for _, c := range []struct {
		name    string
		trouble func(r *http.Request) error
		fault   *server.Fault
		byToken bool
		want    string
	}{
		{name: "a refused connection", trouble: failing(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}), want: "connection refused"},
		{name: "no such host", trouble: failing(&net.DNSError{Err: "no such host", Name: "account", IsNotFound: true}), want: "no such host"},
		{name: "no answer", trouble: silent, want: "deadline exceeded"},
		{name: "503", fault: &server.Fault{Status: 503}, want: "503"},
		{name: "a missing role", fault: &server.Fault{Operation: "read container", Status: 403, SubStatus: wire.SubRBACDenied}, byToken: true, want: "lacks the right"},
		{name: "a missing role for leases", fault: &server.Fault{Operation: "create document", Status: 403, SubStatus: wire.SubRBACDenied}, byToken: true, want: "lacks the right"},
		{name: "a refused token", fault: &server.Fault{Operation: "read account", Status: 401}, byToken: true, want: "the token is refused"},
		{name: "a wrong clock", fault: &server.Fault{Status: 403, Message: "The authorization token is not valid at the current time."}, want: "the clock of this machine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
				monitoredContainer(t, s)
				leaseContainer(t, s)
				x := &troubled{next: s.Client()}
				if c.byToken {
					x.next = plain{s.Client()}
				}
				if c.trouble != nil {
					x.set(c.trouble)
				}
				if c.fault != nil {
					s.Fail(*c.fault)
				}
				var o cosmos.Options
				o.Transport = x
				a, err := cosmos.WithKey(s.Endpoint, s.Key, o)
				if c.byToken {
					a, err = cosmos.WithCredential(strings.Replace(s.Endpoint, "http:", "https:", 1), emulatorCredential{}, o)
				}
				if err != nil {
					t.Fatal(err)
				}
				b := newBeginner(a, a)
				stop := host(t, b.config)
				time.Sleep(10 * time.Minute)
				if told := b.errors(); !strings.Contains(told, c.want) {
					t.Errorf("the failure is not notified: %s; want %q", told, c.want)
				}
				b.got.wantOnce(t, "while it fails", 0)
				x.trouble.Store(nil)
				s.Faults().Clear()
				time.Sleep(10 * time.Minute)
				b.got.wantOnce(t, "when it has passed", 1)
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A refused connection often means a wrong address, and the user may stop the program within
// seconds. So it is notified at the first attempt, and the stop returns it.
func TestARefusedConnectionIsNotifiedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		var o cosmos.Options
		x := &troubled{next: s.Client()}
		x.set(func(*http.Request) error { return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED} })
		o.Transport = x
		a := account(t, s, o)
		b := newBeginner(a, a)
		stop := host(t, b.config)
		time.Sleep(100 * time.Millisecond)
		if told := b.errors(); !strings.Contains(told, "connection refused") {
			t.Errorf("after the first attempt, these failures are notified: %q", told)
		}
		wantWords(t, stop(), "had listed the leases", "connection refused")
	})
}

// A request often times out in the delay between two attempts. Its error must contain the
// failure of the last attempt, because "context deadline exceeded" alone shows no cause.
func TestARequestThatTimesOutNamesItsLastFailure(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{{&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, "connection reset"}, {nil, "503 Service Unavailable"}} {
		inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
			x := &troubled{next: s.Client()}
			x.set(func(*http.Request) error { return c.err })
			s.Fail(server.Fault{Status: 503})
			var o cosmos.Options
			o.Transport = x
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := account(t, s, o).Source("db", "items", cosmos.SourceOptions{}).Identity(ctx)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v; want it out of time", err)
			}
			wantWords(t, err, c.want)
		})
	}
}

// A running processor gets errors that would end its start, for instance because the key
// was renewed. Run must not return, because the leases are valid and a restart would fail
// in the same way.
func TestAProcessorThatHasStartedOutlivesEveryError(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		c := monitoredContainer(t, s)
		leaseContainer(t, s)
		a := account(t, s, cosmos.Options{})
		b := newBeginner(a, a)
		stop := host(t, b.config)
		time.Sleep(time.Minute)
		b.got.wantOnce(t, "before", 1)
		for i, fault := range []server.Fault{{Status: 401}, {Status: 403}, {Status: 404}, {Status: 503}} {
			s.Fail(fault)
			time.Sleep(10 * time.Minute)
			s.Faults().Clear()
			addDocument(t, c, fmt.Sprint("after ", fault.Status))
			time.Sleep(10 * time.Minute)
			b.got.wantOnce(t, fmt.Sprint("after ", fault.Status), i+2)
		}
		for _, want := range []string{"use a current key", "leases need a read-write key", "503"} {
			if told := b.errors(); !strings.Contains(told, want) {
				t.Errorf("%q is not notified", want)
			}
		}
		if err := stop(); err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
}
