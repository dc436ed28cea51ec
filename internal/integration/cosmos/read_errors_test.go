package cosmos_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

// The service may report a split while its list still has the old partition. The source
// must return a temporary error then. After a GoneError the processor would find no
// children.
func TestAPartitionIsGoneOnlyWhenItIsNotListed(t *testing.T) {
	for _, sub := range []int{wire.SubPartitionGone, wire.SubCompletingSplit} {
		r := newRig(t, storetype.ContainerProperties{}, cosmos.Options{}, cosmos.SourceOptions{})
		p := r.server.Partitions("shop", "orders")[0]
		r.server.Fail(server.Fault{Operation: "read change feed", Status: 410, SubStatus: sub, Count: 1})
		var gone *feed.GoneError
		if _, err := r.source.Read(t.Context(), feed.Request{Partition: p}); err == nil || errors.As(err, &gone) || !strings.Contains(err.Error(), "being split") {
			t.Errorf("410/%d of a partition that is listed: %v; want an error that passes", sub, err)
		}
		r.read(feed.Request{Partition: p})
		r.server.Split("shop", "orders", p.ID)
		if _, err := r.source.Read(t.Context(), feed.Request{Partition: p}); !errors.As(err, &gone) || gone.Partition != p.ID {
			t.Errorf("a read of a partition that was split: %v; want it gone", err)
		}
	}
}

func TestARecreatedContainerIsRefused(t *testing.T) {
	for name, faults := range map[string][]server.Fault{
		"by the rid that is meant": nil,
		"by a stale name":          {{Operation: "read change feed", Status: 410, SubStatus: wire.SubNameCacheStale}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, storetype.ContainerProperties{}, cosmos.Options{}, cosmos.SourceOptions{})
			p := r.server.Partitions("shop", "orders")[0]
			was := r.container.Identity().ContainerRID
			page := r.read(feed.Request{Partition: p})
			if err := r.server.DB.DeleteContainer(t.Context(), "shop", "orders"); err != nil {
				t.Fatal(err)
			}
			made := changefeedtest.NewContainer(t, r.server.DB, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/pk"}})
			for _, f := range faults {
				r.server.Fail(f)
			}
			_, read := r.source.Read(t.Context(), feed.Request{Partition: p, From: feed.After(page.Continuation)})
			_, listed := r.source.Partitions(t.Context())
			for what, err := range map[string]error{"Read": read, "Partitions": listed} {
				var anew *cosmos.RecreatedError
				if !errors.As(err, &anew) || !errors.Is(err, feed.ErrNotFound) || anew.OldRID != was || anew.NewRID != made.Identity().ContainerRID {
					t.Errorf("%s: %v; want the rids before and after, and ErrNotFound", what, err)
				}
			}
		})
	}
}

// A throttled read must return a ThrottledError at once. If it waited for minutes, the
// processor could neither report the throttling nor end the read with its lease.
func TestAThrottledReadIsReportedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storetype.ContainerProperties{}, cosmos.Options{}, cosmos.SourceOptions{})
		r.read(feed.Request{Partition: r.server.Partitions("shop", "orders")[0]})
		r.sent.taken()
		r.server.Fail(server.Fault{Operation: "read change feed", Status: 429, SubStatus: wire.SubThroughput, RetryAfter: 7 * time.Second})
		began := time.Now()
		_, err := r.source.Read(t.Context(), feed.Request{Partition: feed.Partition{ID: "0"}})
		var throttled *feed.ThrottledError
		if !errors.As(err, &throttled) || throttled.RetryAfter != 7*time.Second {
			t.Errorf("%v; want it throttled for 7 s", err)
		}
		if n := len(r.sent.taken()); n != 1 || time.Since(began) != 0 {
			t.Errorf("%d requests in %s; want 1 at once", n, time.Since(began))
		}
	})
}

// A proxy may send a 429 with the standard header Retry-After, in seconds. The
// ThrottledError of a lease listing must contain that time.
func TestRetryAfterInSecondsIsObeyedByAListing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		leaseContainer(t, s)
		opened := openAltered(t, s, func(_ *http.Request, res *http.Response) {
			if res.StatusCode == http.StatusTooManyRequests {
				res.Header.Del(wire.HeaderRetryAfter)
				res.Header.Set("Retry-After", "7")
			}
		})
		s.Fail(server.Fault{Operation: "query documents", Status: 429, SubStatus: wire.SubThroughput, RetryAfter: time.Millisecond})
		_, listed := opened.List(t.Context())
		if throttled, ok := errors.AsType[*feed.ThrottledError](listed); !ok || throttled.RetryAfter != 7*time.Second {
			t.Errorf("%v; want it throttled for 7 s", listed)
		}
	})
}

