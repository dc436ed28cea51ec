package server

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// sink is an http.ResponseWriter that drops the answer.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

// serveAgain serves the request r once for each iteration of the benchmark. body returns
// the request's body for iteration i. It fails the benchmark if a status differs from
// want.
func serveAgain(b *testing.B, ts *testServer, r *http.Request, want int, body func(i int) []byte) {
	b.Helper()
	b.ReportAllocs()
	w := &sink{header: http.Header{}}
	reader := bytes.NewReader(nil)
	i := 0
	for b.Loop() {
		clear(w.header)
		if body != nil {
			text := body(i)
			reader.Reset(text)
			r.Body, r.ContentLength = readCloser{reader}, int64(len(text))
			i++
		}
		ts.ServeHTTP(w, r)
		if w.status != want {
			b.Fatalf("status %d, want %d", w.status, want)
		}
	}
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// kilobyte returns a document of 1 KB with the given ID.
func kilobyte(id int) []byte {
	return fmt.Appendf(nil, `{"id":"%06d","pk":"p","text":"%s"}`, id, strings.Repeat("x", 1000))
}

func BenchmarkUpsert(b *testing.B) {
	ts := newTestServer(b, Options{}).withOrders()
	r := ts.request("POST", orders+"/docs", pk(`["p"]`).with(wire.HeaderUpsert, "true").with("Prefer", "return=minimal"), "")
	ts.must("POST", orders+"/docs", pk(`["p"]`), string(kilobyte(0)))
	one := kilobyte(0)
	serveAgain(b, ts, r, http.StatusOK, func(int) []byte { return one })
}

func BenchmarkPointRead(b *testing.B) {
	ts := newTestServer(b, Options{}).withOrders()
	ts.must("POST", orders+"/docs", pk(`["p"]`), string(kilobyte(0)))
	serveAgain(b, ts, ts.request("GET", orders+"/docs/000000", pk(`["p"]`), ""), http.StatusOK, nil)
}

func BenchmarkPatch(b *testing.B) {
	ts := newTestServer(b, Options{}).withOrders()
	ts.must("POST", orders+"/docs", pk(`["p"]`), string(kilobyte(0)))
	patch := []byte(`{"operations":[{"op":"incr","path":"/n","value":1}]}`)
	serveAgain(b, ts, ts.request("PATCH", orders+"/docs/000000", pk(`["p"]`), ""), http.StatusOK, func(int) []byte { return patch })
}

func BenchmarkBulkOf100(b *testing.B) {
	ts := newTestServer(b, Options{}).withOrders()
	var ops [][]byte
	for i := range 100 {
		ops = append(ops, fmt.Appendf(nil, `{"operationType":"Upsert","partitionKey":"[\"p\"]","resourceBody":%s}`, kilobyte(i)))
	}
	body := append(append([]byte{'['}, bytes.Join(ops, []byte{','})...), ']')
	serveAgain(b, ts, ts.request("POST", orders+"/docs", inBulk, ""), http.StatusOK, func(int) []byte { return body })
}
