package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// latest returns the headers of a change feed request in latest version mode, merged with
// more.
func latest(more ...headers) headers {
	return together(append([]headers{{"A-IM": "Incremental Feed"}}, more...)...)
}

// after returns the header of a read that starts after an etag. inRange returns the
// header that selects a partition, and items the header for a page size.
func after(etag string) headers { return headers{"If-None-Match": etag} }
func inRange(id string) headers { return headers{"x-ms-documentdb-partitionkeyrangeid": id} }
func items(n int) headers       { return headers{"x-ms-max-item-count": strconv.Itoa(n)} }

// read requests one page of the change feed of orders, in latest version mode.
func (ts *testServer) read(h ...headers) response {
	ts.t.Helper()
	return ts.do("GET", orders+"/docs", latest(h...), "")
}

// feedItem holds the members of a document that tests of feeds and queries check.
type feedItem struct {
	ID  string `json:"id"`
	V   int    `json:"v"`
	TS  int64  `json:"_ts"`
	LSN int64  `json:"_lsn"`
}

// page returns the documents of a page. It fails the test if the JSON around the
// documents, or a header that repeats their number, is wrong.
func (a response) page() []feedItem {
	a.t.Helper()
	if a.status == 304 {
		a.wantHeader("x-ms-item-count", "0")
		if a.header.Get("Etag") == "" {
			a.t.Errorf("%s: 304 without an etag", a.what)
		}
		return nil
	}
	a.want(200)
	var body struct {
		RID       string     `json:"_rid"`
		Documents []feedItem `json:"Documents"`
		Count     int        `json:"_count"`
	}
	a.decode(&body)
	if body.Count != len(body.Documents) || a.header.Get("x-ms-item-count") != strconv.Itoa(body.Count) || body.RID != a.header.Get("x-ms-content-path") {
		a.t.Errorf("%s: frame %q %d %s, header %v", a.what, body.RID, body.Count, a.header.Get("x-ms-item-count"), a.header)
	}
	return body.Documents
}

// names returns the IDs of the documents, joined by spaces.
func names(items []feedItem) string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.ID
	}
	return strings.Join(ids, " ")
}

// drain reads pages of a feed from each etag to the next, until a 304. It returns all
// documents and the last etag.
func (ts *testServer) drain(h ...headers) (all []feedItem, etag string) {
	ts.t.Helper()
	for range 1000 {
		a := ts.read(h...)
		page := a.page()
		etag = a.header.Get("Etag")
		all = append(all, page...)
		if len(page) == 0 {
			return all, etag
		}
		h = append(slices.Clone(h), after(etag))
	}
	ts.t.Fatal("the feed does not end")
	return nil, ""
}

func TestAFeedPageHasTheStoredBytesAndAllHeaders(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	put(t, c, `{"id":"1","pk":"a","v": 1.50, "x":"é<&>\u00fc"}`)
	last := put(t, c, `{"id":"2","pk":"b","v":2}`)
	a := ts.read().want(200)
	a.wantBody(`{"_rid":"` + c.Identity().ContainerRID + `","Documents":[{"id":"1","pk":"a","v":1.5,"x":"é<&>\u00fc",`)
	a.wantBody(fmt.Sprintf(`"_lsn":%d}],"_count":2}`, last.LSN))
	a.wantHeader("Etag", fmt.Sprintf(`"%d"`, last.LSN)).wantHeader("x-ms-item-count", "2")
	a.wantHeader("x-ms-session-token", fmt.Sprintf("0:-1#%d", last.LSN)).wantHeader("lsn", fmt.Sprint(last.LSN))
	a.wantHeader("x-ms-alt-content-path", "dbs/shop/colls/orders").wantHeader("x-ms-content-path", c.Identity().ContainerRID)
	a.wantHeader("x-ms-continuation", "").wantHeader("x-ms-documentdb-partitionkeyrangeid", "0")
	again := ts.read(after(a.header.Get("Etag"))).want(304)
	again.wantHeader("Etag", a.header.Get("Etag")).wantHeader("x-ms-item-count", "0").wantHeader("x-ms-session-token", fmt.Sprintf("0:-1#%d", last.LSN))
}

