package cosmos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/lease/leasetest"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// The server refuses requests or loses responses at random. A caller that repeats a write
// of unknown outcome and recognises its own write must see a store without faults. The
// test runs the conformance suite through such a caller.
func TestLeasesConformUnderFaults(t *testing.T) {
	for name, faults := range map[string][]server.Fault{
		"not carried out": {
			{Status: 429, SubStatus: 3200, RetryAfter: 300 * time.Millisecond},
			{Status: 449},
			{Status: 503},
			{Drop: true},
			{Status: 500, Delay: 3 * time.Second},
		},
		"carried out": {{Status: 408, After: true}, {Drop: true, After: true}, {Status: 503, After: true}, {Status: 500, After: true}},
	} {
		t.Run(name, func(t *testing.T) {
			leasetest.RunInBubble(t, func(t *testing.T) leasetest.Fixture {
				skipLong(t)
				var s *changefeedtest.Server
				fixture := leasesOn(func(t *testing.T) (*store.DB, *cosmos.Account) {
					s = changefeedtest.NewServer(t)
					return s.DB, account(t, s, cosmos.Options{})
				}, "/id")(t)
				for i, f := range faults {
					f.Database, f.Container, f.Probability, f.Seed = "db", "leases", 0.06, uint64(i)
					f.Match = func(r *http.Request) bool {
						switch {
						case r.Method == http.MethodDelete && f.Status != 429:
							return false // after a delete, no document shows which client has deleted it
						case f.After && strings.Contains(t.Name(), "counting"):
							return false // a later write of another client hides which client made the first one
						}
						return true
					}
					s.Fail(f)
				}
				fixture.Container = insisting{fixture.Container}
				return fixture
			})
		})
	}
}

// insisting is a lease container whose stores repeat requests of unknown outcome, as the
// contract requires of callers.
type insisting struct{ lease.Container }

func (c insisting) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	var s lease.Store
	err := insist(func(bool) (err error) { s, err = c.Container.Open(ctx, k); return err })
	return insistingStore{s}, err
}

type insistingStore struct{ lease.Store }

// writes is the number of writes so far. It makes each write unique.
var writes atomic.Int64

// insist calls do until the outcome is known, and returns the last error. inDoubt reports
// whether an earlier attempt may have been applied.
func insist(do func(inDoubt bool) error) error {
	inDoubt := false
	for range 100 {
		err := do(inDoubt)
		var conflict *lease.ConflictError
		var throttled *feed.ThrottledError
		switch {
		case err == nil, errors.As(err, &conflict), errors.Is(err, feed.ErrNotFound):
			return err
		case !errors.As(err, &throttled):
			inDoubt = true
		}
		<-time.After(time.Second)
	}
	return errors.New("a hundred attempts have failed")
}

func (s insistingStore) List(ctx context.Context) (l lease.Listing, err error) {
	err = insist(func(bool) error { l, err = s.Store.List(ctx); return err })
	return l, err
}

func (s insistingStore) SetInitialized(ctx context.Context, initialised bool) error {
	return insist(func(bool) error { return s.Store.SetInitialized(ctx, initialised) })
}

func (s insistingStore) Delete(ctx context.Context, l lease.Lease) error {
	return insist(func(bool) error { return s.Store.Delete(ctx, l) })
}

func (s insistingStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return s.write(l, func(l lease.Lease) (lease.Lease, error) { return s.Store.Create(ctx, l) })
}

func (s insistingStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return s.write(l, func(l lease.Lease) (lease.Lease, error) { return s.Store.Update(ctx, l) })
}

// write makes the lease's timestamp unique, by a fraction of a millisecond that the suite
// ignores. So the store's document shows whether an earlier attempt of this write was
// applied.
func (s insistingStore) write(l lease.Lease, do func(lease.Lease) (lease.Lease, error)) (answer lease.Lease, err error) {
	l.Timestamp = l.Timestamp.Truncate(time.Millisecond).Add(time.Duration(writes.Add(1)%5000) * 100 * time.Nanosecond)
	err = insist(func(inDoubt bool) error {
		answer, err = do(l)
		var conflict *lease.ConflictError
		if inDoubt && errors.As(err, &conflict) && conflict.Current.Timestamp.Equal(l.Timestamp) {
			answer, err = conflict.Current, nil
		}
		return err
	})
	return answer, err
}

// altered is a transport that passes each response to alter, which may change it.
type altered struct {
	*http.Client
	alter func(r *http.Request, res *http.Response)
}

func (a altered) Do(r *http.Request) (*http.Response, error) {
	res, err := a.Client.Do(r)
	if err == nil {
		a.alter(r, res)
	}
	return res, err
}

