package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// passer is a headerPasser, as the command's.
type passer struct{ http.ResponseWriter }

func (passer) PassesHeaders() {}

// over serves a handler over TCP with the server's guard until the test ends.
func (ts *testServer) over(h http.Handler) (send func(r *http.Request) (status int, header http.Header)) {
	ts.t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Listener = ts.Guard(s.Config, s.Listener)
	s.Start()
	c, err := new(net.Dialer).DialContext(ts.t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		ts.t.Fatal(err)
	}
	ts.t.Cleanup(func() {
		_ = c.Close()
		s.Close()
	})
	in := bufio.NewReader(c)
	return func(r *http.Request) (int, http.Header) {
		ts.t.Helper()
		if err := r.Write(c); err != nil {
			ts.t.Fatal(err)
		}
		a, err := http.ReadResponse(in, r)
		if err != nil {
			ts.t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, a.Body)
		if err = errors.Join(err, a.Body.Close()); err != nil || n < a.ContentLength {
			ts.t.Fatalf("%s %s: %d of %d bytes, %v", r.Method, r.URL.Path, n, a.ContentLength, err)
		}
		return a.StatusCode, a.Header
	}
}

// Headers that are lines must be the same as those that net/http writes, for answers with and
// without a body, of errors, and of more than net/http's buffer, one after the other on the
// same connection.
func TestHeaderLinesAreTheHeadersOfTheMap(t *testing.T) {
	requests := func(ts *testServer) (all []*http.Request) {
		large := `{"id":"l","pk":"p","text":"` + strings.Repeat("x", 100<<10) + `"}`
		key := pk(`["p"]`)
		for _, r := range []struct {
			method, path string
			h            headers
			body         string
		}{
			{"GET", "/", nil, ""},
			{"POST", orders + "/docs", key, `{"id":"1","pk":"p"}`},
			{"POST", orders + "/docs", key, `{"id":"1","pk":"p"}`}, // 409
			{"PUT", orders + "/docs/1", key.with("Prefer", "return=minimal"), `{"id":"1","pk":"p"}`},
			{"POST", orders + "/docs", key, large},
			{"GET", orders + "/docs/l", key, ""},
			{"GET", orders + "/docs/none", key, ""},
			{"GET", orders + "/docs", latest(items(1)), ""},
			{"GET", orders + "/docs", latest(items(1)).with("If-None-Match", `"9"`), ""}, // 304
			{"POST", orders + "/docs", together(queryHeaders(), headers{wire.HeaderCrossPartition: "True", wire.HeaderMaxItemCount: "1"}), `{"query":"SELECT c.id FROM c"}`},
			{"DELETE", orders + "/docs/1", key, ""},
			{"GET", "/dbs/shop/colls/none", nil, ""},
		} {
			all = append(all, ts.request(r.method, r.path, r.h, r.body))
		}
		return all
	}
	type answer struct {
		status int
		header http.Header
	}
	var answers [2][]answer
	for i := range answers {
		ts := newTestServer(t, Options{}).withOrders()
		handler := http.Handler(ts)
		if i > 0 {
			handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ts.ServeHTTP(passer{w}, r) })
		}
		send := ts.over(handler)
		for _, r := range requests(ts) {
			status, header := send(r)
			answers[i] = append(answers[i], answer{status, header})
		}
	}
	for n, want := range answers[0] {
		got := answers[1][n]
		if got.status != want.status || len(got.header) != len(want.header) {
			t.Errorf("request %d is answered %d with\n%v\nwant %d\n%v", n, got.status, got.header, want.status, want.header)
		}
		for name, values := range want.header {
			switch name {
			case "Date", wire.HeaderActivityID, wire.HeaderDuration, "Etag", wire.HeaderAltContentPath, wire.HeaderContentPath, "Content-Location":
				if len(got.header[name]) != 1 {
					t.Errorf("request %d has the header %s: %q", n, name, got.header[name])
				}
				continue
			}
			if !slices.Equal(got.header[name], values) {
				t.Errorf("request %d has the header %s: %q, want %q", n, name, got.header[name], values)
			}
		}
	}
}

// Middleware may answer itself after the server has. Then the server's headers must neither
// be in that answer, nor in the next one on the connection.
func TestMiddlewareMayDropAnAnswer(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	send := ts.over(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dropped := httptest.NewRecorder()
		ts.ServeHTTP(dropped, r)
		if len(dropped.Header()[nameCharge.lower]) == 0 {
			t.Error("the middleware sees no headers")
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	for range 2 {
		status, header := send(ts.request("GET", orders, nil, ""))
		if status != http.StatusTeapot || header.Get(wire.HeaderRequestCharge) != "" {
			t.Errorf("the answer is %d with %v", status, header)
		}
	}
}

// A value with a line break must not make another header.
func TestHeaderLinesHaveNoLineBreaks(t *testing.T) {
	w := &headerWriter{h: http.Header{}, lower: true, conn: &guardedConn{}}
	w.addText(nameETag, "a\r\nb: c\nd")
	w.finish()
	if got := string(w.lines); got != "etag: a  b: c d\r\n" {
		t.Errorf("the lines are %q", got)
	}
}
