package server

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// These tests send a request to every operation in the routing tables of the protocol and
// of the admin API. So they also cover new operations. No operation may run without a
// valid signature, and no write may run with a read-only key.

// readerKey is the server's read-only key in these tests.
const readerKey = "cmVhZC1vbmx5LWtleS1vZi10aGUtdGVzdHMtb2Ytcm91dGVz"

// recorded is a server whose operations do nothing but append their names to reached.
type recorded struct {
	*testServer
	reached []string
}

func newRecorded(t testing.TB) *recorded {
	r := &recorded{testServer: newTestServer(t, Options{ReadOnlyKeys: []string{readerKey}})}
	for _, routes := range r.routes {
		for i := range routes {
			op := routes[i].op
			routes[i].serve = func(x *request) error {
				r.reached = append(r.reached, op)
				return x.sendEmpty(http.StatusNoContent)
			}
		}
	}
	return r
}

// try serves a request. It returns the status and the names of the operations that ran.
func (r *recorded) try(req *http.Request) (status int, reached []string) {
	r.reached = nil
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w.Code, r.reached
}

// call is a valid request, and the name op of the operation that it must reach.
type call struct {
	method, path string
	h            headers
	op           string
}

func (c call) String() string { return c.op + " (" + c.method + " " + c.path + ")" }

// calls returns a valid request for every path in the routing table, with each header
// that selects another operation. It omits combinations that no operation accepts.
func (r *recorded) calls() (all []call) {
	kinds := []headers{
		nil,
		{"Content-Type": wire.ContentTypeQuery},
		{wire.HeaderQueryPlan: "True"},
		{wire.HeaderBatch: "true"},
		{wire.HeaderUpsert: "true"},
		{wire.HeaderAIM: wire.AIMIncremental},
	}
	seen := map[string]bool{}
	for _, route := range r.table() {
		if seen[route.method+route.shape] {
			continue
		}
		seen[route.method+route.shape] = true
		for _, h := range kinds {
			c := call{method: route.method, path: strings.ReplaceAll(route.shape, "*", "an%20id"), h: h}
			status, reached := r.try(r.request(c.method, c.path, h, ""))
			if len(reached) == 1 && status == http.StatusNoContent {
				c.op = reached[0]
				all = append(all, c)
			}
		}
	}
	for _, op := range r.faults.operations {
		if !slices.ContainsFunc(all, func(c call) bool { return c.op == op }) {
			r.t.Errorf("the test doesn't reach the operation %q", op)
		}
	}
	return all
}

