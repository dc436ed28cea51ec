package server

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// readVersions requests one page of the change feed of orders, in all versions and
// deletes mode.
func (ts *testServer) readVersions(more ...headers) response {
	ts.t.Helper()
	return ts.read(append([]headers{{"A-IM": "Full-Fidelity Feed", "x-ms-cosmos-changefeed-wire-format-version": "2021-09-15"}}, more...)...)
}

// versions returns the changes in a page of all versions and deletes mode.
func (a response) versions() []version {
	a.t.Helper()
	var body struct {
		Documents []version
		Count     int `json:"_count"`
	}
	a.want(200).decode(&body)
	if body.Count != len(body.Documents) || a.header.Get("x-ms-item-count") != fmt.Sprint(body.Count) {
		a.t.Errorf("%s: counts %d and %s of %d", a.what, body.Count, a.header.Get("x-ms-item-count"), len(body.Documents))
	}
	return body.Documents
}

func TestEveryVersionAndDeleteIsShownWithItsMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{})
		c := ts.made(storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/t", "/u"}, Retention: time.Hour, DefaultTTL: -1})
		etag := ts.readVersions(after("*")).want(304).header.Get("Etag")
		created := put(t, c, `{"id":"o\"1","t":"t1","u":2,"v":1}`)
		time.Sleep(2 * time.Second)
		replaced := put(t, c, `{"id":"o\"1","t":"t1","u":2,"v":2}`)
		deleted, err := c.Delete(t.Context(), feed.PartitionKey{"t1", 2}, `o"1`, storetype.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		put(t, c, `{"id":"x","t":null,"ttl":1}`)
		time.Sleep(5 * time.Second)

		a := ts.readVersions(after(etag))
		all := a.versions()
		if len(all) != 5 {
			t.Fatalf("%s", a.body)
		}
		create, replace, del, expiry := all[0], all[1], all[2], all[4]
		if m := create.Metadata; m.Operation != "create" || m.LSN != created.LSN || m.Previous != 0 || m.CRTS != create.Current.TS || create.Current.V != 1 || create.Previous != nil {
			t.Errorf("create: %+v", create)
		}
		if m := replace.Metadata; m.Operation != "replace" || m.LSN != replaced.LSN || m.Previous != created.LSN || m.CRTS != create.Metadata.CRTS+2 || replace.Current.V != 2 ||
			!strings.Contains(string(replace.Previous), `"v":1,`) {
			t.Errorf("replace: %+v", replace)
		}
		if m := del.Metadata; m.Operation != "delete" || m.LSN != deleted.LSN || m.Previous != replaced.LSN || m.ID != `o"1` || m.Expired ||
			fmt.Sprint(m.Key) != "map[t:t1 u:2]" || del.Current != (feedItem{}) {
			t.Errorf("delete: %+v", del)
		}
		if m := expiry.Metadata; m.Operation != "delete" || !m.Expired || m.ID != "x" || fmt.Sprint(m.Key) != "map[t:<nil>]" {
			t.Errorf("expiry: %+v", expiry)
		}
		ts.readVersions(after(a.header.Get("Etag"))).want(304)
	})
}

