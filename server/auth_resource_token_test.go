package server

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// token creates a permission of the user ada and returns the resource token in the
// answer. key is the partition key as JSON, or empty.
func (ts *testServer) token(id, mode, resource, key string) string {
	ts.t.Helper()
	p := ts.must("POST", ada+"/permissions", nil, permissionJSON(id, mode, resource, key)).object()
	token, _ := p["_token"].(string)
	return token
}

// scoped is a server with resource tokens for a database, a container, a key, an item and
// so on. Each has a letter in tokens: upper case for the mode All, lower case for Read.
type scoped struct {
	*recorded
	tokens map[byte]string
	// rids holds the rid of the database shop, and the rid of its container orders.
	rids [2]string
}

// newScoped returns a server with the user ada, some documents, and the tokens of scoped.
// After that, its operations are only recorded and not carried out.
func newScoped(t testing.TB) *scoped {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/colls", nil, `{"id":"others","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`)
	ts.must("POST", "/dbs/shop/colls", nil, `{"id":"levels","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}}`)
	ts.must("POST", "/dbs", nil, `{"id":"second"}`)
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	ts.must("POST", orders+"/docs", pk(`["pa"]`), `{"id":"a","pk":"pa"}`)
	s := &scoped{recorded: &recorded{testServer: ts}, tokens: map[byte]string{}}
	s.rids[0] = ts.do("GET", "/dbs/shop", nil, "").object()["_rid"].(string)
	s.rids[1] = ts.do("GET", orders, nil, "").object()["_rid"].(string)
	for letter, of := range map[byte][2]string{
		'D': {"dbs/shop", ""}, 'C': {"dbs/shop/colls/orders", ""}, 'K': {"dbs/shop/colls/orders", `["pa"]`},
		'I': {"dbs/shop/colls/orders/docs/a", `["pa"]`}, 'P': {"dbs/shop/colls/levels", `["x"]`},
	} {
		s.tokens[letter] = ts.token("all"+string(letter), "All", of[0], of[1])
		ts.must("POST", "/dbs/shop/users", headers{wire.HeaderUpsert: "true"}, `{"id":"bob"}`)
		p := ts.must("POST", "/dbs/shop/users/bob/permissions", nil, permissionJSON("read"+string(letter), "Read", of[0], of[1])).object()
		s.tokens[letter|0x20], _ = p["_token"].(string)
	}
	for _, routes := range s.routes {
		for i := range routes {
			op := routes[i].op
			routes[i].serve = func(x *request) error {
				s.reached = append(s.reached, op)
				return x.sendEmpty(http.StatusNoContent)
			}
		}
	}
	return s
}

// Each row lists the tokens that permit one operation; every other token must be refused.
// The letters are D (database), C (container), K (partition key), I (item) and P (prefix
// of a key in another container). Upper case means the mode All, lower case Read. The
// rows cover every operation that a token can permit.
func TestEachScopeOfATokenReachesItsOperationsAndNoOthers(t *testing.T) {
	s := newScoped(t)
	batch := func(h headers, atomic string) headers {
		return h.with(wire.HeaderBatch, "true").with(wire.HeaderBatchAtomic, atomic)
	}
	upsert := headers{wire.HeaderUpsert: "true"}
	feed := headers{wire.HeaderAIM: wire.AIMIncremental}
	plan := headers{wire.HeaderQueryPlan: "True"}
	pa, pb := pk(`["pa"]`), pk(`["pb"]`)
	key := func(h, by headers) headers {
		h = h.with(wire.HeaderPartitionKey, by[wire.HeaderPartitionKey])
		return h
	}
	const levels, byRID = "/dbs/shop/colls/levels", "RID"
	seen := map[string]bool{}
	for _, row := range []struct {
		method, path string
		h            headers
		allowed      string
	}{
		{"GET", "/", nil, "DdCcKkIiPp"},
		{"GET", "/dbs", nil, ""},
		{"POST", "/dbs", queryHeaders(), ""},
		{"POST", "/dbs", nil, ""},
		{"GET", "/dbs/shop", nil, "Dd"},
		{"GET", "/dbs/second", nil, ""},
		{"DELETE", "/dbs/shop", nil, "D"},
		{"GET", "/dbs/shop/colls", nil, "Dd"},
		{"POST", "/dbs/shop/colls", queryHeaders(), "Dd"},
		{"POST", "/dbs/shop/colls", nil, "D"},
		{"POST", "/dbs/second/colls", nil, ""},
		{"GET", orders, nil, "DdCcKkIi"},
		{"GET", byRID, nil, "DdCcKkIi"},
		{"GET", levels, nil, "DdPp"},
		{"GET", "/dbs/shop/colls/others", nil, "Dd"},
		{"GET", "/dbs/shop/colls/none", nil, "Dd"},
		{"GET", "/dbs/none/colls/orders", nil, ""},
		{"PUT", orders, nil, "DC"},
		{"DELETE", orders, nil, "DC"},
		{"GET", orders + "/pkranges", nil, "DdCcKkIi"},
		{"GET", byRID + "/pkranges", nil, "DdCcKkIi"},
		{"GET", orders + "/docs", nil, "DdCc"},
		{"GET", orders + "/docs", pa, "DdCcKk"},
		{"GET", orders + "/docs", pb, "DdCc"},
		{"GET", orders + "/docs", feed, "DdCc"},
		{"GET", orders + "/docs", key(feed, pa), "DdCcKk"},
		{"GET", orders + "/docs", key(feed, pb), "DdCc"},
		{"POST", orders + "/docs", plan, "DdCcKkIi"},
		{"POST", orders + "/docs", queryHeaders(), "DdCc"},
		{"POST", orders + "/docs", key(queryHeaders(), pa), "DdCcKk"},
		{"POST", orders + "/docs", key(queryHeaders(), pb), "DdCc"},
		{"POST", byRID + "/docs", key(queryHeaders(), pa), "DdCcKk"},
		{"POST", "/dbs/shop/colls/others/docs", key(queryHeaders(), pa), "Dd"},
		{"POST", orders + "/docs", batch(nil, "true"), "DdCc"},
		{"POST", orders + "/docs", batch(pa, "true"), "DdCcKk"},
		{"POST", orders + "/docs", batch(pb, "true"), "DdCc"},
		{"POST", orders + "/docs", batch(nil, "false"), "DdCcKk"}, // accepted as a whole; each of its operations is checked when it runs
		// A request may have the headers of several operations. The token is checked for
		// the operation that is carried out, and the other headers permit nothing.
		{"GET", orders + "/docs", plan, "DdCc"},
		{"GET", orders + "/docs", plan.with(wire.HeaderAIM, wire.AIMIncremental), "DdCc"},
		{"GET", orders + "/docs", batch(nil, "false"), "DdCc"},
		{"GET", orders + "/docs", batch(feed, "false"), "DdCc"},
		{"GET", orders + "/docs/b", plan.with(wire.HeaderPartitionKey, `["pb"]`), "DdCc"},
		{"POST", orders + "/docs", batch(plan, "true"), "DdCc"},
		{"POST", orders + "/docs", batch(key(plan, pb), "true"), "DdCc"},
		{"POST", orders + "/docs", batch(plan, "false"), "DdCcKk"},
		{"POST", orders + "/docs", upsert, "DC"},
		{"POST", orders + "/docs", key(upsert, pa), "DCK"},
		{"POST", orders + "/docs", pa, "DCK"},
		{"POST", orders + "/docs", pb, "DC"},
		{"POST", orders + "/docs", nil, "DC"},
		{"GET", orders + "/docs/a", pa, "DdCcKkIi"},
		{"GET", byRID + "/docs/a", pa, "DdCcKkIi"},
		{"GET", orders + "/docs/a", pb, "DdCc"},
		{"GET", orders + "/docs/a", nil, "DdCc"},
		{"GET", byRID + "/docs/a", nil, "DdCc"},
		{"GET", orders + "/docs/b", pa, "DdCcKk"},
		{"GET", "/dbs/shop/colls/others/docs/a", pa, "Dd"},
		{"PUT", orders + "/docs/a", pa, "DCKI"},
		{"PATCH", orders + "/docs/a", pa, "DCKI"},
		{"DELETE", orders + "/docs/a", pa, "DCKI"},
		{"DELETE", orders + "/docs/a", pb, "DC"},
		{"DELETE", orders + "/docs/b", pa, "DCK"},
		{"GET", levels + "/docs/a", pk(`["x","y"]`), "DdPp"},
		{"GET", levels + "/docs/a", pk(`["y","x"]`), "Dd"},
		{"POST", levels + "/docs", key(queryHeaders(), pk(`["x"]`)), "DdPp"},
		{"POST", levels + "/docs", key(queryHeaders(), pk(`["y"]`)), "Dd"},
		{"POST", levels + "/docs", key(queryHeaders(), pk(`[]`)), "Dd"},
		{"POST", levels + "/docs", pk(`["x","y"]`), "DP"},
	} {
		path := strings.Replace(row.path, byRID, "/dbs/"+s.rids[0]+"/colls/"+s.rids[1], 1)
		for letter, token := range s.tokens {
			h := row.h.with("Authorization", url.QueryEscape(token)).with(wire.HeaderDate, "")
			status, reached := s.try(s.request(row.method, path, h, ""))
			for _, op := range reached {
				seen[op] = true
			}
			want := http.StatusForbidden
			if strings.IndexByte(row.allowed, letter) >= 0 {
				want = http.StatusNoContent
			}
			if status != want || len(reached) > 0 != (want == http.StatusNoContent) {
				t.Errorf("%s %s %v with token %c: %d, reached %v", row.method, path, row.h, letter, status, reached)
			}
		}
	}
	s.checkTheRestIsRefused(seen)
}

// checkTheRestIsRefused sends the requests for all operations not in seen, with each
// token. All must be refused.
func (s *scoped) checkTheRestIsRefused(seen map[string]bool) {
	refused := 0
	for _, c := range s.calls() {
		if seen[c.op] {
			continue
		}
		refused++
		for letter, token := range s.tokens {
			path := strings.Replace(strings.Replace(c.path, "/dbs/an%20id", "/dbs/shop", 1), "/colls/an%20id", "/colls/orders", 1)
			status, reached := s.try(s.request(c.method, path, c.h.with("Authorization", url.QueryEscape(token)), ""))
			if status != http.StatusForbidden || len(reached) > 0 {
				s.t.Errorf("%s with token %c: %d, reached %v", c, letter, status, reached)
			}
		}
	}
	if refused < 20 {
		s.t.Errorf("only %d operations were refused", refused)
	}
}

// A batch contains operations on permitted and on other partition keys. Only those on
// permitted keys may be carried out, although the batch as a whole is accepted.
func TestTokensAreCheckedForEveryOperationOfABatch(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"there","pk":"p"}`)
	ts.must("POST", orders+"/docs", pk(`["q"]`), `{"id":"there","pk":"q"}`)
	all := ts.token("all", "All", "dbs/shop/colls/orders", `["p"]`)
	op := func(kind, key, id string) string {
		return fmt.Sprintf(`{"operationType":%q,"partitionKey":"[\"%s\"]","id":%q,"resourceBody":{"id":%q,"pk":%q}}`, kind, key, id, id, key)
	}
	body := "[" + op("Read", "p", "there") + "," + op("Read", "q", "there") + "," + op("Upsert", "q", "mine") + "," + op("Upsert", "p", "mine") +
		`,{"operationType":"Upsert","resourceBody":{"id":"mine","pk":"q"}}` + "]"
	var results []struct{ StatusCode int }
	ts.withToken("POST", orders+"/docs", all, inBulk.with(wire.HeaderBatchContinueOnError, "true"), body).decode(&results)
	var statuses []int
	for _, r := range results {
		statuses = append(statuses, r.StatusCode)
	}
	if !slices.Equal(statuses, []int{200, 403, 403, 201, 403}) {
		t.Errorf("the operations had the statuses %v", statuses)
	}
	ts.do("GET", orders+"/docs/mine", pk(`["q"]`), "").want(404)
	// A transaction writes all documents under the key in its header. So a document with
	// another key must not be written.
	ts.withToken("POST", orders+"/docs", all, transaction.with(wire.HeaderPartitionKey, `["p"]`), "["+op("Upsert", "q", "sly")+"]")
	ts.do("GET", orders+"/docs/sly", pk(`["q"]`), "").want(404)

	ts.must("DELETE", ada+"/permissions/all", nil, "")
	read := ts.token("read", "Read", "dbs/shop/colls/orders", `["p"]`)
	for _, h := range []headers{inBulk, transaction.with(wire.HeaderPartitionKey, `["p"]`)} {
		ts.withToken("POST", orders+"/docs", read, h, "["+op("Read", "p", "there")+"]").want(200)
		ts.withToken("POST", orders+"/docs", read, h, "["+op("Read", "p", "there")+","+op("Delete", "p", "there")+"]").want(403)
	}
	ts.do("GET", orders+"/docs/there", pk(`["p"]`), "").want(200)
}

func TestTokenOfAPartitionKeySeesOnlyItsDocuments(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	for _, key := range []string{"p", "q"} {
		ts.must("POST", orders+"/docs", pk(`["`+key+`"]`), `{"id":"of `+key+`","pk":"`+key+`"}`)
	}
	token := ts.token("p", "All", "dbs/shop/colls/orders", `["p"]`)
	query := queryHeaders().with(wire.HeaderPartitionKey, `["p"]`)
	for what, a := range map[string]response{
		"query":       ts.withToken("POST", orders+"/docs", token, query, `{"query":"SELECT * FROM c WHERE c.pk = 'q' OR true"}`),
		"read feed":   ts.withToken("GET", orders+"/docs", token, pk(`["p"]`), ""),
		"change feed": ts.withToken("GET", orders+"/docs", token, pk(`["p"]`).with(wire.HeaderAIM, wire.AIMIncremental), ""),
		"whole range": ts.withToken("GET", orders+"/docs", token, pk(`["p"]`).with(wire.HeaderStartEPK, "").with(wire.HeaderEndEPK, "FF"), ""),
	} {
		a.want(200).wantBody("of p").wantBody(`"_count":1`)
		if strings.Contains(string(a.body), "of q") {
			t.Errorf("%s: %s", what, a.body)
		}
	}
	// A WHERE clause that names a key or an ID makes the server read those documents
	// directly. The token must limit such reads, too.
	for _, where := range []string{"c.pk = 'q'", "c.pk IN ('q', 'p') AND c.id = 'of q'", "c.id = 'of q'", "STARTSWITH(c.id, 'of q')"} {
		body := `{"query":"SELECT * FROM c WHERE ` + where + `"}`
		ts.withToken("POST", orders+"/docs", token, query, body).want(200).wantBody(`"_count":0`)
		ts.withToken("POST", orders+"/docs", token, query, strings.Replace(body, "*", "VALUE COUNT(1)", 1)).want(200).wantBody(`"Documents":[0]`)
	}
	ts.withToken("POST", orders+"/docs", token, pk(`["p"]`), `{"id":"1","pk":"q"}`).want(400, wire.SubPartitionKeyMismatch)
}

// A token of a whole hierarchical key must not reach other keys that begin like it, nor the
// prefix that they share.
func TestTokenOfAHierarchicalKeyReachesNoOtherKeyOfItsPrefix(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	const levels = "/dbs/shop/colls/levels"
	ts.must("POST", "/dbs/shop/colls", nil, `{"id":"levels","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}}`)
	for _, b := range []string{"y", "z"} {
		ts.must("POST", levels+"/docs", pk(`["x","`+b+`"]`), `{"id":"1","a":"x","b":"`+b+`"}`)
	}
	token := ts.token("xy", "All", "dbs/shop/colls/levels", `["x","y"]`)
	for key, want := range map[string]int{`["x","y"]`: http.StatusOK, `["x","z"]`: http.StatusForbidden, `["w","y"]`: http.StatusForbidden} {
		ts.withToken("GET", levels+"/docs/1", token, pk(key), "").want(want)
	}
	for key, want := range map[string]int{`["x","y"]`: http.StatusOK, `["x"]`: http.StatusForbidden} {
		ts.withToken("POST", levels+"/docs", token, queryHeaders().with(wire.HeaderPartitionKey, key), `{"query":"SELECT * FROM c"}`).want(want)
	}
}

func TestTokenExpiresAndNeedsNoDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}).withOrders()
		ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
		usual := ts.token("p", "All", "dbs/shop/colls/orders", "")
		of := func(seconds string) string {
			token, _ := ts.must("GET", ada+"/permissions/p", headers{wire.HeaderTokenExpiry: seconds}, "").object()["_token"].(string)
			return token
		}
		lives := map[string]time.Duration{usual: time.Hour, of("10"): 10 * time.Second, of("18000"): 5 * time.Hour}
		began := time.Now()
		for _, token := range slices.SortedFunc(maps.Keys(lives), func(a, b string) int { return int(lives[a] - lives[b]) }) {
			time.Sleep(time.Until(began.Add(lives[token] - time.Second)))
			ts.withToken("GET", orders, token, headers{wire.HeaderDate: "Thu, 01 Jan 1970 00:00:00 GMT"}, "").want(200)
			time.Sleep(2 * time.Second)
			ts.withToken("GET", orders, token, nil, "").want(403).wantBody("Please create another token")
		}
	})
}

