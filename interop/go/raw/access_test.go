package raw

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// routes returns requests of every kind, for resources that exist and for missing ones.
func routes(c collection) []request {
	doc := c.path + "/docs/1"
	query := map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-isquery": "true"}
	return []request{
		{verb: "GET", path: "/"},
		{verb: "GET", path: "/dbs"},
		{verb: "POST", path: "/dbs", body: `{"id":"never"}`},
		{verb: "POST", path: "/dbs", headers: query, body: `{"query":"SELECT * FROM c"}`},
		{verb: "GET", path: "/dbs/" + c.database},
		{verb: "GET", path: "/dbs/none"},
		{verb: "DELETE", path: "/dbs/" + c.database},
		{verb: "GET", path: "/dbs/" + c.database + "/colls"},
		{verb: "POST", path: "/dbs/" + c.database + "/colls", body: `{"id":"never","partitionKey":{"paths":["/pk"]}}`},
		{verb: "GET", path: c.path},
		{verb: "PUT", path: c.path, body: `{"id":"items","partitionKey":{"paths":["/pk"]}}`},
		{verb: "DELETE", path: c.path},
		{verb: "GET", path: c.path + "/pkranges"},
		{verb: "GET", path: c.path + "/docs"},
		{verb: "GET", path: c.path + "/docs", headers: map[string]string{"A-IM": "Incremental feed"}},
		{verb: "POST", path: c.path + "/docs", body: `{"id":"never","pk":"p"}`, headers: map[string]string{"x-ms-documentdb-partitionkey": `["p"]`}},
		{verb: "POST", path: c.path + "/docs", headers: query, body: `{"query":"SELECT * FROM c"}`},
		{verb: "POST", path: c.path + "/docs", body: `[{"operationType":"Upsert","resourceBody":{"id":"never","pk":"p"}}]`, headers: map[string]string{"x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "true", "x-ms-documentdb-partitionkey": `["p"]`}},
		{verb: "GET", path: doc},
		{verb: "PUT", path: doc, body: `{"id":"1","pk":"p"}`},
		{verb: "PATCH", path: doc, body: `{"operations":[]}`},
		{verb: "DELETE", path: doc},
		{verb: "GET", path: "/offers"},
		{verb: "POST", path: "/offers", headers: query, body: `{"query":"SELECT * FROM c"}`},
		{verb: "GET", path: "/offers/AAAA"},
		{verb: "PUT", path: "/offers/AAAA", body: `{}`},
		{verb: "POST", path: c.path + "/sprocs", body: `{"id":"s","body":"function(){}"}`},
		{verb: "GET", path: c.path + "/conflicts"},
		{verb: "GET", path: "/_changefeed/dbs/" + c.database + "/colls/items/partitions"},
		{verb: "POST", path: "/_changefeed/dbs/" + c.database + "/colls/items/partitions/0/split"},
	}
}

func TestNothingIsAnsweredWithoutASignature(t *testing.T) {
	env.Scenario(t, "raw-unsigned", func(t *testing.T) {
		c := newCollection(t)
		c.upsert(t, item{ID: "1", PK: "p"})
		other := base64.StdEncoding.EncodeToString([]byte("another key, which is not the account's"))
		dated := func(r *http.Request, authorization string) {
			r.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
			if authorization != "" {
				r.Header.Set("Authorization", authorization)
			}
		}
		for name, sign := range map[string]func(r *http.Request){
			"none":       func(r *http.Request) { dated(r, "") },
			"garbled":    func(r *http.Request) { dated(r, "type%3Dmaster%26ver%3D1.0%26sig%3D%%%") },
			"not base64": func(r *http.Request) { dated(r, "type%3Dmaster%26ver%3D1.0%26sig%3D!!!!") },
			"empty":      func(r *http.Request) { dated(r, "type%3Dmaster%26ver%3D1.0%26sig%3D") },
			"basic":      func(r *http.Request) { dated(r, "Basic YWxsOm1pbmU=") },
			"resource":   func(r *http.Request) { dated(r, "type%3Dresource%26ver%3D1%26sig%3Dabc%3Bdef%3Bghi") },
			"long":       func(r *http.Request) { dated(r, "type%3Dmaster%26ver%3D1.0%26sig%3D"+strings.Repeat("A", 5000)) },
			"other key":  func(r *http.Request) { sign(r, other, time.Now()) },
			"other path": func(r *http.Request) {
				date := time.Now().UTC().Format(http.TimeFormat)
				r.Header.Set("X-Ms-Date", date)
				r.Header.Set("Authorization", authorization(env.Key, r.Method, "docs", "dbs/of/colls/others", date, ""))
			},
			"other verb": func(r *http.Request) {
				kind, link := resource(r.URL.EscapedPath())
				date := time.Now().UTC().Format(http.TimeFormat)
				r.Header.Set("X-Ms-Date", date)
				r.Header.Set("Authorization", authorization(env.Key, "OPTIONS", kind, link, date, ""))
			},
			"other date": func(r *http.Request) {
				sign(r, env.Key, time.Now().Add(-time.Minute))
				r.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
			},
		} {
			for _, q := range routes(c) {
				q.sign = sign
				if a := q.do(t); a.status != 401 {
					t.Errorf("%s %s signed %q: %d %s", q.verb, q.path, name, a.status, a.body)
				}
			}
		}
		// The refused requests have changed nothing.
		request{verb: "GET", path: c.path + "/docs/1", headers: map[string]string{"x-ms-documentdb-partitionkey": `["p"]`}}.do(t).want(t, 200)
		request{verb: "GET", path: "/dbs/never"}.do(t).want(t, 404)
		equal(t, len(ranges(t, c, nil)), 2, "partitions")
	})
}

func TestDatesAreHeldAgainstTheServersClock(t *testing.T) {
	env.Scenario(t, "raw-clock", func(t *testing.T) {
		at := func(d time.Duration) func(r *http.Request) {
			return func(r *http.Request) { sign(r, env.Key, time.Now().Add(d)) }
		}
		for _, late := range []time.Duration{-20 * time.Minute, 20 * time.Minute, -48 * time.Hour, 24 * 365 * time.Hour} {
			request{verb: "GET", path: "/dbs", sign: at(late)}.do(t).want(t, 403)
		}
		for _, fine := range []time.Duration{-13 * time.Minute, 13 * time.Minute, 0} {
			request{verb: "GET", path: "/dbs", sign: at(fine)}.do(t).want(t, 200)
		}
		undated := func(text string) func(r *http.Request) {
			return func(r *http.Request) {
				if text != "" {
					r.Header.Set("X-Ms-Date", text)
				}
				r.Header.Set("Authorization", authorization(env.Key, r.Method, "dbs", "", text, ""))
			}
		}
		// Without an x-ms-date header, the signature covers the Date header, which is one
		// line further down.
		request{verb: "GET", path: "/dbs", sign: func(r *http.Request) {
			date := time.Now().UTC().Format(http.TimeFormat)
			r.Header.Set("Date", date)
			r.Header.Set("Authorization", authorization(env.Key, r.Method, "dbs", "", "", date))
		}}.do(t).want(t, 200)
		for _, text := range []string{"", "yesterday", "2026-01-15T09:30:00Z", "0"} {
			request{verb: "GET", path: "/dbs", sign: undated(text)}.do(t).want(t, 401)
		}
	})
}

func TestReadOnlyKeyWritesNothing(t *testing.T) {
	env.Scenario(t, "raw-read-only", func(t *testing.T) {
		c := newCollection(t)
		c.upsert(t, item{ID: "1", PK: "p"})
		for _, q := range routes(c) {
			q.sign = func(r *http.Request) {
				kind, link := resource(r.URL.EscapedPath())
				if rest, admin := strings.CutPrefix(r.URL.Path, "/_changefeed/"); admin {
					kind, link = "_changefeed", rest
				}
				date := time.Now().UTC().Format(http.TimeFormat)
				r.Header.Set("X-Ms-Date", date)
				r.Header.Set("Authorization", authorization(env.ReadOnlyKey, r.Method, kind, link, date, ""))
			}
			if q.path == c.path+"/docs/1" {
				q.headers = map[string]string{"x-ms-documentdb-partitionkey": `["p"]`}
			}
			a := q.do(t)
			reads := q.verb == "GET" || strings.HasPrefix(q.headers["Content-Type"], "application/query")
			switch {
			case reads && a.status == 403:
				t.Errorf("%s %s: refused: %s", q.verb, q.path, a.body)
			case !reads && a.status != 403 && !strings.HasSuffix(q.path, "/sprocs"): // no key may write stored procedures
				t.Errorf("%s %s: %d %s", q.verb, q.path, a.status, a.body)
			}
		}
		plan := request{verb: "POST", path: c.path + "/docs", body: `{"query":"SELECT * FROM c"}`, headers: map[string]string{
			"Content-Type": "application/query+json", "x-ms-cosmos-is-query-plan-request": "True", "x-ms-cosmos-query-version": "1.0",
		}}
		plan.sign = func(r *http.Request) { sign(r, env.ReadOnlyKey, time.Now()) }
		plan.do(t).want(t, 200)
		request{verb: "GET", path: c.path + "/docs/1", headers: map[string]string{"x-ms-documentdb-partitionkey": `["p"]`}}.do(t).want(t, 200)
	})
}

func TestRIDsAddressEverything(t *testing.T) {
	env.Scenario(t, "raw-rids", func(t *testing.T) {
		c := newCollection(t)
		stored := c.upsert(t, item{ID: "1", PK: "p", V: 7})[0]
		type resource struct {
			RID  string `json:"_rid"`
			Self string `json:"_self"`
			ID   string `json:"id"`
		}
		database := decode[resource](t, request{verb: "GET", path: "/dbs/" + c.database}.do(t).want(t, 200))
		container := decode[resource](t, request{verb: "GET", path: c.path}.do(t).want(t, 200))
		equal(t, container.Self, fmt.Sprintf("dbs/%s/colls/%s/", database.RID, container.RID), "self link")
		by := func(kind, rid string) func(r *http.Request) {
			return func(r *http.Request) {
				date := time.Now().UTC().Format(http.TimeFormat)
				r.Header.Set("X-Ms-Date", date)
				r.Header.Set("Authorization", authorization(env.Key, r.Method, kind, strings.ToLower(rid), date, ""))
			}
		}
		self := "/" + strings.TrimSuffix(container.Self, "/")
		equal(t, decode[resource](t, request{verb: "GET", path: "/dbs/" + database.RID, sign: by("dbs", database.RID)}.do(t).want(t, 200)).ID, c.database, "database")
		equal(t, decode[resource](t, request{verb: "GET", path: self, sign: by("colls", container.RID)}.do(t).want(t, 200)).ID, "items", "container")
		request{verb: "GET", path: "/dbs/" + database.RID + "/colls", sign: by("colls", database.RID)}.do(t).want(t, 200)
		pkranges := decode[struct{ PartitionKeyRanges []resource }](t, request{verb: "GET", path: self + "/pkranges", sign: by("pkranges", container.RID)}.do(t).want(t, 200))
		equal(t, len(pkranges.PartitionKeyRanges), 2, "partition key ranges")
		read := request{verb: "GET", path: self + "/docs/" + stored.RID, sign: by("docs", stored.RID), headers: map[string]string{"x-ms-documentdb-partitionkey": `["p"]`}}
		equal(t, decode[item](t, read.do(t).want(t, 200)).V, 7, "item")
		create := request{verb: "POST", path: self + "/docs", sign: by("docs", container.RID), body: `{"id":"2","pk":"p","v":8}`, headers: map[string]string{"x-ms-documentdb-partitionkey": `["p"]`}}
		create.do(t).want(t, 201)
		equal(t, len(feedAll(t, self, map[string]string{}, by("docs", container.RID))), 2, "changes by rid")
		// A signature by the rid in its original case and one by another rid are wrong.
		request{verb: "GET", path: self, sign: by("colls", database.RID)}.do(t).want(t, 401)
	})
}
