package server

import (
	"sync"
	"testing"
)

// withItem creates the container orders with one item. It returns the header with the
// item's key, and the item's path.
func (ts *testServer) withItem() (h headers, path string) {
	ts.t.Helper()
	ts.withOrders()
	h = pk(`["p"]`)
	ts.must("POST", orders+"/docs", h, `{"id":"1","pk":"p","v":3,"list":["a"],"price":1.50,"deep":{"x":true}}`)
	return h, orders + "/docs/1"
}

func TestPatchChangesOnlyTheNamedMembers(t *testing.T) {
	ts := newTestServer(t, Options{})
	h, path := ts.withItem()
	was := ts.must("GET", path, h, "").object()
	a := ts.do("PATCH", path, h, `{"operations":[{"op":"incr","path":"/v","value":1},{"op":"add","path":"/list/-","value":"b"},`+
		`{"op":"set","path":"/new","value":1e2},{"op":"remove","path":"/deep/x"},{"op":"move","from":"/deep","path":"/moved"}]}`).want(200)
	a.wantBody(`{"id":"1","pk":"p","v":4,"list":["a","b"],"price":1.5,"new":100,"moved":{},"_rid":"`)
	now := a.object()
	if now["_etag"] == was["_etag"] || now["_etag"] != a.header.Get("Etag") || now["_rid"] != was["_rid"] {
		t.Errorf("%v became %v", was, now)
	}
	ts.do("GET", path, h, "").want(200).wantBody(string(a.body))
}

func TestPatchIsReadWithoutContentTypeAndAsAnArray(t *testing.T) {
	ts := newTestServer(t, Options{})
	h, path := ts.withItem()
	ts.do("PATCH", path, h.with("Content-Type", ""), `[{"op":"replace","path":"/v","value":"x"}]`).want(200).wantBody(`"v":"x"`)
	ts.do("PATCH", path, h.with("Content-Type", "application/json-patch+json"), `[{"op":"replace","path":"/v","value":"y"}]`).want(200).wantBody(`"v":"y"`)
	if a := ts.do("PATCH", path, h.with("Prefer", "return=minimal"), `[{"op":"set","path":"/v","value":1}]`).want(200); len(a.body) != 0 || a.header.Get("Etag") == "" {
		t.Errorf("%s", a.body)
	}
}

func TestPatchDependsOnItsCondition(t *testing.T) {
	ts := newTestServer(t, Options{})
	h, path := ts.withItem()
	ts.do("PATCH", path, h, `{"operations":[{"op":"incr","path":"/v","value":1}],"condition":"from c where c.v = 3"}`).want(200).wantBody(`"v":4`)
	ts.do("PATCH", path, h, `{"operations":[{"op":"incr","path":"/v","value":1}],"condition":"from c where c.v = 3"}`).want(412)
	ts.do("PATCH", path, h, `{"operations":[{"op":"incr","path":"/v","value":1}],"condition":"from c where c.none = 3"}`).want(412)
	ts.do("PATCH", path, h, `{"operations":[{"op":"incr","path":"/v","value":1}],"condition":"nonsense"}`).want(400)
	ts.do("PATCH", path, h.with("If-Match", `"other"`), `[{"op":"incr","path":"/v","value":1}]`).want(412)
	ts.do("PATCH", path, h.with("If-Match", "*"), `[{"op":"incr","path":"/v","value":1}]`).want(200).wantBody(`"v":5`)
}

func TestPatchesThatCantBeDoneChangeNothing(t *testing.T) {
	ts := newTestServer(t, Options{})
	h, path := ts.withItem()
	was := ts.must("GET", path, h, "").body
	const eleven = `[{"op":"incr","path":"/v","value":1},{"op":"incr","path":"/v","value":1},{"op":"incr","path":"/v","value":1},{"op":"incr","path":"/v","value":1},` +
		`{"op":"incr","path":"/v","value":1},{"op":"incr","path":"/v","value":1},{"op":"incr","path":"/v","value":1},{"op":"incr","path":"/v","value":1},` +
		`{"op":"incr","path":"/v","value":1},{"op":"incr","path":"/v","value":1},{"op":"incr","path":"/v","value":1}]`
	for _, body := range []string{
		``, `{}`, `[]`, eleven, `[{"op":"incr","path":"/v","value":1},{"op":"replace","path":"/none","value":1}]`, `[{"op":"remove","path":"/none"}]`,
		`[{"op":"set","path":"/id","value":"2"}]`, `[{"op":"set","path":"/pk","value":"q"}]`, `[{"op":"remove","path":"/pk"}]`,
		`[{"op":"move","from":"/pk","path":"/v"}]`, `[{"op":"set","path":"/_ts","value":1}]`, `[{"op":"set","path":"/_etag","value":1}]`,
		`[{"op":"set","path":"/_rid","value":1}]`, `[{"op":"set","path":"/ttl","value":0}]`, `[{"op":"incr","path":"/deep","value":1}]`,
	} {
		ts.do("PATCH", path, h, body).want(400)
	}
	ts.do("PATCH", orders+"/docs/none", h, `[{"op":"set","path":"/v","value":1}]`).want(404)
	ts.do("PATCH", path, nil, `[{"op":"set","path":"/v","value":1}]`).want(400, 1001)
	ts.do("GET", path, h, "").want(200).wantBody(string(was))
}

func TestPatchesAtOnceAreAllCounted(t *testing.T) {
	ts := newTestServer(t, Options{})
	h, path := ts.withItem()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				if a := ts.do("PATCH", path, h, `[{"op":"incr","path":"/v","value":1}]`); a.status != 200 {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
	all.Wait()
	ts.do("GET", path, h, "").want(200).wantBody(`"v":83`)
}