func TestTokenLosesItsRightsWithItsPermission(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	const link = "dbs/shop/colls/orders"
	read := func(token string) response { return ts.withToken("GET", orders+"/docs", token, nil, "") }
	write := func(token string) response {
		return ts.withToken("POST", orders+"/docs", token, pk(`["p"]`).with(wire.HeaderUpsert, "true"), `{"id":"1","pk":"p"}`)
	}
	old := ts.token("p", "Read", link, "")
	all, _ := ts.must("PUT", ada+"/permissions/p", nil, permissionJSON("p", "All", link, "")).object()["_token"].(string)
	write(all).want(201)
	read(old).want(200)
	write(old).want(403) // the token was made with the mode Read
	ts.must("PUT", ada+"/permissions/p", nil, permissionJSON("p", "Read", link, ""))
	read(all).want(200)
	write(all).want(403)
	ts.must("PUT", ada, nil, `{"id":"lovelace"}`)
	read(all).want(200)
	ts.must("PUT", "/dbs/shop/users/lovelace/permissions/p", nil, permissionJSON("p", "All", link, `["p"]`))
	read(all).want(403).wantBody("another resource")
	ts.must("PUT", "/dbs/shop/users/lovelace/permissions/p", nil, permissionJSON("p", "All", link, ""))
	write(all).want(200)

	ts.must("DELETE", "/dbs/shop/users/lovelace/permissions/p", nil, "")
	read(all).want(403).wantBody("deleted")
	ts.must("POST", "/dbs/shop/users/lovelace/permissions", nil, permissionJSON("p", "All", link, "")) // another permission of the same name, of a new user
	read(all).want(403)
	ts.must("DELETE", "/dbs/shop/users/lovelace", nil, "")
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	again := ts.token("p", "All", link, "")
	read(again).want(200)
	ts.must("DELETE", orders, nil, "")
	read(again).want(403)
	ts.must("POST", "/dbs/shop/colls", nil, `{"id":"orders","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`)
	read(again).want(403).wantBody("deleted")
	ts.must("DELETE", "/dbs/shop", nil, "")
	ts.withOrders().must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	ts.token("p", "All", link, "")
	read(again).want(403)
}

