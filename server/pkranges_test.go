package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// made creates a container of the database shop directly in the store.
func (ts *testServer) made(p storetype.ContainerProperties) *engine.Container {
	ts.t.Helper()
	if _, err := ts.db.Database(ts.t.Context(), "shop"); err != nil {
		if _, err := ts.db.CreateDatabase(ts.t.Context(), storetype.DatabaseProperties{ID: "shop"}); err != nil {
			ts.t.Fatal(err)
		}
	}
	if p.KeyPaths == nil {
		p.KeyPaths = []string{"/pk"}
	}
	c, err := ts.db.CreateContainer(ts.t.Context(), "shop", p)
	if err != nil {
		ts.t.Fatal(err)
	}
	return c
}

// put writes a document to a container through the store. format and args are the
// document's JSON.
func put(t testing.TB, c *engine.Container, format string, args ...any) storetype.Result {
	t.Helper()
	r, err := c.Upsert(context.Background(), nil, fmt.Appendf(nil, format, args...), storetype.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// split splits the partition id of a container and returns its children.
func split(t testing.TB, c *engine.Container, id string) []feed.Partition {
	t.Helper()
	made, err := c.Split(context.Background(), id, "")
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func merge(t testing.TB, c *engine.Container, a, b string) feed.Partition {
	t.Helper()
	made, err := c.Merge(context.Background(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

const ordersRanges = orders + "/pkranges"

// incremental returns the headers with which SDKs read the list of partitions since an
// etag.
func incremental(etag string) headers {
	h := headers{"A-IM": "Incremental Feed", "x-ms-max-item-count": "-1"}
	if etag != "" {
		h["If-None-Match"] = etag
	}
	return h
}

// ids returns the IDs of the partitions in an answer.
func (a response) ids() []string {
	a.t.Helper()
	var list keyRanges
	a.decode(&list)
	ids := []string{}
	for _, r := range list.Ranges {
		ids = append(ids, r.ID)
	}
	if list.Count != len(ids) || a.header.Get("x-ms-item-count") != fmt.Sprint(len(ids)) {
		a.t.Errorf("%s: counts %d and %q of %d ranges", a.what, list.Count, a.header.Get("x-ms-item-count"), len(ids))
	}
	return ids
}

func TestKeyRangesTileTheKeySpaceWithEqualBorders(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 3})
	split(t, c, "1")
	var list keyRanges
	ts.do("GET", ordersRanges, nil, "").want(200).decode(&list)
	if list.RID != c.Identity().ContainerRID || len(list.Ranges) != 4 {
		t.Fatalf("ranges: %+v", list)
	}
	at := ""
	for _, r := range list.Ranges {
		if r.MinInclusive != at || r.Status != "online" || r.Parents == nil {
			t.Errorf("range %+v does not begin at %q", r, at)
		}
		at = r.MaxExclusive
		id := c.Identity()
		if want := "dbs/" + id.DatabaseRID + "/colls/" + id.ContainerRID + "/pkranges/" + r.RID + "/"; r.Self != want {
			t.Errorf("_self of range %s is %q, want %q", r.ID, r.Self, want)
		}
	}
	if at != "FF" {
		t.Errorf("the last range ends at %q", at)
	}
}

// The rid of a partition must begin with the bytes of its container's rid and end with
// the byte that marks a partition. SDKs parse it.
func TestTheRidOfAKeyRangeCanBeTakenApart(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 40})
	var list keyRanges
	ts.do("GET", ordersRanges, nil, "").want(200).decode(&list)
	owner, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(c.Identity().ContainerRID, "-", "/"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range list.Ranges {
		b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(r.RID, "-", "/"))
		if err != nil || len(b) != 16 || string(b[:8]) != string(owner) || b[15]>>4 != 5 {
			t.Errorf("rid %q of range %s: %x, %v", r.RID, r.ID, b, err)
		}
		if seen[r.RID] {
			t.Errorf("rid %q twice", r.RID)
		}
		seen[r.RID] = true
	}
}

// A read of the list with the current etag must be answered 304. Otherwise azcosmos would
// read a thousand times and .NET forever.
func TestReadingKeyRangesAgainEndsWith304(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 2})
	first := ts.do("GET", ordersRanges, incremental(""), "").want(200)
	put(t, c, `{"id":"1","pk":"a"}`)
	for range 2 {
		again := ts.do("GET", ordersRanges, incremental(first.header.Get("Etag")), "").want(304)
		again.wantHeader("Etag", first.header.Get("Etag")).wantHeader("x-ms-item-count", "0")
	}
	// If-None-Match has the same effect without the A-IM header.
	ts.do("GET", ordersRanges, headers{"If-None-Match": first.header.Get("Etag")}, "").want(304)
}