// A feed appends the service's _lsn after _ts. A member _lsn of the document's own stays in
// its place, and reads and queries see no other.
func TestAMemberLSNOfADocumentIsKeptBesideTheFeeds(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Retention: time.Hour})
	etag := ts.readVersions(after("*")).want(304).header.Get("Etag")
	put(t, c, `{"id":"0","pk":"a"}`)
	put(t, c, `{"id":"1","_lsn":"mine","pk":"a"}`)
	const own = `{"id":"1","_lsn":"mine","pk":"a","_rid":"`
	ts.read().want(200).wantBody(own).wantBody(`,"_lsn":2}],"_count":2}`)
	ts.readVersions(after(etag)).want(200).wantBody(`{"current":` + own).wantBody(`,"_lsn":2},"metadata"`)
	read := ts.do("GET", "/dbs/shop/colls/orders/docs/1", pk(`["a"]`), "").want(200).wantBody(own)
	if n := bytes.Count(read.body, []byte(`"_lsn"`)); n != 1 {
		t.Errorf("a read shows _lsn %d times: %s", n, read.body)
	}
	for text, want := range map[string]string{
		"SELECT VALUE c._lsn FROM c":                            `["mine"]`,
		"SELECT c._lsn FROM c WHERE c._lsn = 'mine'":            `[{"_lsn":"mine"}]`,
		"SELECT VALUE c.id FROM c WHERE c.id = '1'":             `["1"]`,
		"SELECT VALUE c.id FROM c WHERE NOT IS_DEFINED(c._lsn)": `["0"]`,
	} {
		ts.ask(pk(`["a"]`), text).want(200).wantBody(`"Documents":` + want)
	}
}

func TestTheModeIsReadWithoutRegardToCase(t *testing.T) {
	ts := newTestServer(t, Options{})
	put(t, ts.made(storetype.ContainerProperties{ID: "orders"}), `{"id":"1","pk":"a"}`)
	for _, mode := range []string{"Incremental Feed", "Incremental feed", "incremental feed", " INCREMENTAL  FEED "} {
		ts.read(headers{"A-IM": mode}).want(200)
	}
	ts.read(headers{"A-IM": "Feed"}).want(400).wantBody("A-IM")
	ts.read(headers{"x-ms-cosmos-changefeed-wire-format-version": "2031-01-01"}).want(400).wantBody("2021-09-15")
}

func TestAnEmptyFeedIs304WithAPosition(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	for _, start := range []headers{nil, after("*"), {"If-Modified-Since": "Fri, 20 Nov 2020 18:45:41 GMT"}} {
		etag := ts.read(start).want(304).header.Get("Etag")
		if etag == "" {
			t.Errorf("start %v: no etag", start)
		}
	}
	etag := ts.read().header.Get("Etag")
	put(t, c, `{"id":"1","pk":"a"}`)
	if got := names(ts.read(after(etag)).page()); got != "1" {
		t.Errorf("after the etag of 304: %q", got)
	}
}

func TestStartNowIsTheRequestAndNotTheFirstChange(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 2})
	put(t, c, `{"id":"1","pk":"a"}`)
	for _, scope := range []headers{nil, inRange("0"), inRange("1"), pk(`["b"]`), {"x-ms-start-epk": "10", "x-ms-end-epk": "30"}} {
		etag := ts.read(after("*"), scope).want(304).header.Get("Etag")
		if got := ts.read(after(etag), scope).want(304).header.Get("Etag"); got != etag {
			t.Errorf("%v: position %s became %s without a change", scope, etag, got)
		}
	}
	etag := ts.read(after("*")).want(304).header.Get("Etag")
	put(t, c, `{"id":"2","pk":"b"}`)
	put(t, c, `{"id":"3","pk":"a"}`)
	if got := names(ts.read(after(etag)).page()); got != "2 3" {
		t.Errorf("after now: %q", got)
	}
}