func TestTokenOfAnItemThatIsLinkedByItsRID(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	a := ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"a","pk":"p"}`).object()
	b := ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"b","pk":"p"}`).object()
	self := a["_self"].(string)
	token := ts.token("p", "All", self, "")
	ts.withToken("GET", "/"+self, token, pk(`["p"]`), "").want(200).wantBody(`"id":"a"`)
	ts.withToken("GET", orders+"/docs/a", token, pk(`["p"]`), "").want(200)
	ts.withToken("GET", orders+"/docs/a", token, pk(`["q"]`), "").want(403)
	ts.withToken("GET", "/"+b["_self"].(string), token, pk(`["p"]`), "").want(403)
	ts.withToken("GET", orders+"/docs/b", token, pk(`["p"]`), "").want(403)
	// The header names another key than the document with this rid. There the rid is only
	// an ID, and an item has that ID.
	rid := a["_rid"].(string)
	ts.must("POST", orders+"/docs", pk(`["q"]`), `{"id":"`+rid+`","pk":"q"}`)
	ts.do("GET", "/"+self, pk(`["q"]`), "").want(200).wantBody(`"pk":"q"`)
	for method, body := range map[string]string{"GET": "", "PUT": `{"id":"` + rid + `","pk":"q","sly":true}`, "PATCH": `[{"op":"set","path":"/sly","value":true}]`, "DELETE": ""} {
		ts.withToken(method, "/"+self, token, pk(`["q"]`), body).want(403)
	}
	ts.withToken("GET", "/"+self, token, pk(`["p"]`), "").want(200).wantBody(`"id":"a"`)
	ts.withToken("DELETE", "/"+self, token, pk(`["p"]`), "").want(204)
}

