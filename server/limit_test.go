package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestAPanicIsAnsweredWithAnActivityIDAndTheServerContinues(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	routes := ts.routes["/dbs/*"]
	for i := range routes {
		if routes[i].method == "GET" {
			routes[i].serve = func(*request) error { panic("an operation that went wrong") }
		}
	}
	a := ts.do("GET", "/dbs/shop", headers{wire.HeaderActivityID: "a-1"}, "").want(500).wantHeader(wire.HeaderActivityID, "a-1").wantBody("a-1")
	if strings.Contains(string(a.body), "went wrong") || strings.Contains(string(a.body), ".go:") {
		t.Errorf("the answer reveals internals of the server: %s", a.body)
	}
	for range 3 {
		ts.do("GET", "/dbs/shop", nil, "").want(500)
		ts.do("GET", orders, nil, "").want(200)
	}
}

func TestAPanicInTheMiddleOfAnAnswerEndsTheConnection(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	routes := ts.routes["/dbs/*"]
	for i := range routes {
		if routes[i].method == "GET" {
			routes[i].serve = func(x *request) error {
				x.start(http.StatusOK, 100)
				panic("too late for a status")
			}
		}
	}
	defer func() {
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // a panic's value, not wrapped
			t.Errorf("panic: %v; the client would take half an answer for a whole one", p)
		}
	}()
	ts.ServeHTTP(httptest.NewRecorder(), ts.request("GET", "/dbs/shop", nil, ""))
}

// nested returns JSON that repeats open depth times, then inner, and then closing depth
// times.
func nested(depth int, open, inner, closing string) string {
	return strings.Repeat(open, depth) + inner + strings.Repeat(closing, depth)
}

