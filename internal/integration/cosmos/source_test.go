package cosmos_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// recorder is a transport that records every request.
type recorder struct {
	next *http.Client

	mu  sync.Mutex // guards all
	all []*http.Request
}

func (r *recorder) Do(q *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.all = append(r.all, q.Clone(context.WithoutCancel(q.Context())))
	r.mu.Unlock()
	return r.next.Do(q)
}

// taken returns the requests that were sent since the last call.
func (r *recorder) taken() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// rig is a container on a server in memory, a Source of it, and a record of the requests.
type rig struct {
	*testing.T
	server    *changefeedtest.Server
	container *store.Container
	sent      *recorder
	source    *cosmos.Source
}

// newRig creates a rig whose container has the given properties and some documents.
func newRig(t *testing.T, p storetype.ContainerProperties, o cosmos.Options, so cosmos.SourceOptions) *rig {
	t.Helper()
	s := changefeedtest.NewServer(t)
	if p.ID == "" {
		p.ID = "orders"
	}
	if p.KeyPaths == nil {
		p.KeyPaths = []string{"/pk"}
	}
	r := &rig{T: t, server: s, sent: &recorder{next: s.Client()}}
	r.container = changefeedtest.NewContainer(t, s.DB, "shop", p)
	if o.Transport == nil {
		o.Transport = r.sent
	}
	r.source = account(t, s, o).Source("shop", p.ID, so)
	return r
}

func (r *rig) write(key, id string) {
	r.Helper()
	body := fmt.Appendf(nil, `{"id":%q,"pk":%q}`, id, key)
	if _, err := r.container.Upsert(r.Context(), feed.PartitionKey{key}, body, storetype.WriteOptions{}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) read(q feed.Request) feed.Page {
	r.Helper()
	page, err := r.source.Read(r.Context(), q)
	if err != nil {
		r.Fatal(err)
	}
	return page
}

func TestIdentityEqualsTheStores(t *testing.T) {
	r := newRig(t, storetype.ContainerProperties{}, cosmos.Options{}, cosmos.SourceOptions{})
	got, err := r.source.Identity(t.Context())
	want := r.container.Identity()
	want.AccountHost = strings.TrimSuffix(strings.TrimPrefix(r.server.Endpoint, "http://"), "/")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the identity is %+v, %v; want %+v", got, err, want)
	}
}

// A source must send the headers that the official SDKs send for the same read.
func TestReadsHaveTheServicesHeaders(t *testing.T) {
	at := time.Date(2026, 1, 15, 9, 30, 0, 0, time.UTC)
	full := func(r *rig) feed.Request { return feed.Request{Partition: r.server.Partitions("shop", "orders")[0]} }
	for _, c := range []struct {
		name    string
		request func(r *rig) feed.Request
		source  cosmos.SourceOptions
		options cosmos.Options
		// want maps the name of a header to its value. The value "" means that the header
		// must be absent.
		want map[string]string
	}{
		{name: "from now", request: full, want: map[string]string{
			"A-IM": "Incremental Feed", "If-None-Match": "*", "If-Modified-Since": "", wire.HeaderPartitionID: "0", wire.HeaderStartEPK: "", wire.HeaderMaxItemCount: "100",
			wire.HeaderCapabilities: "9", wire.HeaderVersion: "2020-07-15", wire.HeaderConsistency: "", wire.HeaderWireFormat: "", wire.HeaderPartitionKey: "",
		}},
		{name: "from the beginning", request: func(r *rig) feed.Request {
			q := full(r)
			q.From, q.MaxItems = feed.Beginning(), 7
			return q
		}, want: map[string]string{"If-None-Match": "", "If-Modified-Since": "", wire.HeaderMaxItemCount: "7"}},
		{name: "from a time", request: func(r *rig) feed.Request {
			q := full(r)
			q.From = feed.At(at)
			return q
		}, want: map[string]string{"If-None-Match": "", "If-Modified-Since": "Thu, 15 Jan 2026 09:29:59 GMT"}},
		{name: "from the first time", request: func(r *rig) feed.Request {
			q := full(r)
			q.From = feed.At(time.Time{})
			return q
		}, want: map[string]string{"If-None-Match": "", "If-Modified-Since": ""}},
		{name: "from a continuation", request: func(r *rig) feed.Request {
			q := full(r)
			q.From = feed.After(`"1"`)
			return q
		}, want: map[string]string{"If-None-Match": `"1"`, "If-Modified-Since": ""}},
		{name: "of Java's second dialect", source: cosmos.SourceOptions{Dialect: lease.JavaLatestVersion}, request: func(r *rig) feed.Request {
			q := full(r)
			q.From = feed.AfterSince(`"1"`, at)
			return q
		}, want: map[string]string{"If-None-Match": `"1"`, "If-Modified-Since": "Thu, 15 Jan 2026 09:29:59 GMT", wire.HeaderCapabilities: "11"}},
		{
			name: "of Java's first dialect", source: cosmos.SourceOptions{Dialect: lease.JavaHandleChanges}, request: full,
			want: map[string]string{wire.HeaderCapabilities: "0"},
		},
		{
			name: "weaker", options: cosmos.Options{Consistency: cosmos.Eventual}, request: full,
			want: map[string]string{wire.HeaderConsistency: "Eventual"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, storetype.ContainerProperties{}, c.options, c.source)
			r.write("a", "1")
			if _, err := r.source.Identity(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.sent.taken()
			r.read(c.request(r))
			sent := r.sent.taken()
			if len(sent) != 1 {
				t.Fatalf("%d requests; want 1", len(sent))
			}
			for name, want := range c.want {
				if got := sent[0].Header.Get(name); got != want {
					t.Errorf("%s: %q; want %q", name, got, want)
				}
			}
		})
	}
}

