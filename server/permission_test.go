package server

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/store"
)

const ada = "/dbs/shop/users/ada"

// permissionJSON returns the JSON of a permission. key is the JSON of a partition key, or
// empty.
func permissionJSON(id, mode, resource, key string) string {
	if key != "" {
		key = `,"resourcePartitionKey":` + key
	}
	return fmt.Sprintf(`{"id":%q,"permissionMode":%q,"resource":%q%s}`, id, mode, resource, key)
}

func TestUsersAreCreatedReadListedRenamedAndDeleted(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	created := ts.do("POST", "/dbs/shop/users", nil, `{"id":"ada"}`).want(201).object()
	rid, ok := created["_rid"].(string)
	bytes, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(rid, "-", "/"))
	if !ok || err != nil || len(bytes) != 8 || bytes[4]&0x80 != 0 {
		t.Errorf("a user's _rid is 8 bytes, the fifth without its top bit, and not %q", rid)
	}
	d := ts.do("GET", "/dbs/shop", nil, "").want(200).object()
	if self := fmt.Sprintf("dbs/%s/users/%s/", d["_rid"], rid); created["_self"] != self || created["_permissions"] != "permissions/" {
		t.Errorf("%v, want the _self %s", created, self)
	}
	ts.do("POST", "/dbs/shop/users", nil, `{"id":"ada"}`).want(409)
	ts.do("POST", "/dbs/shop/users", headers{wire.HeaderUpsert: "true"}, `{"id":"ada"}`).want(200).wantBody(rid)
	ts.do("POST", "/dbs/shop/users", headers{wire.HeaderUpsert: "true"}, `{"id":"bob"}`).want(201)
	ts.do("POST", "/dbs/shop/users", nil, `{}`).want(400)
	ts.do("POST", "/dbs/shop/users", nil, `{"id":"a/b"}`).want(400)
	ts.do("POST", "/dbs/none/users", nil, `{"id":"ada"}`).want(404, wire.SubNone)

	read := ts.do("GET", ada, nil, "").want(200)
	ts.do("GET", ada, headers{"If-None-Match": read.header.Get("Etag")}, "").want(304)
	ts.do("GET", "/dbs/shop/users/"+rid, nil, "").want(200).wantBody(`"id":"ada"`)
	ts.do("GET", fmt.Sprintf("/dbs/%s/users/%s", d["_rid"], rid), nil, "").want(200).wantBody(`"id":"ada"`)
	list := ts.do("GET", "/dbs/shop/users", nil, "").want(200).object()
	if all, _ := list["Users"].([]any); len(all) != 2 || list["_count"] != 2.0 || list["_rid"] != d["_rid"] {
		t.Errorf("the list is %v", list)
	}
	ts.do("POST", "/dbs/shop/users", queryHeaders(), `{"query":"SELECT * FROM c WHERE c.id = \"bob\""}`).want(200).wantBody(`"_count":1`)

	ts.do("PUT", ada, headers{"If-Match": `"other"`}, `{"id":"ada"}`).want(412)
	ts.must("POST", ada+"/permissions", nil, permissionJSON("p", "Read", "dbs/shop/colls/orders", ""))
	ts.do("PUT", ada, nil, `{"id":"bob"}`).want(409)
	ts.do("PUT", ada, nil, `{"id":"lovelace"}`).want(200).wantBody(rid)
	ts.do("GET", ada, nil, "").want(404)
	ts.do("GET", "/dbs/shop/users/lovelace/permissions/p", nil, "").want(200)
	ts.do("DELETE", "/dbs/shop/users/lovelace", headers{"If-Match": `"other"`}, "").want(412)
	ts.do("DELETE", "/dbs/shop/users/lovelace", nil, "").want(204)
	ts.do("DELETE", "/dbs/shop/users/lovelace", nil, "").want(404)
	ts.do("GET", "/dbs/shop/users/lovelace/permissions/p", nil, "").want(404, wire.SubNone)
}