// Very long and very deep bodies are sent to every operation. None may stop the server or
// be answered 5xx. A recursive decoder without a limit would overflow its stack at these
// depths.
func TestHugeAndDeepBodiesAreRefused(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`)
	doc := pk(`["p"]`)
	type target struct {
		method, path string
		h            headers
	}
	targets := map[string]target{
		"create": {"POST", orders + "/docs", doc}, "upsert": {"POST", orders + "/docs", doc.with(wire.HeaderUpsert, "true")},
		"replace": {"PUT", orders + "/docs/1", doc}, "patch": {"PATCH", orders + "/docs/1", doc},
		"transaction": {"POST", orders + "/docs", transaction}, "bulk": {"POST", orders + "/docs", inBulk},
		"query": {"POST", orders + "/docs", queryHeaders()}, "plan": {"POST", orders + "/docs", queryHeaders().with(wire.HeaderQueryPlan, "true")},
		"database": {"POST", "/dbs", nil}, "container": {"POST", "/dbs/shop/colls", nil}, "query databases": {"POST", "/dbs", queryHeaders()},
		"replace container": {"PUT", orders, nil}, "query offers": {"POST", "/offers", queryHeaders()},
	}
	const depth = 50_000
	bodies := map[string]string{
		"deep arrays":        nested(depth, "[", "", "]"),
		"deep objects":       nested(depth, `{"a":`, "1", "}"),
		"open arrays":        strings.Repeat("[", depth),
		"deep in a document": `{"id":"1","pk":"p","x":` + nested(depth, "[", "", "]") + `}`,
		"deep without an id": `{"pk":"p","x":` + nested(depth, "[", "", "]") + `}`,
		"deep operation":     `[{"operationType":"Create","partitionKey":"[\"p\"]","resourceBody":{"id":"1","pk":"p","x":` + nested(depth, "[", "", "]") + `}}]`,
		"deep patch":         `{"operations":[{"op":"add","path":"/x","value":` + nested(depth, "[", "", "]") + `}]}`,
		"deep path":          `{"operations":[{"op":"add","path":"` + strings.Repeat("/a", depth) + `","value":1}]}`,
		"deep query":         `{"query":"SELECT * FROM c WHERE ` + nested(depth, "(", "1=1", ")") + `"}`,
		"long query":         `{"query":"SELECT * FROM c WHERE c.a = 1` + strings.Repeat(" OR c.a = 1", depth) + `"}`,
		"deep parameter":     `{"query":"SELECT @p","parameters":[{"name":"@p","value":` + nested(depth, "[", "", "]") + `}]}`,
		"a long string":      `{"id":"1","pk":"p","x":"` + strings.Repeat("x", storetype.MaxDocumentSize+1) + `"}`,
		"nothing":            "",
		"no JSON":            "\x00\xff{",
	}
	for name, body := range bodies {
		for op, at := range targets {
			a := ts.do(at.method, at.path, at.h, body)
			if a.status < 400 || a.status >= 500 {
				t.Errorf("%s with %s: %d %.200s", op, name, a.status, a.body)
			}
		}
	}
	ts.do("GET", orders+"/docs/1", doc, "").want(200).wantBody(`"pk":"p"`)
}

func TestLongPathsAndHeadersAreRefused(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	long := strings.Repeat("x", 100_000)
	for path, h := range map[string]headers{
		"/dbs/" + long:                   nil,
		orders + "/docs/" + long:         pk(`["p"]`),
		strings.Repeat("/dbs/x", 10_000): nil,
		orders + "/docs":                 queryHeaders(), // no body
		orders + "/docs/1":               pk(nested(50_000, "[", "", "]")),
		orders + "/docs/2":               pk(`["` + long + `"]`),
		orders + "/docs/3":               pk(`[` + strings.Repeat("1,", 20_000) + `1]`),
	} {
		method := "GET"
		if h["Content-Type"] != "" {
			method = "POST"
		}
		a := ts.do(method, path, h, "")
		if a.status < 400 || a.status >= 500 {
			t.Errorf("%.60s: %d %.200s", path, a.status, a.body)
		}
		if len(path) > maxPath && (a.status != 414 || len(a.body) > 1000 || !json.Valid(a.body)) {
			t.Errorf("%.60s...: %d with %d bytes: %.200s", path, a.status, len(a.body), a.body)
		}
	}
	for _, name := range []string{
		wire.HeaderContinuation, wire.HeaderMaxItemCount, wire.HeaderPartitionID, wire.HeaderStartEPK, "If-None-Match", "If-Modified-Since", wire.HeaderAIM,
		wire.HeaderActivityID, wire.HeaderWireFormat,
	} {
		for _, value := range []string{long, strings.Repeat("[", 50_000), strings.Repeat("9", 50_000)} {
			for _, h := range []headers{{}, {wire.HeaderAIM: wire.AIMIncremental}} {
				if a := ts.do("GET", orders+"/docs", h.with(name, value), ""); a.status >= 500 || len(a.header.Get(wire.HeaderActivityID)) > 64 {
					t.Errorf("%s of %.10s...: %d %.200s", name, value, a.status, a.body)
				}
			}
		}
	}
}

func TestRefusalsNameTheRemedy(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.do("POST", "/offers", nil, `{"query":"SELECT * FROM root"}`).want(405).wantBody("RequestHandler.Post")
	ts.do("PUT", "/offers", nil, `{}`).want(405).wantBody("RequestHandler.Put")
	ts.do("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`).want(201)
	ts.do("POST", orders+"/docs", pk(`["p"]`).with("x-ms-documentdb-is-upsert", "true").with("If-None-Match", "*"), `{"id":"1","pk":"p"}`).
		want(412).wantText("one of the specified precondition is not met")
	ts.do("PUT", orders+"/docs/1", pk(`["p"]`).with("If-Match", `"x"`), `{"id":"1","pk":"p"}`).want(412).wantText("one of the specified precondition is not met")
}

// A request with a Content-Encoding must be refused. If the server ignored the header, it
// would parse the compressed bytes as JSON.
func TestACompressedBodyIsRefused(t *testing.T) {
	ts := newTestServer(t, Options{})
	h, path := ts.withItem()
	for _, encoding := range []string{"gzip", "GZIP", "deflate", "br", "identity, gzip"} {
		encoded := h.with("Content-Encoding", encoding)
		ts.do("POST", orders+"/docs", encoded, `{"id":"2","pk":"p"}`).want(415).wantBody("without compression")
		ts.do("PUT", path, encoded, `{"id":"1","pk":"p"}`).want(415)
		ts.do("PATCH", path, encoded, `[{"op":"incr","path":"/v","value":1}]`).want(415)
		ts.do("POST", orders+"/docs", together(encoded, queryHeaders()), queryBody(t, "SELECT * FROM c")).want(415)
		ts.do("POST", orders+"/docs", transaction.with("Content-Encoding", encoding), `[{"operationType":"Read","id":"1"}]`).want(415)
		ts.do("POST", "/dbs", headers{"Content-Encoding": encoding}, `{"id":"other"}`).want(415)
	}
	ts.do("POST", orders+"/docs", h.with("Content-Encoding", "identity"), `{"id":"2","pk":"p"}`).want(201)
}