// A read of a range must name its partition, and the range's bounds only if it is smaller
// than the partition. A read of a key must name the key in ASCII.
func TestRangesAndKeysAreAddressed(t *testing.T) {
	r := newRig(t, storetype.ContainerProperties{ID: "tenants", KeyPaths: []string{"/tenant", "/user"}, KeyVersion: storetype.MultiHash, Partitions: 2},
		cosmos.Options{}, cosmos.SourceOptions{})
	parts := r.server.Partitions("shop", "tenants")
	half := feed.Range{Min: parts[1].Range.Min, Max: "30"}
	tenant, err := r.container.KeyRange(feed.PartitionKey{"t1"})
	if err != nil {
		t.Fatal(err)
	}
	holder := parts[0].ID
	if parts[1].Range.Contains(tenant) {
		holder = parts[1].ID
	}
	if _, err := r.source.Partitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name                     string
		request                  feed.Request
		partition, min, max, key string
	}{
		{"a partition", feed.Request{Partition: parts[1]}, parts[1].ID, "", "", ""},
		{"a partition by its range", feed.Request{Range: parts[1].Range}, parts[1].ID, "", "", ""},
		{"a partition and its range", feed.Request{Partition: parts[1], Range: parts[1].Range}, parts[1].ID, "", "", ""},
		{"a part of it", feed.Request{Range: half}, parts[1].ID, half.Min, half.Max, ""},
		{"a part of it, which is named", feed.Request{Partition: feed.Partition{ID: parts[1].ID}, Range: half}, parts[1].ID, half.Min, half.Max, ""},
		{"a prefix", feed.Request{Key: feed.PartitionKey{"t1"}}, holder, tenant.Min, tenant.Max, ""},
		{"a key", feed.Request{Key: feed.PartitionKey{"ü😀", nil}}, "", "", "", `["\u00fc\ud83d\ude00",null]`},
		{"a key of odd types", feed.Request{Key: feed.PartitionKey{true, feed.Undefined}}, "", "", "", `[true,{}]`},
	} {
		r.sent.taken()
		c.request.From = feed.Beginning()
		r.read(c.request)
		sent := r.sent.taken()
		if len(sent) != 1 {
			t.Errorf("%s: %d requests; want 1", c.name, len(sent))
		}
		h := sent[len(sent)-1].Header
		kind := ""
		if c.min != "" {
			kind = "EffectivePartitionKeyRange"
		}
		for name, want := range map[string]string{
			wire.HeaderPartitionID: c.partition, wire.HeaderStartEPK: c.min, wire.HeaderEndEPK: c.max, wire.HeaderPartitionKey: c.key, wire.HeaderReadKeyType: kind,
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q; want %q", c.name, name, got, want)
			}
		}
	}
}

