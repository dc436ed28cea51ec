package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/storetype"
)

// largestAnswer is the service's limit of a page.
const largestAnswer = 4 << 20

// sizesOf are the sizes of documents that fill pages in different ways: large ones, which
// leave most of a page empty, and small ones, whose commas and metadata count.
func sizesOf(r *rand.Rand) []int {
	var sizes []int
	for range 12 {
		sizes = append(sizes, 1_900_000-r.IntN(1_500_000))
	}
	small := 9000
	if race.Enabled { // many rows tell the detector nothing new
		small = 900
	}
	for range small {
		sizes = append(sizes, r.IntN(50))
	}
	for range 2 {
		sizes = append(sizes, 1_900_000)
	}
	return sizes
}

// pagesOf requests pages until next returns false, and fails the test unless each has at
// most the size of a page, and no page that is followed by another has room for the first
// row of that one.
func pagesOf(t *testing.T, what string, next func(last response) (a response, more bool)) (rows []json.RawMessage) {
	t.Helper()
	const maxRows = 10_000
	var last response
	for count := 0; ; {
		a, more := next(last)
		if !more {
			return rows
		}
		var body struct {
			Documents []json.RawMessage
		}
		a.want(200).decode(&body)
		if n := len(a.body); n > largestAnswer && len(body.Documents) > 1 {
			t.Errorf("%s: a page of %d rows has %d bytes", what, len(body.Documents), n)
		}
		const metadata = 2048 // of the largest change, and the text around the documents
		if last.status == 200 && len(body.Documents) > 0 && len(last.body)+len(body.Documents[0])+metadata < largestAnswer && count < maxRows {
			t.Errorf("%s: a page of %d bytes is followed by a row of %d", what, len(last.body), len(body.Documents[0]))
		}
		rows, last, count = append(rows, body.Documents...), a, len(body.Documents)
	}
}

// A page also ends when its time is up. In a bubble no time passes while a page is read, so
// that only its size counts.
func TestPagesOfDocumentsHaveAtMost4MiB(t *testing.T) { synctest.Test(t, pagesHaveAtMost4MiB) }

func pagesHaveAtMost4MiB(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Retention: time.Hour})
	start := ts.readVersions(after("*")).want(304).header.Get("Etag")
	sizes := sizesOf(rand.New(rand.NewPCG(1, 1)))
	for i, size := range sizes {
		put(t, c, `{"id":"%05d","pk":"a","g":%d,"l":[1,2,3],"x":"%s"}`, i, i, strings.Repeat("x", size))
	}
	continued := func(ask func(h headers) response) func(response) (response, bool) {
		return func(last response) (response, bool) {
			h := items(10_000)
			if last.status != 0 {
				token := last.header.Get("x-ms-continuation")
				if token == "" {
					return last, false
				}
				h["x-ms-continuation"] = token
			}
			return ask(together(pk(`["a"]`), h)), true
		}
	}
	want := func(what string, n int, rows []json.RawMessage) {
		t.Helper()
		if len(rows) != n {
			t.Errorf("%s: %d rows, want %d", what, len(rows), n)
		}
		seen := map[string]bool{}
		for _, row := range rows {
			if key := string(row); seen[key] {
				t.Errorf("%s: %.60s is returned twice", what, row)
			} else {
				seen[key] = true
			}
		}
	}
	want("read feed", len(sizes), pagesOf(t, "read feed", continued(func(h headers) response { return ts.do("GET", orders+"/docs", h, "") })))
	for text, n := range map[string]int{
		"SELECT * FROM c":                               len(sizes),
		"SELECT * FROM c WHERE c.g >= 0":                len(sizes),
		"SELECT c.id, c.x AS a, c.x AS b FROM c":        len(sizes),
		"SELECT * FROM c ORDER BY c.g DESC":             len(sizes),
		"SELECT DISTINCT c.id, c.x FROM c":              len(sizes),
		"SELECT c.id, l, c.x FROM c JOIN l IN c.l":      3 * len(sizes),
		"SELECT c.g, MAX(c.x) AS m FROM c GROUP BY c.g": len(sizes),
	} {
		want(text, n, pagesOf(t, text, continued(func(h headers) response { return ts.ask(h, text) })))
	}
	changes := func(etag string, read func(...headers) response, more ...headers) func(response) (response, bool) {
		return func(last response) (response, bool) {
			if last.status != 0 {
				etag = last.header.Get("Etag")
			}
			h := append([]headers{items(10_000)}, more...)
			if etag != "" {
				h = append(h, after(etag))
			}
			a := read(h...)
			return a, a.status != 304
		}
	}
	want("change feed", len(sizes), pagesOf(t, "change feed", changes("", ts.read)))
	want("change feed with metadata", len(sizes), pagesOf(t, "change feed with metadata", changes("", ts.read, headers{"x-ms-cosmos-changefeed-wire-format-version": wireFormat})))
	for i := range len(sizes) {
		if _, err := c.Delete(t.Context(), []any{"a"}, fmt.Sprintf("%05d", i), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	want("all versions", 2*len(sizes), pagesOf(t, "all versions", changes(start, ts.readVersions)))
}