func TestAMissingRightIsNamed(t *testing.T) {
	const service = "Request blocked by Auth acc : Request is blocked because principal [p] does not have required RBAC permissions to perform action " +
		"[Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/readChangeFeed] on resource [dbs/shop/colls/orders]."
	for _, c := range []struct {
		fault server.Fault
		do    func(s *cosmos.Source) error
		want  []string
	}{
		{
			server.Fault{Operation: "read change feed", Status: 403, SubStatus: wire.SubRBACDenied, Message: service},
			func(s *cosmos.Source) error { _, err := s.Read(t.Context(), feed.Request{}); return err },
			[]string{"containers/readChangeFeed", "container orders of database shop"},
		},
		{
			server.Fault{Operation: "read change feed", Status: 403, Message: "blocked by your firewall"},
			func(s *cosmos.Source) error { _, err := s.Read(t.Context(), feed.Request{}); return err },
			[]string{"containers/readChangeFeed", "container orders of database shop", "firewall"},
		},
		{
			server.Fault{Operation: "read container", Status: 403, SubStatus: wire.SubRBACDenied},
			func(s *cosmos.Source) error { _, err := s.Identity(t.Context()); return err },
			[]string{"databaseAccounts/readMetadata", "container orders of database shop"},
		},
		{
			server.Fault{Operation: "read partition key ranges", Status: 403, SubStatus: wire.SubRBACDenied},
			func(s *cosmos.Source) error { _, err := s.Partitions(t.Context()); return err },
			[]string{"databaseAccounts/readMetadata", "container orders of database shop"},
		},
		{
			server.Fault{Operation: "read account", Status: 403, Message: "The authorization token is not valid at the current time."},
			func(s *cosmos.Source) error { _, err := s.Identity(t.Context()); return err },
			[]string{"clock of this machine"},
		},
		{
			server.Fault{Operation: "read account", Status: 401},
			func(s *cosmos.Source) error { _, err := s.Identity(t.Context()); return err },
			[]string{"the key is refused"},
		},
	} {
		r := newRig(t, storetype.ContainerProperties{}, cosmos.Options{}, cosmos.SourceOptions{})
		r.server.Fail(c.fault)
		err := c.do(r.source)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q in it", c.fault.Operation, err, want)
			}
		}
		var refused *azcore.ResponseError
		if !errors.As(err, &refused) || refused.StatusCode != c.fault.Status {
			t.Errorf("%s: %v does not wrap the service's answer", c.fault.Operation, err)
		}
	}
}

func TestAMissingContainerIsNotFoundByName(t *testing.T) {
	r := newRig(t, storetype.ContainerProperties{}, cosmos.Options{}, cosmos.SourceOptions{})
	_, err := account(t, r.server, cosmos.Options{}).Source("shop", "nothing", cosmos.SourceOptions{}).Identity(t.Context())
	if !errors.Is(err, feed.ErrNotFound) || !strings.Contains(err.Error(), "container nothing of database shop") {
		t.Errorf("%v; want the container's name, and ErrNotFound", err)
	}
}

// A read after an empty continuation must be refused. If it meant the beginning, a lost
// position would deliver every change again without notice.
func TestAnEmptyPositionIsNotTheBeginning(t *testing.T) {
	r := newRig(t, storetype.ContainerProperties{}, cosmos.Options{}, cosmos.SourceOptions{})
	if _, err := r.source.Read(t.Context(), feed.Request{From: feed.After("")}); !errors.Is(err, feed.ErrUnsupported) {
		t.Errorf("%v; want it refused", err)
	}
}

// A read from a position before the retention must return a HistoryLostError. It must
// contain the oldest position, so that the caller can decide whether to resume there.
func TestLostHistoryIsReportedWithTheOldestPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storetype.ContainerProperties{Retention: time.Hour}, cosmos.Options{}, cosmos.SourceOptions{})
		q := feed.Request{Partition: feed.Partition{ID: "0"}, Mode: feed.AllVersionsAndDeletes}
		q.From = feed.After(r.read(q).Continuation)
		r.write("a", "1")
		r.write("a", "2")
		var lost *feed.HistoryLostError
		for range 24 * 30 { // wait, because the store deletes history in the background
			time.Sleep(10 * time.Minute)
			if _, err := r.source.Read(t.Context(), q); errors.As(err, &lost) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if lost == nil || lost.Oldest == "" {
			t.Fatalf("lost history is reported as %v", lost)
		}
		r.write("a", "3")
		q.From = feed.After(lost.Oldest)
		if page := r.read(q); len(page.Changes) != 1 {
			t.Errorf("from the oldest position: %d changes; want the one that came later", len(page.Changes))
		}
	})
}

func TestAModeThatAContainerLacksIsUnsupported(t *testing.T) {
	r := newRig(t, storetype.ContainerProperties{}, cosmos.Options{}, cosmos.SourceOptions{})
	for _, from := range []feed.Start{feed.Now(), feed.After(`"1"`)} {
		_, err := r.source.Read(t.Context(), feed.Request{Partition: feed.Partition{ID: "0"}, Mode: feed.AllVersionsAndDeletes, From: from})
		var lost *feed.HistoryLostError
		if !errors.Is(err, feed.ErrUnsupported) || errors.As(err, &lost) || !strings.Contains(err.Error(), "keeps no versions") {
			t.Errorf("from %s: %v; want the service's text, and ErrUnsupported", from, err)
		}
	}
}

// The service refuses a page because it cannot collect the requested number of items. The
// source must request fewer items.
func TestAPageThatTheServiceCannotFillIsRequestedSmaller(t *testing.T) {
	r := newRig(t, storetype.ContainerProperties{}, cosmos.Options{}, cosmos.SourceOptions{})
	for i := range 10 {
		r.write("a", fmt.Sprint(i))
	}
	r.server.Fail(server.Fault{
		Operation: "read change feed", Status: 413, Message: "Response size too large. Reduce page size and try again.",
		Match: func(q *http.Request) bool {
			return q.Header.Get(wire.HeaderMaxItemCount) > "2" || len(q.Header.Get(wire.HeaderMaxItemCount)) > 1
		},
	})
	page := r.read(feed.Request{Partition: feed.Partition{ID: "0"}, From: feed.Beginning(), MaxItems: 16})
	asked := 0
	for _, q := range r.sent.taken() {
		if q.Header.Get(wire.HeaderMaxItemCount) != "" {
			asked++
		}
	}
	if len(page.Changes) != 2 || asked != 4 {
		t.Errorf("%d changes, asked for %d times; want the 2 that fit, after 16, 8 and 4", len(page.Changes), asked)
	}
}