func TestPermissionsAreCreatedReadListedReplacedAndDeletedAndEachAnswerHasAToken(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	const link = "dbs/shop/colls/orders"
	token := func(a response, mode string) {
		t.Helper()
		p := a.object()
		text, _ := p["_token"].(string)
		if !strings.HasPrefix(text, "type=resource&ver=1&sig=") || !strings.HasSuffix(text, ";") || strings.Count(text, ";") != 2 {
			t.Errorf("%s: the token is %q", a.what, text)
		}
		if p["permissionMode"] != mode || p["resource"] != link {
			t.Errorf("%s: %v", a.what, p)
		}
	}
	p := ts.do("POST", ada+"/permissions", nil, permissionJSON("p", "read", link, "")).want(201)
	token(p, "Read")
	rid := p.object()["_rid"].(string)
	if u := ts.do("GET", ada, nil, "").object(); p.object()["_self"] != fmt.Sprintf("%spermissions/%s/", u["_self"], rid) || len(rid) != 24 {
		t.Errorf("the permission is %s", p.body)
	}
	token(ts.do("GET", ada+"/permissions/p", nil, "").want(200), "Read")
	token(ts.do("GET", ada+"/permissions/"+rid, nil, "").want(200), "Read")
	token(ts.do("POST", ada+"/permissions", headers{wire.HeaderUpsert: "true"}, permissionJSON("p", "All", link, "")).want(200), "All")
	token(ts.do("PUT", ada+"/permissions/p", nil, permissionJSON("q", "Read", link, "")).want(200), "Read")
	ts.do("GET", ada+"/permissions/p", nil, "").want(404)
	ts.must("POST", ada+"/permissions", headers{wire.HeaderUpsert: "true"}, permissionJSON("key", "All", link, `["x"]`))
	var list struct {
		Permissions []struct {
			ID    string `json:"id"`
			Token string `json:"_token"`
		}
	}
	ts.do("GET", ada+"/permissions", nil, "").want(200).decode(&list)
	if len(list.Permissions) != 2 || list.Permissions[0].ID != "key" || list.Permissions[1].Token == "" {
		t.Errorf("the list is %+v", list)
	}
	ts.do("POST", ada+"/permissions", queryHeaders(), `{"query":"SELECT * FROM c WHERE c.permissionMode = 'All'"}`).want(200).wantBody(`"_count":1`)
	etag := ts.do("GET", ada+"/permissions/q", nil, "").header.Get("Etag")
	ts.do("DELETE", ada+"/permissions/q", headers{"If-Match": `"other"`}, "").want(412)
	ts.do("PUT", ada+"/permissions/q", headers{"If-Match": `"other"`}, permissionJSON("q", "Read", link, "")).want(412)
	ts.do("DELETE", ada+"/permissions/q", headers{"If-Match": etag}, "").want(204)
	ts.do("DELETE", ada+"/permissions/q", nil, "").want(404)
	ts.do("PUT", ada+"/permissions/q", nil, permissionJSON("q", "Read", link, "")).want(404)
}

func TestInvalidPermissionsAreRefusedByName(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs", nil, `{"id":"second"}`)
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	const link = "dbs/shop/colls/orders"
	ts.must("POST", ada+"/permissions", nil, permissionJSON("there", "Read", link, `"x"`))
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		`{"permissionMode":"All","resource":"` + link + `"}`:            {400, "no id"},
		permissionJSON("a/b", "All", link, ""):                          {400, "a/b"},
		`{"id":"p","resource":"` + link + `"}`:                          {400, "permissionMode is missing"},
		permissionJSON("p", "Write", link, ""):                          {400, "Read or All"},
		`{"id":"p","permissionMode":"All"}`:                             {400, "no resource"},
		permissionJSON("p", "All", "dbs/shop/colls", ""):                {400, "the link of a database"},
		permissionJSON("p", "All", link+"/sprocs/s", ""):                {400, "stored procedures"},
		permissionJSON("p", "All", "dbs/second", ""):                    {400, "is not in the user's database"},
		permissionJSON("p", "All", "dbs/shop", `["x"]`):                 {400, "cannot have a resourcePartitionKey"},
		permissionJSON("p", "All", link, `["x","y"]`):                   {400, "has 2 values"},
		permissionJSON("p", "All", link, `{"x":1}`):                     {400, "not a partition key"},
		permissionJSON("p", "All", link, `[]`):                          {400, "is [], which names no key"},
		permissionJSON("p", "All", link, ` [ ]`):                        {400, "is [], which names no key"},
		permissionJSON("p", "All", link+"/docs/a", `[]`):                {400, "is [], which names no key"},
		permissionJSON("p", "All", "dbs/shop/colls/none", ""):           {404, "Resource Not Found"},
		permissionJSON("there", "All", link, ""):                        {409, "already has a permission there"},
		permissionJSON("p", "All", link, `["x"]`):                       {409, "already has a permission for that resource"},
		permissionJSON("p", "All", "/dbs/shop/colls/orders/", `[ "x"]`): {409, "already has a permission for that resource and partition key: there"},
	} {
		ts.do("POST", ada+"/permissions", nil, body).want(want.status).wantBody(want.text)
	}
	for _, seconds := range []string{"9", "18001", "-1", "x", "1e3"} {
		h := headers{wire.HeaderTokenExpiry: seconds}
		ts.do("POST", ada+"/permissions", h, permissionJSON("p", "All", link, "")).want(400).wantBody("10 to 18000")
		ts.do("GET", ada+"/permissions/there", h, "").want(400)
	}
	ts.do("POST", "/dbs/shop/users/none/permissions", nil, permissionJSON("p", "All", link, "")).want(404, wire.SubNone)
	ts.do("GET", ada+"/permissions/p", nil, "").want(404)
}