// forgeries returns copies of the request c, by the name of a defect in the signature,
// the date or the key.
func (r *recorded) forgeries(c call) map[string]*http.Request {
	stranger, own := wire.Key("another key of the same length as the right one, or about that"), r.key
	date := func(d time.Duration) string { return wire.FormatTime(r.db.Now().Add(d)) }
	signedBy := func(k wire.Key, method, path string, h headers) *http.Request {
		r.key = k
		defer func() { r.key = own }()
		return r.request(method, path, h, "")
	}
	good := signedBy(own, c.method, c.path, c.h)
	with := func(authorization string) *http.Request {
		return signedBy(own, c.method, c.path, c.h.with("Authorization", authorization))
	}
	later := good.Clone(r.t.Context())
	later.Header.Set(wire.HeaderDate, date(time.Second*7))
	dateless := good.Clone(r.t.Context())
	dateless.Header.Del(wire.HeaderDate)
	otherMethod := signedBy(own, "OPTIONS", c.path, c.h)
	otherMethod.Method = c.method
	otherPath := signedBy(own, c.method, "/dbs/an%20id/colls/another/docs/x", c.h)
	otherPath.URL.Path, otherPath.URL.RawPath = strings.ReplaceAll(c.path, "%20", " "), ""
	sig := good.Header.Get("Authorization")
	all := map[string]*http.Request{
		"no signature":           with(""),
		"another key":            signedBy(stranger, c.method, c.path, c.h),
		"an empty signature":     with("type%3Dmaster%26ver%3D1.0%26sig%3D"),
		"a short signature":      with(wire.Authorization([]byte{1})),
		"an old date":            signedBy(own, c.method, c.path, c.h.with(wire.HeaderDate, date(-clockWindow-time.Minute))),
		"a date to come":         signedBy(own, c.method, c.path, c.h.with(wire.HeaderDate, date(clockWindow+time.Minute))),
		"a date of another form": signedBy(own, c.method, c.path, c.h.with(wire.HeaderDate, "2026-11-21T10:00:00Z")),
		"a date put in later":    later,
		"no date":                dateless,
		"another method's":       otherMethod,
		"another path's":         otherPath,
		"garbage":                with("%00%ff"),
		"a resource token":       with(strings.Replace(sig, "master", "resource", 1)),
		"a token of Entra ID":    with("type=aad&ver=1.0&sig=eyJhbGciOiJub25lIn0.e30."),
		"the key itself":         with("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(own)),
	}
	return all
}

func TestNoOperationIsReachedWithoutAValidSignature(t *testing.T) {
	r := newRecorded(t)
	for _, c := range r.calls() {
		for how, req := range r.forgeries(c) {
			status, reached := r.try(req)
			if status != http.StatusUnauthorized && status != http.StatusForbidden || len(reached) > 0 {
				t.Errorf("%s with %s: %d, reached %v", c, how, status, reached)
			}
		}
	}
}

func TestAReadOnlyKeyReachesReadsAlone(t *testing.T) {
	r := newRecorded(t)
	writes := map[string]bool{}
	for _, route := range r.table() {
		writes[route.op] = route.writes
	}
	readOnlyKey, err := wire.ParseKey(readerKey)
	if err != nil {
		t.Fatal(err)
	}
	refused, all := 0, r.calls()
	r.key = readOnlyKey
	for _, c := range all {
		status, reached := r.try(r.request(c.method, c.path, c.h, ""))
		switch {
		case writes[c.op] && (status != http.StatusForbidden || len(reached) > 0):
			t.Errorf("%s with a read-only key: %d", c, status)
		case !writes[c.op] && (status != http.StatusNoContent || len(reached) != 1):
			t.Errorf("%s with a read-only key: %d", c, status)
		case writes[c.op]:
			refused++
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// A batch is one operation for the routing table, although it may contain reads and
// writes. With a read-only key, a batch that contains a write must be refused.
func TestAReadOnlyKeyWritesNothingInBatchesEither(t *testing.T) {
	ts := newTestServer(t, Options{ReadOnlyKeys: []string{readerKey}}).withOrders()
	readOnlyKey, err := wire.ParseKey(readerKey)
	if err != nil {
		t.Fatal(err)
	}
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"there","pk":"p"}`)
	ts.key = readOnlyKey
	for _, op := range []string{
		`{"operationType":"Create","partitionKey":"[\"p\"]","resourceBody":{"id":"1","pk":"p"}}`,
		`{"operationType":"Upsert","partitionKey":"[\"p\"]","resourceBody":{"id":"1","pk":"p"}}`,
		`{"operationType":"Replace","partitionKey":"[\"p\"]","id":"there","resourceBody":{"id":"there","pk":"p"}}`,
		`{"operationType":"Patch","partitionKey":"[\"p\"]","id":"there","resourceBody":{"operations":[{"op":"add","path":"/a","value":1}]}}`,
		`{"operationType":"Delete","partitionKey":"[\"p\"]","id":"there"}`,
	} {
		read := `{"operationType":"Read","partitionKey":"[\"p\"]","id":"there"}`
		for _, h := range []headers{transaction, inBulk} {
			ts.do("POST", orders+"/docs", h, "["+read+","+op+"]").want(403)
			ts.do("POST", orders+"/docs", h, "["+read+"]").want(200)
		}
	}
	ts.do("GET", orders+"/docs/there", pk(`["p"]`), "").want(200).wantBody(`"id":"there"`)
}

func TestTheAdminAPIIsNotReachedWithoutAValidSignature(t *testing.T) {
	ts := newTestServer(t, Options{ReadOnlyKeys: []string{readerKey}}).withOrders()
	readOnlyKey, err := wire.ParseKey(readerKey)
	if err != nil {
		t.Fatal(err)
	}
	stranger := wire.Key("a key of nobody")
	for _, route := range ts.adminTable() {
		// The test fills the "*" of the pattern with "0". That resource need not exist,
		// because the signature is checked first.
		rest := strings.ReplaceAll(route.pattern, "*", "0")
		send := func(k wire.Key, date time.Time, signedMethod string) int {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), route.method, "/"+adminPrefix+"/"+rest, strings.NewReader("{}"))
			r.Header.Set(wire.HeaderDate, wire.FormatTime(date))
			if k != nil {
				payload := wire.Payload(signedMethod, adminPrefix, rest, r.Header.Get(wire.HeaderDate), "")
				r.Header.Set("Authorization", wire.Authorization(k.Sign(payload)))
			}
			ts.ServeHTTP(w, r)
			return w.Code
		}
		now := ts.db.Now()
		for how, status := range map[string]int{
			"no signature":     send(nil, now, route.method),
			"another key":      send(stranger, now, route.method),
			"an old date":      send(ts.key, now.Add(-time.Hour), route.method),
			"another method's": send(ts.key, now, "OPTIONS"),
		} {
			if status != http.StatusUnauthorized && status != http.StatusForbidden {
				t.Errorf("%s with %s: %d", route.op, how, status)
			}
		}
		status := send(readOnlyKey, now, route.method)
		if refused := status == http.StatusForbidden; refused != route.writes {
			t.Errorf("%s with a read-only key: %d", route.op, status)
		}
		if status := send(ts.key, now, route.method); status == http.StatusUnauthorized || status == http.StatusForbidden {
			t.Errorf("%s with the account's key: %d", route.op, status)
		}
	}
}
