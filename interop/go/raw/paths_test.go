package raw

import (
	"strings"
	"testing"
)

func TestPaths(t *testing.T) {
	env.Scenario(t, "raw-paths", func(t *testing.T) {
		c := newCollection(t)
		odd := map[string]string{"x-ms-documentdb-partitionkey": `["a\/b\u00fc"]`}
		for _, d := range []struct{ id, escaped string }{
			{`o 1+%é`, "o%201+%25%C3%A9"},
			{`o 1+%é`, "o%201%2B%25%c3%a9"},
			{`it's`, "it's"},
			{`it's`, "%69%74%27%73"},
			{`a&b=c;d,e@f$g!`, "a&b=c;d,e@f$g!"},
			{"日本", "%E6%97%A5%E6%9C%AC"},
		} {
			for _, slash := range []string{"", "/"} {
				request{verb: "POST", path: c.path + "/docs" + slash, body: `{"id":"` + d.id + `","pk":"a/bü"}`, headers: odd}.do(t).want(t, 201)
				read := request{verb: "GET", path: c.path + "/docs/" + d.escaped + slash, headers: odd}.do(t).want(t, 200)
				equal(t, decode[item](t, read).ID, d.id, "id")
				request{verb: "DELETE", path: c.path + "/docs/" + d.escaped + slash, headers: odd}.do(t).want(t, 204)
			}
		}
		for _, path := range []string{
			"/nowhere", "/dbs/" + c.database + "/nowhere", c.path + "/docs/1/2", c.path + "/docs/1/attachments", "/dbs//colls", c.path + "//docs",
			"/dbs/" + strings.Repeat("x", 5000), "/../dbs", "/dbs/a%00b", "/dbs/" + strings.Repeat("a/", 400),
		} {
			for _, verb := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
				if a := (request{verb: verb, path: path}).do(t); a.status < 400 || a.status >= 500 {
					t.Errorf("%s %.80s: %d %s", verb, path, a.status, a.body)
				}
			}
		}
	})
}

func TestErrors(t *testing.T) {
	env.Scenario(t, "raw-errors", func(t *testing.T) {
		c := newCollection(t)
		c.upsert(t, item{ID: "1", PK: "p"})
		p := map[string]string{"x-ms-documentdb-partitionkey": `["p"]`}
		with := func(more map[string]string) map[string]string {
			all := map[string]string{}
			for _, m := range []map[string]string{p, more} {
				for name, value := range m {
					all[name] = value
				}
			}
			return all
		}
		for _, e := range []struct {
			request
			status int
			sub    string
		}{
			{request{verb: "GET", path: c.path + "/docs/none", headers: p}, 404, ""},
			{request{verb: "GET", path: "/dbs/none"}, 404, ""},
			{request{verb: "GET", path: "/dbs/none/colls/none/docs/1", headers: p}, 404, ""},
			{request{verb: "POST", path: c.path + "/docs", headers: p, body: `{"id":"1","pk":"p"}`}, 409, ""},
			{request{verb: "POST", path: c.path + "/docs", headers: p, body: `{"id":"2","pk":"q"}`}, 400, "1001"},
			{request{verb: "POST", path: c.path + "/docs", headers: p, body: `{"id":"2","pk":`}, 400, ""},
			{request{verb: "POST", path: c.path + "/docs", headers: p, body: `["no object"]`}, 400, ""},
			{request{verb: "POST", path: c.path + "/docs", headers: p, body: ``}, 400, ""},
			{request{verb: "POST", path: c.path + "/docs", headers: p, body: `{"id":"a/b","pk":"p"}`}, 400, ""},
			{request{verb: "POST", path: c.path + "/docs", headers: p, body: `{"id":7,"pk":"p"}`}, 400, ""},
			{request{verb: "POST", path: c.path + "/docs", headers: p, body: `{"id":"deep","pk":"p","x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`}, 400, ""},
			{request{verb: "POST", path: c.path + "/docs", headers: p, body: `{"id":"big","pk":"p","x":"` + strings.Repeat("x", 3<<20) + `"}`}, 413, ""},
			{request{verb: "GET", path: c.path + "/docs/1", headers: map[string]string{"x-ms-documentdb-partitionkey": `not json`}}, 400, ""},
			{request{verb: "GET", path: c.path + "/docs/1", headers: map[string]string{"x-ms-documentdb-partitionkey": `["p","q"]`}}, 400, "1001"},
			{request{verb: "GET", path: c.path + "/docs/1"}, 400, "1001"},
			{request{verb: "PUT", path: c.path + "/docs/1", body: `{"id":"1","pk":"p"}`, headers: with(map[string]string{"If-Match": `"none"`})}, 412, ""},
			{request{verb: "GET", path: c.path + "/docs/1", headers: with(map[string]string{"x-ms-cosmos-intended-collection-rid": "AAAAAIAAAAA="})}, 400, "1024"},
			{request{verb: "POST", path: c.path + "/sprocs", body: `{"id":"s","body":"function(){}"}`}, 400, ""},
			// Clients of older versions may create a container without a key.
			{request{verb: "POST", path: "/dbs/" + c.database + "/colls", headers: map[string]string{"x-ms-version": "2018-12-31"}, body: `{"id":"keyless"}`}, 400, ""},
			{request{verb: "POST", path: "/dbs", body: `{"id":"a/b"}`}, 400, ""},
		} {
			a := e.do(t)
			if a.status != e.status && !(e.path == c.path+"/sprocs" && a.status > 400 && a.status <= 501) {
				t.Errorf("%s %s %.60s: %d, want %d: %s", e.verb, e.path, e.body, a.status, e.status, a.body)
			}
			if got := a.header.Get("X-Ms-Substatus"); got != e.sub && a.status == e.status {
				t.Errorf("%s %s %.60s: sub-status %q, want %q", e.verb, e.path, e.body, got, e.sub)
			}
		}
		request{verb: "GET", path: c.path + "/docs/1", headers: p}.do(t).want(t, 200)
		request{verb: "DELETE", path: c.path + "/docs/1", headers: p}.do(t).want(t, 204)
	})
}
