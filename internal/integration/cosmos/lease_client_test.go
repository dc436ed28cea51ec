package cosmos_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// twice is a policy that sends each write a second time, as if the first response had
// been lost. An SDK or a policy of the user may do that without the caller's knowledge.
type twice struct {
	on *atomic.Bool
	// between is called after the first attempt and before the second.
	between *atomic.Pointer[func()]
}

func (p twice) Do(r *policy.Request) (*http.Response, error) {
	if !p.on.Load() || r.Raw().Method == http.MethodGet || r.Raw().Header.Get("X-Ms-Documentdb-Query") != "" {
		return r.Next()
	}
	// Both attempts have bodies of their own: net/http may look for the end of a body even
	// after the response has come.
	var body []byte
	if r.Body() != nil {
		var err error
		if body, err = io.ReadAll(r.Body()); err != nil {
			return nil, err
		}
	}
	attempt := func() (*http.Response, error) {
		q := r.Clone(r.Raw().Context())
		if body != nil {
			if err := q.SetBody(streaming.NopCloser(bytes.NewReader(body)), q.Raw().Header.Get("Content-Type")); err != nil {
				return nil, err
			}
		}
		return q.Next()
	}
	res, err := attempt()
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close() // drop the response, as if it were lost
	if f := p.between.Load(); f != nil {
		(*f)()
	}
	return attempt()
}

// A policy sends a write twice, and the second attempt conflicts with the first. The
// store must recognise its own write and report success. Otherwise a host would think
// that another host has the lease, and leave it until it expires.
func TestWriteThatWasSentTwiceIsRecognised(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		var on atomic.Bool
		var between atomic.Pointer[func()]
		o := cosmos.Options{ClientOptions: azcore.ClientOptions{PerRetryPolicies: []policy.Policy{twice{&on, &between}}}}
		ctx := t.Context()
		open := func(o cosmos.Options) lease.Store {
			opened, err := account(t, s, o).Leases("db", "leases", cosmos.LeaseOptions{}).Open(ctx, fakeKey)
			if err != nil {
				t.Fatal(err)
			}
			return opened
		}
		mine, theirs := open(o), open(cosmos.Options{})
		on.Store(true)
		l, err := mine.Create(ctx, lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
		if err != nil {
			t.Fatalf("create, sent twice: %v", err)
		}
		me := protocol.NewOwner("host", 1)
		acquired, err := mine.Update(ctx, protocol.Acquired(l, me))
		if err != nil || acquired.Owner != me || acquired.ETag == l.ETag {
			t.Fatalf("acquire, sent twice: %+v, %v", acquired, err)
		}
		if acquired, err = mine.Update(ctx, protocol.At(acquired, `"7"`)); err != nil {
			t.Fatalf("the next write, by the ETag of that answer: %v", err)
		}

		// If another host writes between the two attempts, the store must return a
		// conflict with that host's document.
		asker := protocol.NewOwner("host", 2)
		ask := func() {
			listing, err := theirs.List(ctx)
			if err != nil || len(listing.Leases) != 1 {
				t.Errorf("list: %+v, %v", listing, err)
				return
			}
			if _, err := theirs.Update(ctx, protocol.Wanted(listing.Leases[0], asker)); err != nil {
				t.Errorf("ask: %v", err)
			}
		}
		between.Store(&ask)
		_, err = mine.Update(ctx, protocol.At(acquired, `"8"`))
		var conflict *lease.ConflictError
		if !errors.As(err, &conflict) || conflict.Current.Wanted() != asker || conflict.Current.Continuation != `"8"` {
			t.Fatalf("a write that another write followed: %v; want a conflict with the other write", err)
		}
		between.Store(nil)
		if err := mine.Delete(ctx, conflict.Current); !errors.Is(err, feed.ErrNotFound) {
			t.Errorf("delete, sent twice: %v; want not found, which means done", err)
		}
	})
}

// A processor's name may contain any characters. Some of these names need escapes in the
// partition key, which is JSON in a header of ASCII.
func TestLeasesOfProcessorsWithAnyName(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		for _, name := range []string{"plain", "ünï", "日本", "🔑 key", "tab\there", `"quoted" 'too'`, "a+b%20&c=d", "<html>", "ze\u200dro"} {
			k := fakeKey
			k.Processor = name
			opened, err := account(t, s, cosmos.Options{}).Leases("db", "leases", cosmos.LeaseOptions{}).Open(t.Context(), k)
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			l, err := opened.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
			if err == nil {
				l, err = opened.Update(t.Context(), protocol.Acquired(l, protocol.NewOwner("host", 1)))
			}
			if err == nil {
				_, err = opened.Create(t.Context(), l)
			}
			var conflict *lease.ConflictError
			if !errors.As(err, &conflict) || conflict.Current.ETag != l.ETag {
				t.Errorf("processor %q: %v; want a conflict at last, with the lease", name, err)
			}
			listing, err := opened.List(t.Context())
			if err != nil || len(listing.Leases) != 1 || listing.Leases[0].ETag != l.ETag {
				t.Errorf("processor %q: list: %+v, %v; want its lease", name, listing.Leases, err)
			}
			if err := errors.Join(opened.SetInitialized(t.Context(), true), opened.Delete(t.Context(), l), opened.SetInitialized(t.Context(), false)); err != nil {
				t.Errorf("processor %q: %v", name, err)
			}
		}
	})
}

func TestStoreReportsTheCostOfItsRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		budget := cosmos.NewBudget(1000)
		opened, err := account(t, s, cosmos.Options{Budget: budget}).Leases("db", "leases", cosmos.LeaseOptions{}).Open(t.Context(), fakeKey)
		if err != nil {
			t.Fatal(err)
		}
		before := protocol.Charged(opened)
		l, err := opened.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
		if err != nil {
			t.Fatal(err)
		}
		created := protocol.Charged(opened)
		old := l
		old.ETag = `"old"`
		if _, err := opened.Update(t.Context(), old); err == nil {
			t.Fatal("an update by an old ETag is carried out")
		}
		refused := protocol.Charged(opened)
		if _, err := opened.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		listed := protocol.Charged(opened)
		if created <= before || refused <= created || listed <= refused {
			t.Errorf("charged %v, then %v after a create, %v after a conflict, %v after a listing; want each to cost", before, created, refused, listed)
		}
		if u := budget.Usage(); u.LeaseRU != listed || u.FeedRU != 0 || u.LeaseRequests != 4 {
			t.Errorf("the budget's usage is %+v; want %v RU in 4 requests for leases", u, listed)
		}
	})
}
