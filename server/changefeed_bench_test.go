package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// pageDocuments is the number of documents in a page of these benchmarks. Each document
// has 1 KB.
const pageDocuments = 1000

// withPage creates the container orders with pageDocuments documents.
func withPage(b *testing.B) (*testServer, *engine.Container) {
	b.Helper()
	ts := newTestServer(b, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	for i := range pageDocuments {
		body := fmt.Sprintf(`{"id":"%06d","pk":"k%d","text":"`, i, i%50)
		body += strings.Repeat("x", 800-len(body)) + `"}` // plus about 230 bytes of system properties
		put(b, c, "%s", body)
	}
	return ts, c
}

// BenchmarkFeedPage reads pages of 1,000 documents of 1 KB in three ways. It reads them
// from the server over loopback HTTP, from a handler that writes the same bytes from
// memory, and in process without HTTP. The three ways alternate, so that they run under
// the same conditions. The benchmark reports the ratios of their rates. The server should
// reach at least 0.35 of the handler's rate ("of-handler").
func BenchmarkFeedPage(b *testing.B) {
	ts, c := withPage(b)
	h := latest(items(pageDocuments))
	first := ts.do("GET", orders+"/docs", h, "").want(200)
	if n := len(first.page()); n != pageDocuments {
		b.Fatalf("the page has %d documents", n)
	}
	plain := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(first.body)))
		_, _ = w.Write(first.body)
	})
	fromServer := reader(b, ts, ts.request("GET", orders+"/docs", h, ""), len(first.body))
	fromHandler := reader(b, plain, ts.request("GET", orders+"/docs", h, ""), len(first.body))
	source := ts.db.Source(c)
	inProcess := func() {
		page, err := source.Read(context.Background(), feed.Request{From: feed.Beginning(), MaxItems: pageDocuments})
		if err != nil || len(page.Changes) != pageDocuments {
			b.Fatal(len(page.Changes), err)
		}
	}
	var spent [3]time.Duration
	b.SetBytes(int64(len(first.body)))
	for b.Loop() {
		for i, read := range []func(){fromServer, fromHandler, inProcess} {
			start := time.Now()
			for range 20 {
				read()
			}
			spent[i] += time.Since(start)
		}
	}
	b.ReportMetric(spent[1].Seconds()/spent[0].Seconds(), "of-handler")
	b.ReportMetric(spent[2].Seconds()/spent[0].Seconds(), "of-in-process")
	b.ReportMetric(float64(20*b.N)/spent[0].Seconds(), "pages/s")
	b.ReportMetric(float64(20*b.N)/spent[1].Seconds(), "handler-pages/s")
}

// reader starts a loopback HTTP server for handler. It returns a function that sends the
// request r once and reads the whole answer, of size bytes.
func reader(b *testing.B, handler http.Handler, r *http.Request, size int) func() {
	b.Helper()
	server := httptest.NewServer(handler)
	transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext, DisableCompression: true}
	b.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	buf := make([]byte, 256<<10)
	return func() {
		req, err := http.NewRequestWithContext(context.Background(), r.Method, server.URL+r.URL.EscapedPath(), nil)
		if err != nil {
			b.Fatal(err)
		}
		req.Header = r.Header
		answer, err := transport.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.CopyBuffer(onlyWriter{io.Discard}, answer.Body, buf)
		if err := answer.Body.Close(); err != nil {
			b.Fatal(err)
		}
		if err != nil || n != int64(size) || answer.StatusCode != http.StatusOK {
			b.Fatal(answer.Status, n, err)
		}
	}
}

// onlyWriter hides the ReadFrom method of io.Discard, which would read in parts of only 8
// KB.
type onlyWriter struct{ io.Writer }

// BenchmarkFeedPageInHandler calls the handler without a connection, to measure the
// server's own work for a page.
func BenchmarkFeedPageInHandler(b *testing.B) {
	ts, _ := withPage(b)
	r := ts.request("GET", orders+"/docs", latest(items(pageDocuments)), "")
	b.ReportAllocs()
	for b.Loop() {
		w := &discard{header: http.Header{}}
		ts.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			b.Fatal(w.status)
		}
		b.SetBytes(w.size)
	}
}

// BenchmarkQueryFilter measures a query whose WHERE clause selects ten of 1,000 documents
// of 1 KB.
func BenchmarkQueryFilter(b *testing.B) {
	ts, _ := withPage(b)
	body := queryBody(b, "SELECT c.id FROM c WHERE c.pk > @low AND ENDSWITH(c.id, '00')", "@low", "a")
	b.ReportAllocs()
	for b.Loop() {
		w := &discard{header: http.Header{}}
		ts.ServeHTTP(w, ts.request("POST", orders+"/docs", headers{"Content-Type": wire.ContentTypeQuery, wire.HeaderCrossPartition: "True"}, body))
		if w.status != http.StatusOK || w.header.Get("X-Ms-Item-Count") != "10" {
			b.Fatal(w.status, w.header)
		}
	}
}

// discard is an http.ResponseWriter that drops the answer.
type discard struct {
	header http.Header
	status int
	size   int64
}

func (d *discard) Header() http.Header    { return d.header }
func (d *discard) WriteHeader(status int) { d.status = status }
func (d *discard) Write(b []byte) (int, error) {
	d.size += int64(len(b))
	return len(b), nil
}
