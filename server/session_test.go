package server

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// A session token ahead of the partition that serves a read is 404/1002. Every token that an
// answer of the server had stays good: also that of a parent, and one of several partitions.
func TestASessionTokenAheadOfTheServerIsRefused(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	for i := range 9 {
		put(t, c, `{"id":"%d","pk":"a"}`, i)
	}
	const docs, one, missing = "/dbs/shop/colls/orders/docs", "/dbs/shop/colls/orders/docs/1", "/dbs/shop/colls/orders/docs/none"
	session := func(token string) headers { return headers{wire.HeaderSessionToken: token} }
	ahead := func(token string, more ...headers) {
		t.Helper()
		h := together(append(more, session(token), pk(`["a"]`))...)
		ts.do("GET", one, h, "").want(404, 1002).wantBody("The read session is not available for the input session token.")
		ts.do("GET", missing, h, "").want(404, 1002)
		ts.do("GET", docs, h, "").want(404, 1002)
		ts.ask(h, "SELECT * FROM c").want(404, 1002)
		ts.read(session(token)).want(200) // the change feed has positions instead
	}
	fine := func(token string, more ...headers) {
		t.Helper()
		h := together(append(more, session(token), pk(`["a"]`))...)
		ts.do("GET", one, h, "").want(200)
		ts.do("GET", missing, h, "").want(404)
		ts.do("GET", docs, h, "").want(200)
		ts.ask(h, "SELECT * FROM c").want(200)
	}
	for _, form := range []string{"0:-1#%d", "0:%d", "0:7#%d#0=-1", "3:-1#1, 0:-1#%d"} {
		fine(fmt.Sprintf(form, 9))
		ahead(fmt.Sprintf(form, 10))
	}
	fine("0:-1#10", headers{wire.HeaderConsistency: "Eventual"})
	ahead("0:-1#10", headers{wire.HeaderConsistency: "session"})
	for _, other := range []string{"7:-1#999", "x", "0:x", ":", "0:-1#"} {
		fine(other)
	}

	live := split(t, c, "0")
	fine("0:-1#999") // the parent's; a client may not have learnt of the children
	end := ts.do("GET", one, pk(`["a"]`), "").want(200)
	child := end.header.Get("x-ms-documentdb-partitionkeyrangeid")
	fine(end.header.Get("x-ms-session-token"))
	ahead(child + ":-1#999")
	other := live[0].ID
	if other == child {
		other = live[1].ID
	}
	fine(other + ":-1#999") // not the partition that serves the request

	// An SDK may keep the token that it got with the container for the container's items.
	made := ts.do("POST", "/dbs/shop/colls", nil, `{"id":"new","partitionKey":{"paths":["/pk"],"kind":"Hash"}}`).want(201)
	listed := ts.do("GET", "/dbs/shop/colls", nil, "").want(200)
	for _, a := range []response{made, listed} {
		h := together(session(a.header.Get("x-ms-session-token")), pk(`["a"]`))
		ts.do("GET", "/dbs/shop/colls/new/docs", h, "").want(200)
		ts.do("GET", "/dbs/shop/colls/new/docs/1", h, "").want(404)
	}
}

// A page of documents or rows is of one physical partition, and so are its headers, also if the
// request covers several.
func TestAPageHasTheHeadersOfItsPartition(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withPartitions(3)
	for i := range 12 {
		put(t, c, `{"id":"%d","pk":"k%d","xs":[1,2]}`, i, i)
	}
	ends, err := c.Ends(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{} // the header of an item's partition, by its id
	for i := range 12 {
		id := strconv.Itoa(i)
		of[id] = ts.do("GET", orders+"/docs/"+id, pk(`["k`+id+`"]`), "").want(200).header.Get(wire.HeaderPartitionID)
	}
	check := func(a response, id string) {
		t.Helper()
		i := slices.IndexFunc(ends, func(p engine.PartitionEnd) bool { return p.ID == of[id] })
		a.want(200).wantHeader(wire.HeaderPartitionID, of[id]).wantHeader(wire.HeaderLSN, strconv.FormatInt(ends[i].End, 10)).
			wantHeader(wire.HeaderSessionToken, wire.SessionToken(of[id], ends[i].End))
	}
	for _, size := range []int{1, 3, 100} {
		for name, read := range map[string]func(headers) response{
			"documents": func(h headers) response { return ts.do("GET", orders+"/docs", h, "") },
			"rows":      func(h headers) response { return ts.ask(h, "SELECT c.id FROM c WHERE c.id != 'x'") },
			"joined":    func(h headers) response { return ts.ask(h, "SELECT c.id FROM c JOIN x IN c.xs") },
		} {
			pages, seen := 0, map[string]bool{}
			for token := ""; token != "" || pages == 0; pages++ {
				a := read(together(items(size), headers{wire.HeaderContinuation: token}))
				var page struct{ Documents []struct{ ID string } }
				if a.decode(&page); len(page.Documents) == 0 {
					t.Fatalf("%s by %d: page %d is empty", name, size, pages)
				}
				for _, d := range page.Documents {
					check(a, d.ID)
					seen[of[d.ID]] = true
				}
				token = a.header.Get(wire.HeaderContinuation)
			}
			if pages < 3 || len(seen) != 3 {
				t.Errorf("%s by %d: %d pages, partitions %v", name, size, pages, seen)
			}
		}
	}
	check(ts.ask(nil, "SELECT c.id FROM c WHERE c.id = '7'"), "7") // the partitions before have no such row
}

// A query without FROM reads no documents, but runs in a partition.
func TestAQueryWithoutASourceRunsInThePartitionThatIsSelected(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withPartitions(3)
	put(t, c, `{"id":"1","pk":"a"}`)
	one := ts.do("GET", orders+"/docs/1", pk(`["a"]`), "").want(200)
	for _, id := range []string{"0", "1", "2"} {
		ts.ask(inRange(id), "SELECT 1").want(200).wantHeader(wire.HeaderPartitionID, id)
	}
	ts.ask(pk(`["a"]`), "SELECT 1").want(200).wantHeader(wire.HeaderPartitionID, one.header.Get(wire.HeaderPartitionID)).
		wantHeader(wire.HeaderSessionToken, one.header.Get(wire.HeaderSessionToken))
	ts.ask(nil, "SELECT 1").want(200).wantHeader(wire.HeaderPartitionID, "0")
	ts.ask(inRange("77"), "SELECT 1").want(410, 1002)
}
