package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// admin sends a signed request to the admin API and returns the answer. path is the
// escaped path after the prefix. link is the resource link that the signature covers.
func (ts *testServer) admin(method, path, link, body string) response {
	ts.t.Helper()
	r := httptest.NewRequestWithContext(ts.t.Context(), method, "/_changefeed/"+path, strings.NewReader(body))
	date := wire.FormatTime(ts.db.Now())
	r.Header.Set(wire.HeaderDate, date)
	r.Header.Set("Authorization", wire.Authorization(ts.key.Sign(wire.Payload(method, "_changefeed", link, date, ""))))
	w := httptest.NewRecorder()
	ts.ServeHTTP(w, r)
	a := response{t: ts.t, what: method + " " + path, status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	a.checkRules()
	return a
}

// plainAdmin is like admin, for a path without escapes: the signature covers path itself.
func (ts *testServer) plainAdmin(method, path, body string) response {
	ts.t.Helper()
	return ts.admin(method, path, path, body)
}

const orderPartitions = "dbs/shop/colls/orders/partitions"

// withPartitions creates the container shop/orders with n partitions directly in the
// store.
func (ts *testServer) withPartitions(n int) *engine.Container {
	ts.t.Helper()
	ctx := ts.t.Context()
	if _, err := ts.db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
		ts.t.Fatal(err)
	}
	c, err := ts.db.CreateContainer(ctx, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/pk"}, Partitions: n})
	if err != nil {
		ts.t.Fatal(err)
	}
	return c
}

// listed returns the ID and the key range of each partition in an answer, as one text.
func (a response) listed() string {
	a.t.Helper()
	var l struct{ Partitions []adminPartition }
	a.decode(&l)
	var b strings.Builder
	for _, p := range l.Partitions {
		b.WriteString(p.ID + "[" + p.Min + "-" + p.Max + ")" + strings.Join(p.Parents, ",") + " ")
	}
	return strings.TrimSpace(b.String())
}

func (a response) wantPartitions(want string) {
	a.t.Helper()
	if got := a.want(http.StatusOK).listed(); got != want {
		a.t.Errorf("%s: %s, want %s", a.what, got, want)
	}
}

func TestAdminSplitsMergesAndListsPartitions(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withPartitions(1)
	const half = "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"
	ts.plainAdmin("GET", orderPartitions, "").wantBody(`"parents":[]`).wantPartitions("0[-FF)")
	ts.plainAdmin("POST", orderPartitions+"/0/split", "").wantPartitions("1[-" + half + ")0 2[" + half + "-FF)0")
	ts.plainAdmin("POST", orderPartitions+"/2/split", `{"at":"2f"}`).wantPartitions("3[" + half + "-2F)0,2 4[2F-FF)0,2")
	ts.plainAdmin("GET", orderPartitions, "").wantPartitions("1[-" + half + ")0 3[" + half + "-2F)0,2 4[2F-FF)0,2")
	ts.plainAdmin("POST", orderPartitions+"/4/merge", "").wantPartitions("5[" + half + "-FF)0,2,3,4")
	ts.plainAdmin("POST", orderPartitions+"/5/merge", `{"with":"1"}`).wantPartitions("6[-FF)0,1,2,3,4,5")
}

func TestAdminListsTheLivePartitionsAfterAnUnknownOne(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withPartitions(2)
	ts.plainAdmin("POST", orderPartitions+"/7/split", "").want(http.StatusNotFound).wantBody("there is no partition \\\"7\\\" now; the live partitions are 0, 1")
	ts.plainAdmin("POST", orderPartitions+"/7/merge", "").want(http.StatusNotFound).wantBody("the live partitions are 0, 1")
	ts.plainAdmin("POST", orderPartitions+"/0/split", `{"at":"FE"}`).want(http.StatusBadRequest).wantBody("inside")
	ts.plainAdmin("POST", orderPartitions+"/0/split", `{"att":"1F"}`).want(http.StatusBadRequest).wantBody("att")
	ts.plainAdmin("POST", orderPartitions+"/0/split", `{}{}`).want(http.StatusBadRequest)
	ts.plainAdmin("POST", orderPartitions+"/0/merge", "").wantPartitions("2[-FF)0,1")
	ts.plainAdmin("POST", orderPartitions+"/2/merge", "").want(http.StatusBadRequest).wantBody("no neighbour")
	ts.plainAdmin("GET", "dbs/shop/colls/order/partitions", "").want(http.StatusNotFound)
	ts.plainAdmin("GET", "dbs/shops/colls/orders/partitions", "").want(http.StatusNotFound, wire.SubNone)
	ts.plainAdmin("GET", "nonsense", "").want(http.StatusNotFound)
	ts.plainAdmin("DELETE", orderPartitions, "").want(http.StatusMethodNotAllowed).wantHeader("Allow", "GET")
}

func TestAdminRefusesUnsignedRequestsAndReadOnlyKeys(t *testing.T) {
	reader := "cmVhZGVy"
	ts := newTestServer(t, Options{ReadOnlyKeys: []string{reader}})
	ts.withPartitions(1)
	for _, path := range []string{"", "nonsense", orderPartitions, orderPartitions + "/0/split"} {
		ts.admin("GET", path, "other", "").want(http.StatusUnauthorized)
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/_changefeed/"+path, nil)
		w := httptest.NewRecorder()
		ts.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%q without a signature: %d", path, w.Code)
		}
	}
	var err error
	if ts.key, err = wire.ParseKey(reader); err != nil {
		t.Fatal(err)
	}
	ts.plainAdmin("POST", orderPartitions+"/0/split", "").want(http.StatusForbidden)
	ts.plainAdmin("GET", orderPartitions, "").wantPartitions("0[-FF)")
}