// A request has a key that is outside of its range. The read must return no changes,
// neither of that key nor of others, and its position must still advance.
func TestAKeyOutsideOfItsRangeHasNoChanges(t *testing.T) {
	r := newRig(t, storetype.ContainerProperties{}, cosmos.Options{}, cosmos.SourceOptions{})
	r.write("a", "1")
	for i := range 20 {
		r.write(fmt.Sprint("other ", i), "1")
	}
	point, err := r.container.KeyRange(feed.PartitionKey{"a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keys feed.Range
		want int
	}{{feed.Range{Min: "", Max: point.Min}, 0}, {feed.Range{Min: point.Min, Max: feed.MaxEPK}, 1}, {feed.Range{Min: point.Min + "00", Max: feed.MaxEPK}, 0}} {
		page := r.read(feed.Request{Range: c.keys, Key: feed.PartitionKey{"a"}, From: feed.Beginning()})
		if len(page.Changes) != c.want || page.Continuation != `"21"` {
			t.Errorf("in %s the key shows %d changes up to %s; want %d", c.keys, len(page.Changes), page.Continuation, c.want)
		}
	}
}

// A source caches the list of partitions. After a split it must find the child that holds
// a range, and return a GoneError for a range in both children. After a merge it must
// find the new partition.
func TestARangeIsFoundAfterItsPartitionIsReplaced(t *testing.T) {
	r := newRig(t, storetype.ContainerProperties{}, cosmos.Options{}, cosmos.SourceOptions{})
	part := feed.Range{Min: "", Max: "10"}
	r.read(feed.Request{Range: part})
	children := r.server.Split("shop", "orders", "0")
	r.read(feed.Request{Range: part})
	var gone *feed.GoneError
	if _, err := r.source.Read(t.Context(), feed.Request{Range: feed.Full()}); !errors.As(err, &gone) || gone.Range != feed.Full() {
		t.Errorf("a read of everything, which was split: %v; want it gone", err)
	}
	r.server.Merge("shop", "orders", children[0].ID, children[1].ID)
	r.read(feed.Request{Range: feed.Full()})
}

// Some attempts of a read fail, but the service charges them. The page's Charge must
// include them.
func TestAPagesChargeCoversAllAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := cosmos.NewBudget(1000)
		r := newRig(t, storetype.ContainerProperties{}, cosmos.Options{Budget: budget}, cosmos.SourceOptions{})
		p := r.server.Partitions("shop", "orders")[0]
		once := r.read(feed.Request{Partition: p, From: feed.Beginning()}).Charge
		if once <= 0 {
			t.Fatalf("a read costs %v RU", once)
		}
		spent := budget.Usage().FeedRU
		r.server.Fail(server.Fault{Operation: "read change feed", Status: 503, After: true, Count: 2})
		page := r.read(feed.Request{Partition: p, From: feed.Beginning()})
		if used := budget.Usage().FeedRU - spent; page.Charge != used || page.Charge < once {
			t.Errorf("the page costs %v RU, the budget was used for %v", page.Charge, used)
		}
		if page.Diagnostics.ActivityID == "" || page.Diagnostics.Elapsed < time.Second || page.SessionToken == "" {
			t.Errorf("two pauses and three attempts are reported as %+v, session %q", page.Diagnostics, page.SessionToken)
		}
	})
}

func TestOddNamesAreAddressedAndSigned(t *testing.T) {
	for _, name := range []string{"o 1+%é", "日本 %2F", "a&b=c;d,e@f$", "..", "~tilde'"} {
		r := newRig(t, storetype.ContainerProperties{ID: name}, cosmos.Options{}, cosmos.SourceOptions{})
		r.write("a", "1")
		if page := r.read(feed.Request{From: feed.Beginning()}); len(page.Changes) != 1 {
			t.Errorf("container %q shows %d changes", name, len(page.Changes))
		}
	}
}

// With session consistency, each read must send the session token of the earlier reads,
// so that it returns at least their changes. The first read of a child must send its
// parent's token.
func TestSessionTokensAreCarriedBetweenReads(t *testing.T) {
	r := newRig(t, storetype.ContainerProperties{}, cosmos.Options{}, cosmos.SourceOptions{SessionToken: "0:-1#1,7:-1#9"})
	token := func(q feed.Request) string {
		r.sent.taken()
		r.read(q)
		sent := r.sent.taken()
		return sent[len(sent)-1].Header.Get(wire.HeaderSessionToken)
	}
	r.write("a", "1")
	r.write("a", "2")
	p := r.server.Partitions("shop", "orders")[0]
	if got := token(feed.Request{Partition: p}); got != "0:-1#1" {
		t.Errorf("the first read has the token %q; want the option's", got)
	}
	if got := token(feed.Request{Partition: p}); got != "0:-1#2" {
		t.Errorf("the second read has the token %q; want that of the first answer", got)
	}
	child := r.server.Split("shop", "orders", "0")[0]
	if got := token(feed.Request{Partition: child}); got != child.ID+":-1#2" {
		t.Errorf("the first read of a child has the token %q; want its parent's position", got)
	}
	eventual := newRig(t, storetype.ContainerProperties{}, cosmos.Options{Consistency: cosmos.Eventual}, cosmos.SourceOptions{SessionToken: "0:-1#0"})
	eventual.read(feed.Request{Partition: p})
	eventual.sent.taken()
	eventual.read(feed.Request{Partition: p})
	if got := eventual.sent.taken()[0].Header.Get(wire.HeaderSessionToken); got != "" {
		t.Errorf("under eventual consistency a read has the token %q", got)
	}
}

func TestRangesAreSplitEvenly(t *testing.T) {
	for _, p := range []storetype.ContainerProperties{{KeyVersion: storetype.HashV1}, {KeyVersion: storetype.HashV2}} {
		r := newRig(t, p, cosmos.Options{}, cosmos.SourceOptions{})
		parts, err := feed.SplitRange(t.Context(), r.source, feed.Range{}, 3)
		if err != nil || len(parts) != 3 || parts[0].Min != "" || parts[2].Max != "FF" {
			t.Fatalf("%v, %v", parts, err)
		}
		if want, err := feed.SplitRange(t.Context(), r.server.DB.Source(r.container), feed.Range{}, 3); err != nil || fmt.Sprint(parts) != fmt.Sprint(want) {
			t.Errorf("%v; the store's are %v, %v", parts, want, err)
		}
	}
}