func TestKeyRangesSinceAnEtagAreThoseMadeAfterItWithAllTheirAncestors(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 2})
	e0 := ts.do("GET", ordersRanges, incremental(""), "").want(200).header.Get("Etag")
	split(t, c, "1") // creates the partitions 2 and 3
	e1 := ts.do("GET", ordersRanges, incremental(e0), "").want(200).header.Get("Etag")
	split(t, c, "3") // creates the partitions 4 and 5
	list := ts.do("GET", ordersRanges, nil, "").want(200)
	if got := list.ids(); !slices.Equal(got, []string{"0", "2", "4", "5"}) {
		t.Errorf("without an etag: %v", got)
	}
	since0 := ts.do("GET", ordersRanges, incremental(e0), "").want(200)
	if got := since0.ids(); !slices.Equal(got, []string{"2", "4", "5"}) {
		t.Errorf("since the beginning: %v", got)
	}
	since1 := ts.do("GET", ordersRanges, incremental(e1), "").want(200)
	if got := since1.ids(); !slices.Equal(got, []string{"4", "5"}) {
		t.Errorf("since the first split: %v", got)
	}
	var ranges keyRanges
	since1.decode(&ranges)
	for _, r := range ranges.Ranges {
		if !slices.Equal(r.Parents, []string{"1", "3"}) {
			t.Errorf("range %s has the parents %v", r.ID, r.Parents)
		}
	}
	if made := merge(t, c, "4", "5"); made.ID != "6" {
		t.Fatalf("merged into %s", made.ID)
	}
	merged := ts.do("GET", ordersRanges, incremental(since1.header.Get("Etag")), "").want(200)
	merged.decode(&ranges)
	if len(ranges.Ranges) != 1 {
		t.Fatalf("after the merge: %+v", ranges.Ranges)
	}
	slices.Sort(ranges.Ranges[0].Parents)
	if !slices.Equal(ranges.Ranges[0].Parents, []string{"1", "3", "4", "5"}) {
		t.Errorf("after the merge: %+v", ranges.Ranges)
	}
	ts.do("GET", ordersRanges, incremental(merged.header.Get("Etag")), "").want(304)
}

func TestUnknownEtagOfKeyRangesIsIgnored(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 2})
	etag := ts.do("GET", ordersRanges, nil, "").want(200).header.Get("Etag")
	if err := ts.db.DeleteContainer(t.Context(), "shop", "orders"); err != nil {
		t.Fatal(err)
	}
	other := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 2})
	if other.Identity().ContainerRID == c.Identity().ContainerRID {
		t.Fatal("the recreated container has the old rid")
	}
	for _, tag := range []string{etag, `"17"`, `"x"`, `*`, `"4294967296.` + other.Identity().ContainerRID + `"`, `"9.` + other.Identity().ContainerRID + `"`} {
		if got := ts.do("GET", ordersRanges, incremental(tag), "").want(200).ids(); len(got) != 2 {
			t.Errorf("If-None-Match %s: %v", tag, got)
		}
	}
}

// Java reads the list at the container's _self path. Its signature covers only the
// container's rid, in lower case.
func TestKeyRangesByRid(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 2})
	id := c.Identity()
	date := wire.FormatTime(ts.db.Now())
	sig := ts.key.Sign(wire.Payload("GET", "pkranges", strings.ToLower(id.ContainerRID), date, ""))
	path := "/dbs/" + id.DatabaseRID + "/colls/" + id.ContainerRID + "/pkranges"
	h := headers{"Authorization": wire.Authorization(sig), "x-ms-date": date}
	ts.do("GET", path, h, "").want(200).wantHeader("x-ms-alt-content-path", "dbs/shop/colls/orders").wantHeader("x-ms-content-path", id.ContainerRID)
	ts.do("GET", path+"/", h, "").want(200)
	if got := ts.do("GET", ordersRanges, nil, "").want(200).ids(); len(got) != 2 {
		t.Errorf("by name: %v", got)
	}
}

func TestKeyRangesOfNoContainer(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.made(storetype.ContainerProperties{ID: "orders"})
	ts.do("GET", "/dbs/shop/colls/none/pkranges", nil, "").want(404, 0)
	ts.do("GET", "/dbs/none/colls/orders/pkranges", nil, "").want(404, 0)
}

// A partition is split, and a request for it is answered 410. The list that the client
// reads next must already have both children, because SDKs retry at once.
func TestTheSuccessorsOfARangeAreListedAfterA410(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	done := make(chan error, 1)
	go func() {
		id := "0"
		for range 30 {
			made, err := c.Split(context.Background(), id, "")
			if err != nil {
				done <- err
				return
			}
			id = made[0].ID
		}
		done <- nil
	}()
	gone, splits := 0, true
	for id := "0"; ; {
		if splits {
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				splits = false
			default:
			}
		}
		a := ts.do("GET", orders+"/docs", headers{"A-IM": "Incremental Feed", "x-ms-documentdb-partitionkeyrangeid": id}, "")
		if a.status == 304 && !splits {
			break
		}
		if a.status == 304 {
			continue
		}
		gone++
		a.want(410, wire.SubPartitionGone)
		live := ts.do("GET", ordersRanges, nil, "").want(200).ids()
		if slices.Contains(live, id) {
			t.Fatalf("range %s was refused and is still listed: %v", id, live)
		}
		id = live[0]
	}
	if gone == 0 {
		t.Error("no range was ever gone")
	}
}