// openAltered opens a lease store whose responses alter may change.
func openAltered(t *testing.T, s *changefeedtest.Server, alter func(r *http.Request, res *http.Response)) lease.Store {
	t.Helper()
	o := cosmos.Options{ClientOptions: azcore.ClientOptions{Transport: altered{s.Client(), alter}}}
	opened, err := account(t, s, o).Leases("db", "leases", cosmos.LeaseOptions{}).Open(t.Context(), fakeKey)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// After a refused write, the store reads the stored document for the conflict. If that
// read is throttled, the store must repeat it. If it returned the 429, the caller would
// write again, which costs more than the read.
func TestThrottledReadOfAConflictIsRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		ctx := t.Context()
		opened, err := account(t, s, cosmos.Options{}).Leases("db", "leases", cosmos.LeaseOptions{}).Open(ctx, fakeKey)
		if err != nil {
			t.Fatal(err)
		}
		stale, err := opened.Create(ctx, lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
		if err != nil {
			t.Fatal(err)
		}
		current, err := opened.Update(ctx, protocol.Acquired(stale, protocol.NewOwner("host", 1)))
		if err != nil {
			t.Fatal(err)
		}
		for what, write := range map[string]func() error{
			"create": func() error { _, err := opened.Create(ctx, stale); return err },
			"update": func() error { _, err := opened.Update(ctx, stale); return err },
			"delete": func() error { return opened.Delete(ctx, stale) },
		} {
			const times, wait = 3, 300 * time.Millisecond
			s.Fail(server.Fault{Operation: "read document", Database: "db", Container: "leases", Status: 429, SubStatus: 3200, RetryAfter: wait, Count: times})
			began := time.Now()
			err := write()
			conflict, ok := errors.AsType[*lease.ConflictError](err)
			if !ok || conflict.Current.ETag != current.ETag {
				t.Errorf("%s: %v; want a conflict that carries the document", what, err)
			}
			if took := time.Since(began); took < times*wait {
				t.Errorf("%s: the read was throttled for %s; want it %d times for %s", what, took, times, wait)
			}
			s.Faults().Clear()
		}
	})
}

// A 429 may name no time to wait. The store must pause nevertheless, or one refused write
// would send thousands of reads to a service that is at its limit.
func TestThrottledReadThatNamesNoTimeIsRepeatedAfterAPause(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		var reads atomic.Int64
		var throttled atomic.Bool
		opened := openAltered(t, s, func(r *http.Request, res *http.Response) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/docs/") && throttled.Load() && reads.Add(1) < 10_000 {
				res.StatusCode = http.StatusTooManyRequests
			}
		})
		stale, err := opened.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = opened.Update(t.Context(), protocol.Acquired(stale, protocol.NewOwner("host", 1))); err != nil {
			t.Fatal(err)
		}
		throttled.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = opened.Update(ctx, stale)
		if n := reads.Load(); err == nil || n < 10 || n > 101 {
			t.Errorf("%d reads within a second, %v; want one every 10 ms at most, and an error", n, err)
		}
	})
}

// After a refused write, a lagging replica returns the document without the other host's
// write. The store must not report a conflict with that document. Otherwise the owner
// would think that its lease is unchanged, and its ETag would be refused forever.
func TestReadOfAnOldReplicaIsNotAConflict(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		var old []byte
		var behind atomic.Bool
		var sessions atomic.Int64
		opened := openAltered(t, s, func(r *http.Request, res *http.Response) {
			switch {
			case res.StatusCode == http.StatusCreated:
				body, err := io.ReadAll(res.Body)
				if err != nil {
					t.Error(err)
				}
				old = body
				res.Body = io.NopCloser(bytes.NewReader(body))
			case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/docs/") && behind.Load():
				res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(old)), int64(len(old))
				res.Header.Set("Content-Length", strconv.Itoa(len(old)))
				if r.Header.Get("X-Ms-Session-Token") != "" {
					sessions.Add(1)
				}
			}
		})
		l, err := opened.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
		if err != nil {
			t.Fatal(err)
		}
		now, err := opened.Update(t.Context(), protocol.Acquired(l, protocol.NewOwner("host", 1)))
		if err != nil {
			t.Fatal(err)
		}
		behind.Store(true)
		var conflict *lease.ConflictError
		var throttled *feed.ThrottledError
		_, err = opened.Update(t.Context(), protocol.Acquired(l, protocol.NewOwner("host", 2)))
		for what, err := range map[string]error{"update": err, "delete": opened.Delete(t.Context(), l)} {
			if err == nil || errors.As(err, &conflict) || errors.As(err, &throttled) || errors.Is(err, feed.ErrNotFound) {
				t.Errorf("%s, refused, and an old replica answers the read: %v; want an error of unknown outcome", what, err)
			}
		}
		if sessions.Load() != 2 {
			t.Errorf("%d of 2 reads came with the session of the refusal, which an old replica does not answer", sessions.Load())
		}
		behind.Store(false)
		_, err = opened.Update(t.Context(), protocol.Acquired(l, protocol.NewOwner("host", 2)))
		if !errors.As(err, &conflict) || conflict.Current.ETag != now.ETag {
			t.Errorf("once it has caught up: %v; want the conflict", err)
		}
	})
}

