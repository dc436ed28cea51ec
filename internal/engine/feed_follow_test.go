package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/storetype"
)

// A reader follows the changes of one tenant, which is the first level of a hierarchical
// partition key. A split then divides the tenant's keys between two partitions. The
// reader must return each change of the tenant exactly once.
func TestReaderFollowsAPrefixThatASplitDivides(t *testing.T) {
	db := openForTest(t)
	c := newContainer(t, db, storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/tenant", "/user"}})
	write := func(from, to int) {
		for i := from; i < to; i++ {
			for _, tenant := range []string{"large", "other"} {
				doc := fmt.Sprintf(`{"id":"%s-%02d","tenant":%q,"user":"u%d"}`, tenant, i, tenant, i)
				if _, err := c.Upsert(t.Context(), nil, []byte(doc), storetype.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	r, err := feed.NewReader(db.Source(c), feed.ReaderConfig{Key: feed.PartitionKey{"large"}, Start: feed.Beginning(), MaxItems: 3})
	if err != nil {
		t.Fatal(err)
	}
	write(0, 10)
	ids := followIDs(t, r)

	low, high := epk.MultiHash.Prefix([]epk.Component{epk.OfString("large")})
	middle, err := epk.MultiHash.Midpoint(low, high)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Split(t.Context(), "0", middle); err != nil {
		t.Fatal(err)
	}
	write(10, 30)
	ids = append(ids, followIDs(t, r)...)

	var want []string
	for i := range 30 {
		want = append(want, fmt.Sprintf("large-%02d", i))
	}
	slices.Sort(ids)
	if !slices.Equal(ids, want) {
		t.Errorf("read %v, want each of the tenant's items once", ids)
	}
	_, err = db.Source(c).Read(t.Context(), feed.Request{Key: feed.PartitionKey{"large"}, From: feed.Beginning()})
	var gone *feed.GoneError
	if !errors.As(err, &gone) || gone.Range != (feed.Range{Min: low, Max: high}) {
		t.Errorf("a prefix in two partitions: %v, want a GoneError with its range %s-%s", err, low, high)
	}
}

// followIDs reads changes until the feed has no more. It returns the ids of the changed
// items.
func followIDs(t *testing.T, r *feed.Reader) []string {
	t.Helper()
	var ids []string
	for empty := 0; empty < 4; empty++ { // four empty pages: two from each of the reader's two parts
		page, _, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range page.Changes {
			id, err := change.ID()
			if err != nil {
				t.Fatal(err)
			}
			ids, empty = append(ids, id), -1
		}
	}
	return ids
}

func TestFeedRefusesAContinuationThatIsNotItsOwn(t *testing.T) {
	db := openForTest(t)
	c := newContainer(t, db, storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/pk"}})
	for _, text := range []feed.Continuation{`24`, `"x"`, `"-1"`, `""`, `"1" `, `{"Continuation":[]}`, `"99999999999999999999"`} {
		_, err := db.Source(c).Read(t.Context(), feed.Request{Range: feed.Full(), From: feed.After(text)})
		var bad *storetype.BadRequestError
		if !errors.As(err, &bad) || bad.Kind != storetype.BadContinuation {
			t.Errorf("continuation %s: %v, want BadContinuation", text, err)
		}
	}
}

// A listing of leases is charged like any read. With too little throughput it must return
// a *feed.ThrottledError.
func TestListingsUseUpThroughput(t *testing.T) {
	db := openForTestWith(t, engine.Options{EnforceThroughput: true})
	c := newContainer(t, db, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}, Throughput: 5})
	s, err := db.Leases(c).Open(t.Context(), leaseKey("p", c))
	if err != nil {
		t.Fatal(err)
	}
	var throttled *feed.ThrottledError
	for range 1000 {
		if _, err = s.List(t.Context()); err != nil {
			break
		}
	}
	if !errors.As(err, &throttled) {
		t.Errorf("1000 listings on 5 RU/s: %v, want them throttled", err)
	}
}

// A lease container with too little throughput must refuse updates and listings of
// leases, and return the time to wait. A refused update must change nothing, so that a
// processor can retry it.
func TestThrottledLeaseWritesAreNotApplied(t *testing.T) {
	db := openForTestWith(t, engine.Options{EnforceThroughput: true})
	c := newContainer(t, db, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	s, err := db.Leases(c).Open(t.Context(), leaseKey("p", c))
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Create(t.Context(), lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Properties(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.Throughput = 1
	if _, err := db.ReplaceContainer(t.Context(), "db", p); err != nil {
		t.Fatal(err)
	}
	var throttled *feed.ThrottledError
	applied := l
	for i := 0; ; i++ {
		next, err := s.Update(t.Context(), applied)
		if errors.As(err, &throttled) {
			break
		}
		if err != nil || i > 1000 {
			t.Fatalf("update %d: %v, want it throttled in the end", i, err)
		}
		applied = next
	}
	if throttled.RetryAfter <= 0 {
		t.Errorf("retry after %s", throttled.RetryAfter)
	}
	if _, err := s.List(t.Context()); !errors.As(err, &throttled) || !strings.Contains(err.Error(), "list leases") {
		t.Errorf("a listing: %v, want it throttled", err)
	}
	p.Throughput, p.ETag = 0, ""
	if _, err := db.ReplaceContainer(t.Context(), "db", p); err != nil {
		t.Fatal(err)
	}
	res, err := c.Read(t.Context(), feed.PartitionKey{l.ID}, l.ID, storetype.ReadOptions{})
	if err != nil || res.ETag != applied.ETag {
		t.Errorf("the document has etag %s, %v, want the etag of the last write that was not throttled, %s", res.ETag, err, applied.ETag)
	}
}
