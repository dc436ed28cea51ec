package serve

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/cputime"
	"github.com/changefeed-go/changefeed/internal/slowsync"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/internal/wire/wiretest"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// These tests measure the speed of queries as a ratio. A query for one item is compared
// with a point read of the item on the same server. A filter over all documents is
// compared with a loop over the same documents in memory, which uses the JSON decoder of
// queries.

// queriedBody appends a document to b that has about 1 KB when stored. The member that
// the filter compares is the last one.
func queriedBody(b []byte, n int64) []byte {
	return fmt.Appendf(b, `{"id":"order-%06d","pk":"%03d","status":%q,"total":%d.25,"lines":[{"sku":"A-100","quantity":2,"price":19.99,"name":"a thing with a name"},`+
		`{"sku":"B-200","quantity":1,"price":5,"name":"another thing"}],"address":{"street":"Main Street 1","city":"Springfield","zip":"12345","country":"US"},`+
		`"notes":%q,"tags":["red","green","blue"],"paid":%t,"priority":%d}`,
		n, n%997, []string{"open", "closed", "shipped"}[n%3], n, strings.Repeat("lorem ipsum ", 30), n%2 == 0, n%10_000)
}

func loadQueried(t testing.TB, c *store.Container, documents int64) {
	t.Helper()
	var next atomic.Int64
	var writers sync.WaitGroup
	for range 64 {
		writers.Go(func() {
			var buf []byte
			for n := next.Add(1) - 1; n < documents; n = next.Add(1) - 1 {
				buf = queriedBody(buf[:0], n)
				if _, err := c.Upsert(t.Context(), nil, buf, storetype.WriteOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
}

// asking returns a function that creates requests for a query. body creates the body of
// each request.
func (s rated) asking(t testing.TB, body func(b []byte) []byte, more ...string) func(client int, buf []byte) []byte {
	headers := append([]string{"Content-Type", wire.ContentTypeQuery, wire.HeaderIsQuery, "True", wire.HeaderCrossPartition, "True"}, more...)
	head := s.head(t, http.MethodPost, ratedDocs, headers...)
	return func(_ int, buf []byte) []byte {
		text := body(nil)
		return append(fmt.Appendf(append(buf, head...), "Content-Length: %d\r\n\r\n", len(text)), text...)
	}
}

// TestRatioOfPointQueries asks for one of 10,000 items by its id and partition key.
// "plain" is a point read.
func TestRatioOfPointQueries(t *testing.T) {
	if !*ratioRun {
		t.Skip("run with -ratios")
	}
	const documents = 10_000
	_, c, srv := ratedStore(t, store.Options{FS: slowsync.FS{FS: vfs.Default}})
	loadQueried(t, c, documents)
	s := rate(t, srv, false)
	var turn atomic.Int64
	var reads [][]byte
	for n := range int64(1000) {
		n = n * 7919 % documents
		path := fmt.Sprintf("%s/order-%06d", ratedDocs, n)
		reads = append(reads, append(s.head(t, http.MethodGet, path, wire.HeaderPartitionKey, fmt.Sprintf("[\"%03d\"]", n%997)), "\r\n"...))
	}
	read := func(_ int, buf []byte) []byte { return append(buf, reads[turn.Add(1)%1000]...) }
	const text = `{"query":"SELECT * FROM c WHERE c.id = @id AND c.pk = @pk","parameters":[{"name":"@id","value":"order-%06d"},{"name":"@pk","value":"%03d"}]}`
	ask := s.asking(t, func(b []byte) []byte {
		n := turn.Add(1) * 7919 % documents
		return fmt.Appendf(b, text, n, n%997)
	})
	for _, connections := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d connections", connections), func(t *testing.T) {
			compare(t, 0.5, "items/s", func() pace { return s.turn(t, connections, read) }, func() pace { return s.turn(t, connections, ask) })
		})
	}
}

// TestRatioOfScans filters 100,000 documents by their last member. "plain" is a loop of
// the decoder over their bytes, which stops at that member too. A second ratio, to the
// fastest form of the loop, is printed but not required. All documents fit into the
// store's cache, as the loop has them in memory. From files, the store would also
// decompress blocks.
func TestRatioOfScans(t *testing.T) {
	if !*ratioRun {
		t.Skip("run with -ratios")
	}
	plain, client := scanned(t)
	for _, q := range []struct {
		query string
		want  int
		skip  func(*jsontext.Decoder) error
		bar   float64
	}{
		{lastQuery, scannedFound, skipping, 0.5},
		{lastQuery, scannedFound, reading, 0},
		{"SELECT VALUE COUNT(1) FROM c", 1, skipping, 0},
	} {
		t.Run(q.query, func(t *testing.T) {
			compare(t, q.bar, "documents/s", func() pace { return plain(q.skip) }, func() pace {
				begun := begin(t)
				if n := queryAll(t, client, q.query); n != q.want {
					t.Fatalf("%d rows, want %d", n, q.want)
				}
				return begun.pace(t, scannedDocuments)
			})
		})
	}
}

// BenchmarkServedScan measures the query of TestRatioOfScans, and the loop with which
// that test compares it.
func BenchmarkServedScan(b *testing.B) {
	plain, client := scanned(b)
	b.Run("loop", func(b *testing.B) {
		for b.Loop() {
			plain(skipping)
		}
	})
	b.Run("query", func(b *testing.B) {
		b.ReportAllocs()
		used := cputime.Used(b)
		for b.Loop() {
			if n := queryAll(b, client, lastQuery); n != scannedFound {
				b.Fatalf("%d rows", n)
			}
		}
		b.ReportMetric(float64((cputime.Used(b)-used).Nanoseconds())/float64(b.N), "processor-ns/query")
	})
}

// These are the number of scanned documents, and the number of those that the filter
// selects.
const (
	scannedDocuments, scannedFound = 100_000, 10
	lastQuery                      = "SELECT c.id FROM c WHERE c.priority = 5000"
)

// scanned starts a server with documents. plain is a loop of the decoder over the same
// documents in memory. The client sends queries to the server.
func scanned(t testing.TB) (plain func(skip func(*jsontext.Decoder) error) pace, client *wiretest.Client) {
	_, c, srv := ratedStore(t, store.Options{FS: slowsync.FS{FS: vfs.Default}, Memory: 512 << 20})
	loadQueried(t, c, scannedDocuments)
	var all []byte
	var ends []int
	for r := (storetype.ItemsRequest{}); len(ends) < scannedDocuments; {
		page, err := c.VisitItems(t.Context(), r, func(body []byte) (bool, error) {
			all = append(all, body...)
			ends = append(ends, len(all))
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Continuation = page.Continuation
	}
	t.Logf("a document has %d bytes", len(all)/scannedDocuments)
	plain = func(skip func(*jsontext.Decoder) error) pace {
		begun, n, from := begin(t), 0, 0
		for _, end := range ends {
			if lastIs(t, all[from:end], 5000, skip) {
				n++
			}
			from = end
		}
		if n != scannedFound {
			t.Fatalf("the loop finds %d", n)
		}
		return begun.pace(t, scannedDocuments)
	}
	s := rate(t, srv, false)
	client, err := wiretest.New("http://"+s.address, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return plain, client
}

// queryAll reads all pages of a query in the container's only partition. It returns the
// number of rows.
func queryAll(t testing.TB, client *wiretest.Client, text string) (rows int) {
	t.Helper()
	token := ""
	for {
		headers := []string{"Content-Type", wire.ContentTypeQuery, wire.HeaderPartitionID, "0", wire.HeaderMaxItemCount, "-1"}
		if token != "" {
			headers = append(headers, wire.HeaderContinuation, token)
		}
		h, _, err := client.Do(t.Context(), http.MethodPost, ratedDocs, `{"query":"`+text+`"}`, headers...)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(h.Get(wire.HeaderItemCount))
		if err != nil {
			t.Fatal(err)
		}
		rows += n
		if token = h.Get(wire.HeaderContinuation); token == "" {
			return rows
		}
	}
}

// scanner is the decoder that lastIs uses, with its reader.
var scanner struct {
	dec jsontext.Decoder
	buf bytes.Buffer
}

// These are two ways to skip a JSON value. skipping is the decoder's own method, which
// visits objects and arrays token by token. reading is the faster method that queries
// use.
var (
	skipping = (*jsontext.Decoder).SkipValue
	reading  = func(d *jsontext.Decoder) error {
		_, err := d.ReadValue()
		return err
	}
)

// lastIs reports whether the member priority of a document equals want. It reads the
// document only up to that member. skip skips the values of the members before.
func lastIs(t testing.TB, doc []byte, want float64, skip func(*jsontext.Decoder) error) bool {
	d := &scanner.dec
	scanner.buf = *bytes.NewBuffer(doc)
	d.Reset(&scanner.buf, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		t.Fatal(err)
	}
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := d.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		if string(name) != `"priority"` {
			if err := skip(d); err != nil {
				t.Fatal(err)
			}
			continue
		}
		v, err := d.ReadToken()
		if err != nil {
			t.Fatal(err)
		}
		f, err := v.Float()
		return err == nil && f == want
	}
	return false
}