func TestTokenIsAcceptedInEveryFormThatSDKsWrite(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	for i := range 20 { // enough tokens that some signatures contain + and /
		token := ts.token(fmt.Sprint(i), "Read", "dbs/shop/colls/orders", fmt.Sprintf("[%d]", i))
		// .NET writes the hexadecimal digits of percent escapes in lower case.
		dotnet := regexp.MustCompile("%[0-9A-F]{2}").ReplaceAllStringFunc(url.QueryEscape(token), strings.ToLower)
		for _, header := range []string{token, url.QueryEscape(token), dotnet, strings.ReplaceAll(url.PathEscape(token), "&", "%26")} {
			ts.withToken("GET", orders, header, headers{wire.HeaderDate: ""}, "").want(200)
		}
	}
}

func TestAdminAPIAndForeignTokensAreRefused(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	token := ts.token("p", "All", "dbs/shop", "")
	for _, route := range ts.adminTable() {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), route.method, "/"+adminPrefix+"/"+strings.ReplaceAll(route.pattern, "*", "0"), strings.NewReader("{}"))
		r.Header.Set("Authorization", token)
		if ts.ServeHTTP(w, r); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", route.op, w.Code)
		}
	}
	stranger := newTestServer(t, Options{Keys: []string{"b3RoZXIga2V5"}, ReadOnlyKeys: []string{wire.EmulatorKey}}).withOrders()
	stranger.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	stranger.token("p", "All", "dbs/shop", "")
	stranger.withToken("GET", orders, token, nil, "").want(401).wantBody("key of this account")
}

