package server

import (
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// Two SDKs could not be used without these exceptions; see DESIGN.md.
func TestTwoRefusalsDependOnTheVersionOfTheProtocol(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders().withUsers()
	keyless := func(version string) response {
		return ts.do("POST", orders+"/docs", headers{wire.HeaderPartitionKey: "", wire.HeaderVersion: version}, `{"id":"`+version+`"}`)
	}
	keyless("2018-12-31").want(400, 1001)
	keyless("2020-07-15").want(400, 1001)
	keyless("2020-11-05").want(201)
	go20 := headers{wire.HeaderPartitionKey: "", wire.HeaderVersion: "2020-11-05"}
	for _, body := range []string{`{"id":"a","pk":"p"}`, `{"id":"b","pk":null}`, `{"query":"SELECT c.id FROM c"}`} {
		ts.do("POST", orders+"/docs", go20, body).want(400, 1001).wantText("has fewer components than defined")
	}
	without := func(version string) response {
		return ts.do("PUT", uniqueUsers, headers{wire.HeaderVersion: version}, `{"id":"users","partitionKey":{"paths":["/pk"]}}`)
	}
	without("2018-12-31").want(403)
	without("2020-07-15").want(200).wantBody(`"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/mail"]}]}`)
}

func TestHierarchicalKeysNeedAVersionThatHasThem(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	const body = `{"id":"h","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}}`
	ts.do("POST", "/dbs/shop/colls", headers{wire.HeaderVersion: "2018-12-31"}, body).want(400).wantText("Please choose 'Hash' partition type.")
	ts.do("POST", "/dbs/shop/colls", headers{wire.HeaderVersion: "2020-07-15"}, body).want(201)
}

func TestAStrongerConsistencyThanTheAccountsIsRefused(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	for level, status := range map[string]int{"Strong": 400, "BoundedStaleness": 400, "Session": 200, "Eventual": 200, "consistentprefix": 200, "Weak": 400} {
		ts.do("GET", orders+"/docs", headers{wire.HeaderConsistency: level}, "").want(status)
	}
}

func TestParametersOfAQueryAreNamedOnceAndValidly(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	h := queryHeaders().with(wire.HeaderCrossPartition, "true")
	ts.do("POST", orders+"/docs", h, `{"query":"SELECT @p AS v","parameters":[{"name":"@p","value":1},{"name":"@p","value":2}]}`).
		want(400).wantText(`Message: {"Errors":["Invalid query. Specified duplicate parameter name '@p'."]}`)
	ts.do("POST", orders+"/docs", h, `{"query":"SELECT @p AS v","parameters":[{"name":"p","value":1}]}`).want(400).wantText("Specified parameter name 'p' is invalid.")
}

// The header tells who answered. A gateway's refusal tells nothing of a replica.
func TestHeadersDependOnWhoAnswers(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	doc := orders + "/docs/1"
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`)
	replica := []string{wire.HeaderLSN, wire.HeaderLocalLSN, wire.HeaderCommittedLSN, wire.HeaderSessionToken, wire.HeaderServiceVersion, wire.HeaderSchemaVersion, wire.HeaderDuration}
	success := []string{"Cache-Control", "Pragma", wire.HeaderAltContentPath, wire.HeaderContentPath}
	for what, k := range map[string]struct {
		a        response
		has, not []string
	}{
		"read":    {ts.do("GET", doc, pk(`["p"]`), ""), append(append([]string{wire.HeaderItemLSN, wire.HeaderQuota, wire.HeaderUsage, "Content-Location", "Etag"}, replica...), success...), nil},
		"missing": {ts.do("GET", orders+"/docs/2", pk(`["p"]`), ""), append([]string{wire.HeaderPartitionID, "Content-Location"}, replica...), append([]string{"Etag", wire.HeaderQuota}, success...)},
		"no key":  {ts.do("GET", doc, nil, ""), append([]string{wire.HeaderPartitionID, wire.HeaderSubStatus}, replica...), success},
		"owner":   {ts.do("GET", "/dbs/shop/colls/none/docs/1", pk(`["p"]`), ""), replica, append([]string{wire.HeaderPartitionID}, success...)},
		"gateway": {ts.do("POST", orders+"/docs", queryHeaders(), `{"query":"SELECT"}`), []string{wire.HeaderActivityID}, append([]string{wire.HeaderRequestCharge}, replica...)},
		"account": {ts.do("GET", "/", nil, ""), []string{"Cache-Control", "Content-Location"}, append([]string{wire.HeaderActivityID, wire.HeaderRequestCharge}, replica...)},
	} {
		for _, name := range k.has {
			if k.a.header.Get(name) == "" {
				t.Errorf("%s: there is no %s", what, name)
			}
		}
		for _, name := range k.not {
			if v := k.a.header.Get(name); v != "" {
				t.Errorf("%s: %s is %s", what, name, v)
			}
		}
	}
}

// A library's error may name types of this program, which tell a client nothing.
func TestNoAnswerNamesAGoType(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders().withUsers()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`)
	bodies := []string{
		"", "null", "7", `"x"`, "[]", "{", "[{}]", `{"id":7}`, `{"id":"x","partitionKey":"id"}`, `{"id":"x","partitionKey":{"paths":7}}`,
		`{"id":"x","partitionKey":{"paths":["/a"],"version":"x"}}`, `{"id":"x","partitionKey":{"paths":["/a"]},"uniqueKeyPolicy":7,"defaultTtl":"x","changeFeedPolicy":[]}`,
		`{"query":7}`, `{"query":"SELECT 1","parameters":{}}`, `{"query":"SELECT 1","parameters":[7]}`, `{"query":"SELECT 1","resumeFilter":7}`,
		`[{"operationType":7}]`, `[7]`, `{"operations":7}`, `[{"op":7}]`, `{"content":7}`, `{"content":{"offerThroughput":"x"}}`, `{"permissionMode":7,"id":"p"}`,
		"\x80\x01", "\x81\xff\xff", `{"id":"1","pk":{}}`, `{"id":"1","id":"1"}`, "\xff",
		`{"id":"1","pk":"p","n":1e400}`, `{"id":"1","pk":1e400}`, `{"query":"SELECT @n","parameters":[{"name":"@n","value":[-0, 1e400]}]}`,
		`{"operations":[{"op":"set","path":"/n","value":1e400}]}`, `[{"operationType":"Create","resourceBody":{"id":"2","pk":"p","n":1e400}}]`,
		`{"id":"x","partitionKey":{"paths":["/a"]},"defaultTtl":1e400}`, `{"content":{"offerThroughput":1e400}}`, `{"query":"SELECT TOP @n * FROM c","parameters":[{"name":"@n","value":1e400}]}`,
	}
	hostile := []headers{nil, {wire.HeaderIsQuery: "true"}, {wire.HeaderBatch: "true"}, {wire.HeaderBatch: "true", wire.HeaderBatchAtomic: "true"}, {wire.HeaderQueryPlan: "true"}}
	for _, name := range []string{
		wire.HeaderPartitionKey, wire.HeaderMaxItemCount, wire.HeaderContinuation, wire.HeaderPartitionID, wire.HeaderStartEPK, "If-None-Match", "If-Modified-Since",
		wire.HeaderAIM, wire.HeaderOfferThroughput, wire.HeaderOfferAutopilot, wire.HeaderTokenExpiry, wire.HeaderSessionToken, wire.HeaderWireFormat, wire.HeaderVersion,
	} {
		hostile = append(hostile, headers{name: `{"maxThroughput":"x"}`}, headers{name: "["})
	}
	told := map[string]bool{}
	ids := []string{"shop", "orders", "1"}
	for _, op := range Operations() {
		path := op.Path
		for _, id := range ids {
			path = strings.Replace(path, "*", id, 1)
		}
		if strings.Contains(path, "users") {
			path = strings.Replace(path, "users/orders", "users/ada", 1)
		}
		if op.Method == "DELETE" && !strings.Contains(path, "/docs/") {
			continue // deletes what the others need
		}
		for _, h := range hostile {
			for _, body := range bodies {
				a := ts.do(op.Method, path, together(pk(`["p"]`), h), body)
				if a.status < 400 {
					continue
				}
				for _, word := range []string{"Go value", "Go struct", "server.", "engine.", "jsontext", "json:", "unmarshal", "strconv", "*errors", "goroutine", "float64", "int64"} {
					if text := strings.ReplaceAll(string(a.body), "by this server.", ""); !told[word+op.Method+op.Path] && strings.Contains(text, word) {
						t.Errorf("%s %s with %v and %q: %s", op.Method, path, h, body, a.body)
						told[word+op.Method+op.Path] = true
					}
				}
			}
		}
	}
}