func TestAdminAcceptsNamesOfAnyKindAndRIDs(t *testing.T) {
	ts := newTestServer(t, Options{})
	ctx := t.Context()
	if _, err := ts.db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "a b"}); err != nil {
		t.Fatal(err)
	}
	c, err := ts.db.CreateContainer(ctx, "a b", storetype.ContainerProperties{ID: "ü+%", KeyPaths: []string{"/pk"}})
	if err != nil {
		t.Fatal(err)
	}
	sent := "dbs/a%20b/colls/%C3%BC+%25/partitions"
	ts.admin("GET", sent, "dbs/a b/colls/ü+%/partitions", "").wantPartitions("0[-FF)")
	ts.admin("GET", sent, sent, "").wantPartitions("0[-FF)")
	id := c.Identity()
	ts.plainAdmin("GET", "dbs/"+id.DatabaseRID+"/colls/"+id.ContainerRID+"/partitions", "").wantPartitions("0[-FF)")
}

func TestAdminListsTheDocumentsOfEachPartition(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withPartitions(2)
	for _, body := range []string{`{"id":"1","pk":"ada"}`, `{"id":"2","pk":"ada"}`, `{"id":"2","pk":"bob"}`} {
		if _, err := c.Upsert(t.Context(), nil, []byte(body), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var l struct{ Partitions []adminPartitionStats }
	ts.plainAdmin("GET", orderPartitions, "").want(http.StatusOK).decode(&l)
	var documents, bytes int64
	for _, p := range l.Partitions {
		documents, bytes = documents+p.Documents, bytes+p.Bytes
		if (p.LSN > 0) != (p.Documents > 0) || p.Frozen {
			t.Errorf("%+v", p)
		}
	}
	if documents != 3 || bytes < 3*100 {
		t.Errorf("%d documents, %d bytes in %+v", documents, bytes, l)
	}
}

// A path with invalid escapes cannot be signed. An unsigned request for it must get the
// same answer as any other unsigned request.
func TestUnsignedRequestsToAnyPathAreRefused(t *testing.T) {
	ts := newTestServer(t, Options{})
	for _, path := range []string{"/", "/dbs", "/nonsense", "/dbs//colls", "/dbs/a/nonsense/b", "/_changefeed/faults", "/dbs/a/colls/b/docs"} {
		w := httptest.NewRecorder()
		ts.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "Required Header authorization is missing") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