// FuzzForgedResourceTokenIsRefused modifies the text of a valid token. A text with other
// claims or another signature must be refused.
func FuzzForgedResourceTokenIsRefused(f *testing.F) {
	ts := newTestServer(f, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	_, made, _ := strings.Cut(ts.token("p", "Read", "dbs/shop/colls/orders", `["p"]`), "sig=")
	// The times in the token are constants. Otherwise the fuzz inputs of one process
	// would have other tokens in the next process.
	own, err := ts.parseToken(made)
	if err != nil {
		f.Fatal(err)
	}
	own.From, own.Until = 0, 1<<40
	_, signature, _ := strings.Cut(ts.signClaims(own), "sig=")
	f.Add(signature)
	f.Add(signature[:len(signature)-1])
	f.Add(strings.Replace(signature, ";", ";A", 1))
	f.Add(";;")
	f.Add("AAAA;AQAAAAEAAAABAAAAAQEAAAAAAAAAAP////////////////////8=;")
	f.Fuzz(func(t *testing.T, text string) {
		inner := *ts
		inner.t = t
		r := inner.request("GET", orders, headers{"Authorization": "x"}, "")
		r.Header.Set("Authorization", "type=resource&ver=1&sig="+text)
		w := httptest.NewRecorder()
		ts.ServeHTTP(w, r)
		// Several base64 texts decode to the same bytes, because the last digit has
		// unused bits. Each of these texts is a valid token.
		claimed, err := ts.parseToken(text)
		switch {
		case err == nil && claimed != own:
			t.Errorf("%q is taken for a token with other claims: %+v", text, claimed)
		case err != nil && w.Code != http.StatusUnauthorized:
			t.Errorf("%q is answered with %d", text, w.Code)
		}
	})
}

// FuzzClaimsAreEncodedAsTheyWereDecoded decodes random bytes as claims. Encoding the
// claims must return the same bytes. Bytes of another length must be refused.
func FuzzClaimsAreEncodedAsTheyWereDecoded(f *testing.F) {
	f.Add([]byte{})
	f.Add(claims{Version: claimsVersion, Database: [4]byte{3: 1}, User: 1, Permission: 2, All: 1, From: 1, Until: 2}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok := decodeClaims(b)
		if ok && string(c.encode()) != string(b) {
			t.Errorf("%x is read as %+v, which is written as %x", b, c, c.encode())
		}
	})
}