func TestPagesHaveTheRequestedSizeAndLoseNothing(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 3})
	for i := range 250 {
		put(t, c, `{"id":"%d","pk":"k%d","v":%d}`, i, i%17, i)
	}
	if got := len(ts.read().page()); got != 100 {
		t.Errorf("the server's own page size is %d", got)
	}
	if got := len(ts.read(items(-1)).page()); got != 100 {
		t.Errorf("page size -1 gives %d", got)
	}
	if got := len(ts.read(items(0)).page()); got != 100 {
		t.Errorf("page size 0 gives %d", got)
	}
	ts.read(headers{"x-ms-max-item-count": "many"}).want(400).wantText("The input PageSize many is invalid.")
	for _, n := range []int{1, 7, 100, 1000} {
		all, _ := ts.drain(items(n))
		seen, last := map[int]bool{}, map[int]int{} // the documents, and the last of each key
		for i, item := range all {
			if key := item.V % 17; seen[item.V] || item.V < last[key] {
				t.Fatalf("page size %d: position %d has document %d", n, i, item.V)
			}
			seen[item.V], last[item.V%17] = true, item.V
		}
		if len(all) != 250 {
			t.Errorf("page size %d: %d documents", n, len(all))
		}
	}
	var apart []feedItem
	for _, id := range []string{"0", "1", "2"} {
		part, _ := ts.drain(items(10), inRange(id))
		apart = append(apart, part...)
	}
	slices.SortFunc(apart, func(a, b feedItem) int { return a.V - b.V })
	for i, item := range apart {
		if item.V != i {
			t.Fatalf("by partition, document %d is at position %d", item.V, i)
		}
	}
	if len(apart) != 250 {
		t.Errorf("by partition: %d documents", len(apart))
	}
}

func TestATransactionIsNeverCut(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	ops := make([]storetype.Operation, 5)
	for i := range ops {
		ops[i] = storetype.Operation{Kind: storetype.OpCreate, Body: fmt.Appendf(nil, `{"id":"%d","pk":"a"}`, i)}
	}
	if _, err := c.Batch(t.Context(), feed.PartitionKey{"a"}, ops); err != nil {
		t.Fatal(err)
	}
	if got := names(ts.read(items(2)).page()); got != "0 1 2 3 4" {
		t.Errorf("page: %q", got)
	}
}

// A read with If-Modified-Since returns the changes after that second, and not the
// changes within it. An etag in the same request takes precedence, because SDKs repeat
// the time with every page. The zone may be "UTC", as Go writes it, or "GMT".
func TestAStartFromATimeIsAfterThatSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{})
		c := ts.made(storetype.ContainerProperties{ID: "orders"})
		put(t, c, `{"id":"before","pk":"a"}`)
		time.Sleep(10 * time.Second)
		at := ts.db.Now()
		put(t, c, `{"id":"within","pk":"a"}`)
		time.Sleep(time.Second)
		put(t, c, `{"id":"after","pk":"a"}`)
		for _, text := range []string{wire.FormatTime(at), strings.Replace(wire.FormatTime(at), "GMT", "UTC", 1)} {
			since := headers{"If-Modified-Since": text}
			a := ts.read(since)
			if got := names(a.page()); got != "after" {
				t.Errorf("since %s: %q", text, got)
			}
			if got := names(ts.read(since, after(`"0"`)).page()); got != "after" {
				t.Errorf("beside an older etag: %q", got)
			}
			ts.read(since, after(a.header.Get("Etag"))).want(304)
			ts.read(since, after("*")).want(304)
		}
		if got := names(ts.read(headers{"If-Modified-Since": "Fri, 01 Jan 1999 00:00:00 GMT"}).page()); got != "before within after" {
			t.Errorf("from a time before the container existed: %q", got)
		}
		ts.read(headers{"If-Modified-Since": "yesterday"}).want(400).wantBody("If-Modified-Since")
	})
}

// In the REST API of 2016, a start from a time is answered with an etag and no documents.
// The etag must be the position before that second. With the current position, the client
// would miss the documents written since.
func TestTheOldRestApiAnswersATimeWithThePositionBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{})
		c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 2})
		old := headers{"x-ms-version": "2016-07-11"}
		put(t, c, `{"id":"before","pk":"a"}`)
		time.Sleep(10 * time.Second)
		since := headers{"If-Modified-Since": wire.FormatTime(ts.db.Now())}
		put(t, c, `{"id":"within","pk":"a"}`)
		put(t, c, `{"id":"other","pk":"b"}`)
		time.Sleep(time.Second)
		put(t, c, `{"id":"after","pk":"a"}`)
		etag := ts.read(old, since).want(304).wantHeader("x-ms-item-count", "0").header.Get("Etag")
		if got := names(ts.read(old, after(etag)).page()); got != "other within after" {
			t.Errorf("after the position: %q", got)
		}
		if got := names(ts.read(old, since, after(etag)).page()); got != "other within after" {
			t.Errorf("after the position, with the time: %q", got)
		}
		var apart []string
		for _, id := range []string{"0", "1"} {
			etag := ts.read(old, since, inRange(id)).want(304).header.Get("Etag")
			page, _ := ts.drain(old, inRange(id), after(etag))
			apart = append(apart, names(page))
		}
		slices.Sort(apart)
		if got := strings.Join(apart, ","); got != "other,within after" {
			t.Errorf("by partition: %q", got)
		}
		if got := names(ts.read(old).page()); got != "other before within after" {
			t.Errorf("the old version from the beginning: %q", got)
		}
		if got := names(ts.read(headers{"x-ms-version": "2017-02-22"}, since).page()); got != "after" {
			t.Errorf("a later version: %q", got)
		}
		ts.read(old, headers{"If-Modified-Since": "yesterday"}).want(400)
	})
}

