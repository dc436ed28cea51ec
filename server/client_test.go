package server

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/hybridrow"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testServer is a server over a store in memory, with methods that act as its client.
// Requests are signed, and reach the server without a connection.
type testServer struct {
	*Server
	t  testing.TB
	db *engine.DB
	// key signs the requests. It is the account key unless a test sets it.
	key wire.Key
}

// newTestServer returns a server over an empty store in memory. When the test ends, the
// store is checked for consistency and closed. It may be called inside a synctest bubble.
func newTestServer(t testing.TB, o Options) *testServer {
	t.Helper()
	return newTestServerOver(t, engine.Options{}, o)
}

// newTestServerOver is like newTestServer, but opens the store with the options so.
func newTestServerOver(t testing.TB, so engine.Options, o Options) *testServer {
	t.Helper()
	db, err := engine.OpenMemory(so)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Check(context.Background()); err != nil {
			t.Errorf("the store is damaged after the test: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	s, err := New((*store.DB)(db), o)
	if err != nil {
		t.Fatal(err)
	}
	return &testServer{Server: s, t: t, db: db, key: s.keys[0].key}
}

// headers holds the headers of a request by name. Names may be in upper or lower case.
type headers map[string]string

// with returns a copy of the headers that also has the header name, with the given value.
func (h headers) with(name, value string) headers {
	h = maps.Clone(h)
	if h == nil {
		h = headers{}
	}
	h[name] = value
	return h
}

// together returns the union of several sets of headers. If they share a name, the last
// value is used.
func together(all ...headers) headers {
	h := headers{}
	for _, more := range all {
		maps.Copy(h, more)
	}
	return h
}

// pk returns the header with a partition key. array is the key as a JSON array.
func pk(array string) headers { return headers{wire.HeaderPartitionKey: array} }

// queryHeaders returns the Content-Type header that marks a POST as a query.
func queryHeaders() headers { return headers{"Content-Type": wire.ContentTypeQuery} }

// request returns a signed request. path is percent-encoded. If h has "Authorization" or
// "x-ms-date", that value is sent instead of the correct one. A header in h with an empty
// value is not sent.
func (ts *testServer) request(method, path string, h headers, body string) *http.Request {
	ts.t.Helper()
	r := httptest.NewRequestWithContext(ts.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set(wire.HeaderDate, wire.FormatTime(ts.db.Now()))
	for name, value := range h {
		r.Header.Set(name, value)
	}
	if _, given := h[wire.HeaderPartitionKey]; !given && method == "POST" && strings.HasSuffix(path, "/docs") {
		setKey(r, body)
	}
	if _, given := h["Authorization"]; !given {
		p, err := wire.ParsePath(r.URL.EscapedPath())
		if err != nil {
			ts.t.Fatal(err)
		}
		payload := wire.Payload(method, p.SignedType(), p.Links()[0], r.Header.Get(wire.HeaderDate), r.Header.Get("Date"))
		r.Header.Set("Authorization", wire.Authorization(ts.key.Sign(payload)))
	}
	for name, value := range h {
		if value == "" {
			r.Header.Del(name)
		}
	}
	return r
}

// setKey sets the partition key header of a create to the member pk of the document, as an
// SDK does. A test that wants no such header gives an empty one.
func setKey(r *http.Request, body string) {
	x := &request{r: r}
	var doc map[string]json.RawMessage
	if isQuery(x) || isBatch(x) || isPlan(x) || json.Unmarshal([]byte(body), &doc) != nil {
		return
	}
	key := doc["pk"]
	switch {
	case key == nil:
		key = json.RawMessage("{}") // undefined
	case key[0] == '{' || key[0] == '[':
		return
	}
	r.Header.Set(wire.HeaderPartitionKey, "["+string(key)+"]")
}

// do sends a signed request and returns the answer. path is percent-encoded.
func (ts *testServer) do(method, path string, h headers, body string) response {
	ts.t.Helper()
	w := httptest.NewRecorder()
	ts.ServeHTTP(w, ts.request(method, path, h, body))
	a := response{t: ts.t, what: method + " " + path, status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	a.checkRules()
	return a
}

// must is like do, but fails the test if the status is not 2xx. Tests use it to prepare
// their data.
func (ts *testServer) must(method, path string, h headers, body string) response {
	ts.t.Helper()
	a := ts.do(method, path, h, body)
	if a.status/100 != 2 {
		ts.t.Fatalf("%s: %d %s", a.what, a.status, a.body)
	}
	return a
}

// orders is the path of the container that most tests use.
const orders = "/dbs/shop/colls/orders"

// withOrders creates the database shop and its container orders, with the partition key
// /pk.
func (ts *testServer) withOrders() *testServer {
	ts.t.Helper()
	ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
	ts.must("POST", "/dbs/shop/colls", nil, `{"id":"orders","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1}`)
	return ts
}

// response is the answer to a request. what names the request in failure messages.
type response struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	body   []byte
}

// checkRules fails the test if the answer lacks a property that every answer must have.
func (a response) checkRules() {
	a.t.Helper()
	if a.header.Get(wire.HeaderActivityID) == "" && !a.front() {
		a.t.Errorf("%s: the answer has no activity id", a.what)
	}
	if charge := a.header.Get(wire.HeaderRequestCharge); charge != "" {
		if _, err := strconv.ParseFloat(charge, 64); err != nil {
			a.t.Errorf("%s: request charge: %v", a.what, err)
		}
	} else if a.header.Get(wire.HeaderServiceVersion) != "" && a.status < 400 && !strings.HasSuffix(strings.TrimSuffix(a.what, "/"), "/pkranges") {
		a.t.Errorf("%s: a replica's answer has no charge", a.what)
	}
	if a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		if len(a.body) != 0 || a.header.Get("Content-Length") != "" {
			a.t.Errorf("%s: %d has a body: %s", a.what, a.status, a.body)
		}
		return
	}
	if got := a.header.Get("Content-Length"); got != strconv.Itoa(len(a.body)) {
		a.t.Errorf("%s: Content-Length %q, of a body of %d", a.what, got, len(a.body))
	}
	if hybridrow.Is(a.body) && a.status < 400 {
		if got := a.header.Get("Content-Type"); got != "application/octet-stream" {
			a.t.Errorf("%s: HybridRow with Content-Type %q", a.what, got)
		}
		return
	}
	if len(a.body) > 0 && a.header.Get("Content-Type") != "application/json" {
		a.t.Errorf("%s: Content-Type %q", a.what, a.header.Get("Content-Type"))
	}
	if len(a.body) > 0 && !json.Valid(a.body) {
		a.t.Errorf("%s: the body is not JSON: %s", a.what, a.body)
	}
	if a.status >= 400 {
		var e wire.ErrorBody
		if err := json.Unmarshal(a.body, &e); err != nil || e.Code == "" || e.Message == "" {
			a.t.Errorf("%s: %d has no error body: %s", a.what, a.status, a.body)
		}
	}
}

// front reports whether the account's front end answered, and no replica: the account and a
// plan.
func (a response) front() bool {
	return a.status < 400 && (a.what == "GET /" || bytes.Contains(a.body, []byte("partitionedQueryExecutionInfoVersion")))
}

// wantText fails the test unless the message of an error has the given text.
func (a response) wantText(text string) response {
	a.t.Helper()
	var e wire.ErrorBody
	if err := json.Unmarshal(a.body, &e); err != nil || !strings.Contains(e.Message, text) {
		a.t.Errorf("%s: %q is not in the message %q", a.what, text, e.Message)
	}
	return a
}

// batchSub returns the sub-status that a batch of the answer's status may have: a header of
// 207 tells of a wrong partition key.
func (a response) batchSub() int {
	if a.status == http.StatusMultiStatus && a.sub() == wire.SubPartitionKeyMismatch {
		return wire.SubPartitionKeyMismatch
	}
	return wire.SubNone
}

// sub returns the sub-status of the answer.
func (a response) sub() int {
	n, _ := strconv.Atoi(a.header.Get(wire.HeaderSubStatus))
	return n
}

// want fails the test unless the answer has the given status and, if given, the
// sub-status.
func (a response) want(status int, sub ...int) response {
	a.t.Helper()
	wantSub := 0
	if len(sub) > 0 {
		wantSub = sub[0]
	}
	if a.status != status || a.sub() != wantSub {
		a.t.Fatalf("%s: %d/%d, want %d/%d: %.600s", a.what, a.status, a.sub(), status, wantSub, a.body)
	}
	return a
}

// wantBody fails the test unless the body contains text.
func (a response) wantBody(text string) response {
	a.t.Helper()
	if !bytes.Contains(a.body, []byte(text)) {
		a.t.Fatalf("%s: the body does not contain %q: %s", a.what, text, a.body)
	}
	return a
}

// wantHeader fails the test unless the header name has the given value.
func (a response) wantHeader(name, value string) response {
	a.t.Helper()
	if got := a.header.Get(name); got != value {
		a.t.Fatalf("%s: header %s is %q, want %q", a.what, name, got, value)
	}
	return a
}

// decode parses the JSON body into v.
func (a response) decode(v any) response {
	a.t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		a.t.Fatalf("%s: %v: %s", a.what, err, a.body)
	}
	return a
}

// object returns the body, which must be a JSON object.
func (a response) object() map[string]any {
	a.t.Helper()
	var m map[string]any
	a.decode(&m)
	return m
}