// Listing.Now must be the service's time at the first page. A later time would make
// leases look older than they are.
func TestListingReportsTheServicesClock(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}, Partitions: 2})
		pages := 0
		silent := false
		opened := openAltered(t, s, func(r *http.Request, res *http.Response) {
			if strings.Contains(r.Header.Get("Content-Type"), "query") {
				pages++
				res.Header.Set("Date", time.Now().Add(time.Duration(pages)*time.Hour).UTC().Format(http.TimeFormat))
				if silent {
					res.Header.Del("Date")
				}
			}
		})
		for i := range 2000 { // a page holds at most a thousand
			id := fmt.Sprint(i)
			if _, err := opened.Create(t.Context(), lease.Lease{Token: id, PartitionID: id, Range: feed.Full()}); err != nil {
				t.Fatal(err)
			}
		}
		listing, err := opened.List(t.Context())
		if err != nil || len(listing.Leases) != 2000 {
			t.Fatalf("%d leases, %v", len(listing.Leases), err)
		}
		if want := time.Now().Add(time.Hour).Truncate(time.Second); pages < 2 || !listing.Now.Equal(want) {
			t.Errorf("a listing of %d pages reports %v; want the time of the first, %v", pages, listing.Now, want)
		}
		silent = true
		if listing, err = opened.List(t.Context()); err != nil || !listing.Now.IsZero() {
			t.Errorf("a service that does not report its time: %v, %v; want none", listing.Now, err)
		}
	})
}

// pagedFirst is a transport whose first page of each query is empty and has a
// continuation. The service does that for a partition that holds no result.
type pagedFirst struct{ *http.Client }

func (p pagedFirst) Do(r *http.Request) (*http.Response, error) {
	const start = "start"
	if strings.Contains(r.Header.Get("Content-Type"), "query") {
		switch r.Header.Get(wire.HeaderContinuation) {
		case "":
			w := httptest.NewRecorder()
			w.Header().Set(wire.HeaderContinuation, start)
			_, _ = w.WriteString(`{"_rid":"","Documents":[],"_count":0}`)
			answer := w.Result()
			answer.Request = r
			return answer, nil
		case start:
			r.Header.Del(wire.HeaderContinuation)
		}
	}
	return p.Client.Do(r)
}

// A listing must continue after an empty page that has a continuation. Otherwise it would
// show a gap that does not exist, and hosts would create existing leases again.
func TestListingContinuesAfterAnEmptyPage(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		var o cosmos.Options
		o.Transport = pagedFirst{s.Client()}
		opened, err := account(t, s, o).Leases("db", "leases", cosmos.LeaseOptions{}).Open(t.Context(), fakeKey)
		if err == nil {
			_, err = opened.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
		}
		if err != nil {
			t.Fatal(err)
		}
		if listing, err := opened.List(t.Context()); err != nil || len(listing.Leases) != 1 {
			t.Errorf("%d leases, %v; want 1", len(listing.Leases), err)
		}
	})
}

// The account names an address that the client cannot reach, for instance because of a
// port mapping. With LimitToEndpoint, leases must use the given endpoint only.
func TestLeasesStayAtTheEndpointWhenAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		host := strings.TrimSuffix(strings.TrimPrefix(s.Endpoint, "http://"), "/")
		elsewhere := altered{s.Client(), func(r *http.Request, res *http.Response) {
			if r.URL.Path == "/" || r.URL.Path == "" {
				body, err := io.ReadAll(res.Body)
				if err != nil {
					t.Error(err)
				}
				body = bytes.ReplaceAll(body, []byte(host), []byte("elsewhere.test"))
				res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			}
		}}
		for _, limited := range []bool{false, true} {
			o := cosmos.Options{LimitToEndpoint: limited, ClientOptions: azcore.ClientOptions{Transport: elsewhere}}
			opened, err := account(t, s, o).Leases("db", "leases", cosmos.LeaseOptions{}).Open(t.Context(), fakeKey)
			if err == nil {
				_, err = opened.List(t.Context())
			}
			if (err == nil) != limited {
				t.Errorf("limited to the endpoint %t: %v", limited, err)
			}
		}
	})
}