// The etag lies after the end of the log, as after a restore of an older copy. A 304 would
// hide that the log has lost changes. The answer's etag is the end of the log, and the rest of it
// is as for a session token that is ahead.
func TestAnEtagAfterTheEndOfTheLogIsLostHistory(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Retention: time.Hour})
	put(t, c, `{"id":"1","pk":"a"}`)
	for _, more := range []headers{nil, {"A-IM": "Full-Fidelity Feed"}, inRange("0"), {"x-ms-documentdb-partitionkey": `["a"]`}} {
		ts.read(after(`"1000"`), more).want(404, 1002).wantHeader("Etag", `"1"`).
			wantBody(`"message":"Message: {\"Errors\":[\"The read session is not available for the input session token.\"]}\r\nActivityId: `).
			wantHeader(wire.HeaderRequestCharge, "1").wantHeader(wire.HeaderLSN, "1").
			wantHeader(wire.HeaderSessionToken, "0:-1#1").wantHeader(wire.HeaderPartitionID, "0")
		ts.read(after(`"1"`), more).want(304)
	}
	live := split(t, c, "0") // the children go on from their parent's end, and one split takes a number
	put(t, c, `{"id":"2","pk":"b"}`)
	ends, err := (*engine.Container)(c).Ends(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range live {
		ts.read(after(`"1000"`), inRange(p.ID)).want(404, 1002).wantHeader(wire.HeaderPartitionID, p.ID).
			wantHeader(wire.HeaderSessionToken, wire.SessionToken(p.ID, ends[i].End))
	}
}

func TestEtagsThatAreNoPositionAreRefused(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	put(t, c, `{"id":"1","pk":"a"}`)
	for _, tag := range []string{`"x"`, `"00000000-0000-0000-0000-000000000000"`, `"-1"`, `"1e3"`, `"99999999999999999999"`, `W/"1"`} {
		ts.read(after(tag)).want(400).wantBody("continuation")
	}
	// Some clients strip the quotes of an etag. Without them, it has the same meaning.
	if got := names(ts.read(after("0")).page()); got != "1" {
		t.Errorf("an etag without quotes: %q", got)
	}
	if got := names(ts.read(after("0;1F:1")).page()); got != "1" && got != "" {
		t.Errorf("an etag of several ranges without quotes: %q", got)
	}
}

func TestAFeedOfARangeThatIsGone(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	rid := c.Identity().ContainerRID
	put(t, c, `{"id":"1","pk":"a"}`)
	ts.read(inRange(rid + ",0")).want(200)
	ts.read(inRange("AAAAAYAAAAk=,0")).want(410, wire.SubNameCacheStale)
	ts.read(headers{"x-ms-cosmos-intended-collection-rid": "AAAAAYAAAAk="}).want(400, wire.SubIncorrectContainer)
	ts.read(inRange("7")).want(410, wire.SubPartitionGone)
	split(t, c, "0")
	ts.read(inRange("0")).want(410, wire.SubPartitionGone)
	ts.read(inRange(rid+",0")).want(410, wire.SubPartitionGone)
	ts.do("GET", "/dbs/shop/colls/none/docs", latest(), "").want(404, wire.SubNone)
}

