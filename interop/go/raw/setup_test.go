package raw

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

// version is the x-ms-version that the pages of the REST API use.
const version = "2016-07-11"

var (
	env       harness.Env
	databases atomic.Int64
)

func TestMain(m *testing.M) {
	var err error
	if env, err = harness.FromEnvironment(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(env.Main(m))
}

// request is one request to the server. Unless sign is set, it is signed with the primary
// key, for its path.
type request struct {
	verb, path string
	headers    map[string]string
	body       string
	sign       func(r *http.Request)
}

// answer is an answer of the server, with its whole body.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (q request) do(t *testing.T) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), q.verb, env.Endpoint, strings.NewReader(q.body))
	ok(t, err)
	// Send the path unchanged, with its percent escapes.
	r.URL.RawPath = q.path
	if r.URL.Path, err = url.PathUnescape(q.path); err != nil {
		r.URL.Opaque, r.URL.Path = q.path, ""
	}
	r.Header.Set("X-Ms-Version", version)
	r.Header.Set("Accept", "application/json")
	for name, value := range q.headers {
		r.Header.Set(name, value)
	}
	if q.sign == nil {
		sign(r, env.Key, time.Now())
	} else {
		q.sign(r)
	}
	response, err := env.HTTP.Do(r)
	ok(t, err)
	body, err := io.ReadAll(response.Body)
	ok(t, err)
	ok(t, response.Body.Close())
	a := answer{response.StatusCode, response.Header, body}
	wellFormed(t, q, a)
	return a
}

// wellFormed fails the test unless an answer has the headers that SDKs need. As in the
// service, the account has no activity id. An answer of the backend, which names its
// version, has a charge unless it is of the ranges or too large a body. An answer of the
// gateway has none.
func wellFormed(t *testing.T, q request, a answer) {
	t.Helper()
	what := q.verb + " " + q.path
	account := a.status == http.StatusOK && (q.path == "/" || q.headers["x-ms-cosmos-is-query-plan-request"] != "")
	if got := a.header.Get("X-Ms-Activity-Id") != ""; got == account {
		t.Errorf("%s: %d with an activity id: %t", what, a.status, got)
	}
	backend := a.header.Get("X-Ms-Serviceversion") != ""
	if account && backend || !backend && !account && a.status < http.StatusBadRequest {
		t.Errorf("%s: %d of the backend: %t", what, a.status, backend)
	}
	charged := backend && a.status != http.StatusRequestEntityTooLarge && !strings.HasSuffix(q.path, "/pkranges")
	if got := a.header.Get("X-Ms-Request-Charge") != ""; got != charged {
		t.Errorf("%s: %d with a charge: %t", what, a.status, got)
	}
	switch {
	case a.status == http.StatusNoContent || a.status == http.StatusNotModified:
		if len(a.body) > 0 || a.header.Get("Content-Length") > "0" {
			t.Errorf("%s: %d with a body", what, a.status)
		}
	case a.status >= http.StatusBadRequest:
		var e struct{ Code, Message string }
		if err := json.Unmarshal(a.body, &e); err != nil || e.Code == "" || e.Message == "" {
			t.Errorf("%s: %d with the body %q: %v", what, a.status, a.body, err)
		}
		if got := a.header.Get("Content-Length"); got != fmt.Sprint(len(a.body)) {
			t.Errorf("%s: %d with a Content-Length of %q for %d bytes", what, a.status, got, len(a.body))
		}
		if !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
			t.Errorf("%s: %d as %q", what, a.status, a.header.Get("Content-Type"))
		}
	}
}

// want fails the test unless the answer has the given status.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

func decode[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	if err := json.NewDecoder(bytes.NewReader(a.body)).Decode(&v); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	return v
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, got, want T, what string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// item is the document that the scenarios write, with the system properties that they
// compare.
type item struct {
	ID  string `json:"id"`
	PK  string `json:"pk"`
	V   int    `json:"v"`
	RID string `json:"_rid,omitempty"`
	TS  int64  `json:"_ts,omitempty"`
	LSN int64  `json:"_lsn,omitempty"`
}

// documents is the body of an answer with a page of items.
type documents struct {
	RID       string `json:"_rid"`
	Documents []item
	Count     int `json:"_count"`
}

// collection is a container that a test has created, with two partitions.
type collection struct {
	path      string // for instance "/dbs/x/colls/y"
	database  string
	container string
}

func newCollection(t *testing.T) collection {
	t.Helper()
	name := fmt.Sprintf("raw-%d-%d", os.Getpid(), databases.Add(1))
	request{verb: "POST", path: "/dbs", body: fmt.Sprintf(`{"id":%q}`, name)}.do(t).want(t, 201)
	t.Cleanup(func() { request{verb: "DELETE", path: "/dbs/" + name}.do(t).want(t, 204) })
	request{
		verb: "POST", path: "/dbs/" + name + "/colls", headers: map[string]string{"x-ms-offer-throughput": "20000"},
		body: `{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash"}}`,
	}.do(t).want(t, 201)
	return collection{"/dbs/" + name + "/colls/items", name, "items"}
}

// at returns the names of the container and of its database, for requests to the admin
// API.
func (c collection) at() harness.Container {
	return harness.Container{Database: c.database, Name: c.container}
}

func key(pk string) string {
	b, _ := json.Marshal([]string{pk})
	return string(b)
}

// upsert writes items and returns them as the server stored them.
func (c collection) upsert(t *testing.T, items ...item) []item {
	t.Helper()
	var stored []item
	for _, i := range items {
		body, err := json.Marshal(i)
		ok(t, err)
		a := request{verb: "POST", path: c.path + "/docs", body: string(body), headers: map[string]string{
			"x-ms-documentdb-partitionkey": key(i.PK), "x-ms-documentdb-is-upsert": "true", "Content-Type": "application/json",
		}}.do(t)
		if a.status != 200 {
			a.want(t, 201)
		}
		stored = append(stored, decode[item](t, a))
	}
	return stored
}

// spread returns n items of version v under ten partition keys, which lie in two
// partitions.
func spread(n, v int) []item {
	var items []item
	for i := range n {
		items = append(items, item{ID: fmt.Sprint(i), PK: fmt.Sprintf("key %d", i%10), V: v})
	}
	return items
}

// versions returns the newest version of each item, by key and id. It fails the test if
// an older version follows a newer one.
func versions(t *testing.T, items []item) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for _, i := range items {
		name := i.PK + "/" + i.ID
		if v, there := seen[name]; there && i.V < v {
			t.Errorf("%s: version %d after %d", name, i.V, v)
		}
		seen[name] = i.V
	}
	return seen
}

func same(t *testing.T, got, want []item) {
	t.Helper()
	g, w := versions(t, got), versions(t, want)
	if fmt.Sprint(g) != fmt.Sprint(w) {
		t.Errorf("got %v, want %v", g, w)
	}
}