// A permission with the key [{}] must cover the documents without a key and no others. A
// stored key that cannot be parsed must cover no documents.
func TestAPermissionForNoKeyDoesNotReachTheOthers(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	ts.must("POST", orders+"/docs", pk(`[{}]`), `{"id":"none"}`)
	ts.must("POST", orders+"/docs", pk(`["x"]`), `{"id":"x","pk":"x"}`)
	token := ts.token("p", "All", "dbs/shop/colls/orders", `[{}]`)
	for _, none := range []string{`[{}]`, `[]`} {
		ts.withToken("GET", orders+"/docs/none", token, pk(none), "").want(200)
		ts.withToken("GET", orders+"/docs", token, pk(none), "").want(200).wantHeader(wire.HeaderItemCount, "1")
	}
	ts.withToken("GET", orders+"/docs/x", token, pk(`["x"]`), "").want(403)
	ts.withToken("GET", orders+"/docs", token, nil, "").want(403)
	for _, text := range []string{`[`, `x`} {
		for _, key := range []feed.PartitionKey{nil, {}, {feed.Undefined}, {"x"}} {
			if r := (permittedResource{Container: "c", Key: text}); r.covers(key) {
				t.Errorf("the key %s of a permission covers %v", text, key)
			}
		}
	}
}

func TestTooManyPermissionsOfAUserAreRefusedByName(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	long := strings.Repeat("x", 60_000)
	made := 0
	for {
		a := ts.do("POST", ada+"/permissions", nil, permissionJSON(fmt.Sprint(made), "Read", "dbs/shop/colls/orders", fmt.Sprintf("[%q]", long+fmt.Sprint(made))))
		if a.status != http.StatusCreated {
			a.want(413).wantBody("give further ones to another user")
			break
		}
		made++
	}
	if made < 2 {
		t.Errorf("only %d permissions fit", made)
	}
	ts.do("GET", ada+"/permissions", nil, "").want(200).wantBody(fmt.Sprintf(`"_count":%d`, made))
}

// Sixteen clients each create a permission of one user at the same time. All sixteen must
// exist afterwards.
func TestConcurrentlyCreatedPermissionsAllExist(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	var makers sync.WaitGroup
	for i := range 16 {
		makers.Go(func() {
			ts.do("POST", ada+"/permissions", nil, permissionJSON(fmt.Sprint(i), "Read", "dbs/shop/colls/orders", fmt.Sprintf("[%d]", i)))
		})
	}
	makers.Wait()
	ts.do("GET", ada+"/permissions", nil, "").want(200).wantBody(`"_count":16`)
}

func TestUsersPermissionsAndTokensSurviveARestart(t *testing.T) {
	fs := vfs.NewMem()
	open := func() (*testServer, func()) {
		db, err := engine.Open("db", engine.Options{FS: fs, PurgeInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New((*store.DB)(db), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return &testServer{Server: s, t: t, db: db, key: s.keys[0].key}, func() {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	ts, end := open()
	ts.withOrders().must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	token := ts.token("p", "All", "dbs/shop/colls/orders", "")
	end()
	ts, end = open()
	defer end()
	ts.do("GET", ada+"/permissions/p", nil, "").want(200)
	ts.withToken("POST", orders+"/docs", token, pk(`["x"]`), `{"id":"1","pk":"x"}`).want(201)
}

func TestAKeyThatMayOnlyReadSeesUsersAndNoTokens(t *testing.T) {
	ts := newTestServer(t, Options{ReadOnlyKeys: []string{readerKey}}).withOrders()
	ts.must("POST", "/dbs/shop/users", nil, `{"id":"ada"}`)
	ts.must("POST", ada+"/permissions", nil, permissionJSON("p", "All", "dbs/shop/colls/orders", ""))
	var err error
	if ts.key, err = wire.ParseKey(readerKey); err != nil {
		t.Fatal(err)
	}
	ts.do("GET", ada, nil, "").want(200)
	for _, path := range []string{ada + "/permissions", ada + "/permissions/p"} {
		a := ts.do("GET", path, nil, "").want(403)
		if strings.Contains(string(a.body), "sig=") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	ts.do("POST", ada+"/permissions", queryHeaders(), `{"query":"SELECT * FROM c"}`).want(403)
}