func TestFeedsOfKeysPrefixesAndRangesOfKeys(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/t", "/u"}, Partitions: 2})
	put(t, c, `{"id":"1","t":"t1","u":"u1"}`)
	put(t, c, `{"id":"2","t":"t1","u":"u2"}`)
	put(t, c, `{"id":"3","t":"t2","u":"u1"}`)
	// These are the headers that the JavaScript SDK sends for the key prefix t1.
	prefix := headers{
		"x-ms-start-epk": "3D48BB14DA9D090D22112C96695028B6", "x-ms-end-epk": "3D48BB14DA9D090D22112C96695028B6FF",
		"x-ms-read-key-type": "EffectivePartitionKeyRange",
	}
	for name, tc := range map[string]struct {
		h    headers
		want string
	}{
		"key":                     {pk(`["t1","u1"]`), "1"},
		"prefix by header":        {pk(`["t1"]`), "1 2"},
		"prefix by range":         {prefix, "1 2"},
		"prefix and partition":    {latest(prefix, inRange("1")), "1 2"},
		"prefix, other partition": {latest(prefix, inRange("0")), ""},
		"lower case":              {headers{"x-ms-start-epk": "3d48bb14da9d090d22112c96695028b6", "x-ms-end-epk": "3d48bb14da9d090d22112c96695028b6ff"}, "1 2"},
		"key and partition":       {latest(pk(`["t1","u2"]`), inRange("1")), "2"},
		"start alone":             {headers{"x-ms-start-epk": "3D48BB14DA9D090D22112C96695028B6"}, "1 2"},
		"several partitions":      {headers{"x-ms-start-epk": "", "x-ms-end-epk": "FF"}, "3 1 2"},
		"another key":             {pk(`["t1","u3"]`), ""},
		"all":                     {nil, "3 1 2"},
	} {
		if got := names(ts.read(tc.h).page()); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	ts.read(headers{"x-ms-start-epk": "30", "x-ms-end-epk": "20"}).want(400)
	ts.read(headers{"x-ms-start-epk": "XY", "x-ms-end-epk": "YZ"}).want(400)
	ts.read(pk(`["a","b","c"]`)).want(400, wire.SubPartitionKeyMismatch)
	ts.read(pk(`a`)).want(400)
}

func TestTheSessionTokenIsThatOfTheAddressedRange(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 2})
	ends := map[string]int64{}
	for i := range 20 {
		r := put(t, c, `{"id":"%d","pk":"k%d"}`, i, i)
		ends[r.Partition] = r.LSN
	}
	for id, end := range ends {
		a := ts.read(inRange(id), items(1)).want(200)
		a.wantHeader("x-ms-session-token", wire.SessionToken(id, end)).wantHeader("lsn", fmt.Sprint(end))
		// .NET and Java compare their position with this LSN in the session token to
		// compute their lag.
		lsn, ok := wire.SessionLSN(a.header.Get("x-ms-session-token"), id)
		if !ok || lsn != end {
			t.Errorf("partition %s: token %q", id, a.header.Get("x-ms-session-token"))
		}
	}
}

func TestTheLSNOverSeveralPartitionsIsTheHighest(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 2})
	byPartition := map[string][]int{} // the numbers of the documents in each partition
	for i := range 20 {
		r := put(t, c, `{"id":"%d","pk":"k%d"}`, i, i)
		byPartition[r.Partition] = append(byPartition[r.Partition], i)
	}
	if len(byPartition) != 2 {
		t.Fatalf("the documents are in %v", byPartition)
	}
	for round, highest := range []string{"0", "1", "0"} { // in each round the other partition gets the highest LSN
		var last int64
		for range 50 * (round + 1) {
			i := byPartition[highest][0]
			last = put(t, c, `{"id":"%d","pk":"k%d"}`, i, i).LSN
		}
		ts.read(nil).want(200).wantHeader("lsn", fmt.Sprint(last))
	}
}

func TestTheWireFormatInLatestVersionMode(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	r := put(t, c, `{"id":"1","pk":"a","v":1}`)
	a := ts.read(headers{"x-ms-cosmos-changefeed-wire-format-version": "2021-09-15"}).want(200)
	var body struct{ Documents []version }
	a.decode(&body)
	if len(body.Documents) != 1 {
		t.Fatalf("%s", a.body)
	}
	v := body.Documents[0]
	if v.Current.ID != "1" || v.Current.LSN != r.LSN || v.Metadata.LSN != r.LSN || v.Metadata.CRTS != v.Current.TS || v.Metadata.CRTS == 0 {
		t.Errorf("%s", a.body)
	}
}

// version is the JSON of one change in all versions and deletes mode.
type version struct {
	Current  feedItem        `json:"current"`
	Previous json.RawMessage `json:"previous"`
	Metadata struct {
		Operation string         `json:"operationType"`
		LSN       int64          `json:"lsn"`
		CRTS      int64          `json:"crts"`
		Previous  int64          `json:"previousImageLSN"`
		Expired   bool           `json:"timeToLiveExpired"`
		ID        string         `json:"id"`
		Key       map[string]any `json:"partitionKey"`
	} `json:"metadata"`
}