// Deletes have previous images unless the option leaves them out, as for a new account.
// The members of the metadata have the order of the service, and it writes only those that
// have a meaning.
func TestMetadataHasTheServicesOrderAndDeletesHavePreviousImagesByOption(t *testing.T) {
	for _, without := range []bool{false, true} {
		ts := newTestServer(t, Options{DeletesWithoutPrevious: without})
		c := ts.made(storetype.ContainerProperties{ID: "orders", Retention: time.Hour})
		etag := ts.readVersions(after("*")).want(304).header.Get("Etag")
		put(t, c, `{"id":"1","pk":"a","v":1}`)
		put(t, c, `{"id":"1","pk":"a","v":2}`)
		if _, err := c.Delete(t.Context(), feed.PartitionKey{"a"}, "1", storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		a := ts.readVersions(after(etag)).want(200)
		var page struct {
			Documents []struct {
				Current, Metadata, Previous json.RawMessage
			}
		}
		a.decode(&page)
		crts := regexp.MustCompile(`"crts":[0-9]{10}`)
		for i, want := range []string{
			`{"lsn":1,"crts":N,"operationType":"create"}`,
			`{"lsn":2,"crts":N,"operationType":"replace","previousImageLSN":1}`,
			`{"lsn":3,"crts":N,"operationType":"delete","previousImageLSN":2,"id":"1","partitionKey":{"pk":"a"}}`,
		} {
			if have := crts.ReplaceAllString(string(page.Documents[i].Metadata), `"crts":N`); have != want {
				t.Errorf("metadata %s, want %s", have, want)
			}
		}
		replace, del := page.Documents[1], page.Documents[2]
		if !strings.Contains(string(replace.Previous), `"v":1,`) {
			t.Errorf("the replace has the previous image %q", replace.Previous)
		}
		if string(del.Current) != "{}" || without != (del.Previous == nil) || !without && !strings.Contains(string(del.Previous), `"v":2,`) {
			t.Errorf("DeletesWithoutPrevious %v: the delete has current %s and previous %q", without, del.Current, del.Previous)
		}
	}
}

func TestVersionsOfSeveralPartitionsAndAfterASplit(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Retention: time.Hour, Partitions: 2})
	etag := ts.readVersions(after("*")).want(304).header.Get("Etag")
	for i := range 30 {
		put(t, c, `{"id":"%d","pk":"k%d","v":%d}`, i%10, i%10, i)
	}
	live := split(t, c, "1")
	for i := 30; i < 60; i++ {
		put(t, c, `{"id":"%d","pk":"k%d","v":%d}`, i%10, i%10, i)
	}
	at, read := etag, 0
	next := map[int]int{} // the next version of each item, by its id
	for id := range 10 {
		next[id] = id
	}
	for {
		a := ts.readVersions(after(at), items(7))
		if a.status == 304 {
			break
		}
		for _, v := range a.versions() {
			if id := v.Current.V % 10; v.Current.V != next[id] {
				t.Fatalf("version %d of item %d, want %d", v.Current.V, id, next[id])
			}
			next[v.Current.V%10] += 10
			read++
		}
		at = a.header.Get("Etag")
	}
	if read != 60 {
		t.Errorf("%d versions", read)
	}
	n := 0
	for _, id := range []string{"0", live[0].ID, live[1].ID} {
		n += len(ts.readVersions(after(etag), inRange(id)).versions())
	}
	if n != 60 {
		t.Errorf("by partition, from the parent's etag: %d versions", n)
	}
}

// The test starts reads in all versions and deletes mode from the beginning, from a time,
// and from a position that is too old. Each must be answered 400, with a message that
// names the reason.
func TestInvalidStartsOfVersionsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{})
		c := ts.made(storetype.ContainerProperties{ID: "orders", Retention: time.Minute})
		ts.readVersions().want(400).wantBody("If-None-Match: *")
		ts.readVersions(headers{"If-Modified-Since": "Fri, 20 Nov 2026 18:45:41 GMT"}).want(400).wantBody("If-None-Match: *")
		etag := ts.readVersions(after("*")).want(304).header.Get("Etag")
		// If a request has an etag and a time, the etag is used and the time is ignored.
		ts.readVersions(after(etag), headers{"If-Modified-Since": "Fri, 20 Nov 2026 18:45:41 GMT"}).want(304)
		put(t, c, `{"id":"1","pk":"a"}`)
		time.Sleep(2 * time.Minute)
		ts.readVersions(after(etag)).want(400).wantBody("older than the container's history")
		ts.readVersions(after("*")).want(304)

		plain := ts.made(storetype.ContainerProperties{ID: "plain"})
		ts.do("GET", "/dbs/shop/colls/"+plain.Identity().Container+"/docs", headers{"A-IM": "Full-Fidelity Feed", "If-None-Match": "*"}, "").
			want(400).wantBody("changeFeedPolicy.retentionDuration")
	})
}

func TestTheLSNOfAStoredDocumentIsItsLastMember(t *testing.T) {
	for image, want := range map[string]int64{
		`{"id":"1","_lsn":17}`: 17, `{"_lsn":1,"_ts":2,"_lsn":9007199254740993}`: 9007199254740993, ``: 0, `{}`: 0, `{"a":"x"}`: 0,
	} {
		if got := lastLSN([]byte(image)); got != want {
			t.Errorf("%s: %d, want %d", image, got, want)
		}
	}
}

func TestKeyPathsAreNamedWithoutSlashAndQuotes(t *testing.T) {
	got := keyNames([]string{"/pk", "/address/city", `/"a b"`, `/"a b"/c`}, [][]string{{"pk"}, {"address", "city"}, {"a b"}, {"a b", "c"}})
	if fmt.Sprint(got) != `[pk address/city a b "a b"/c]` {
		t.Errorf("%q", got)
	}
}
