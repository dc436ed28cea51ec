package server

import (
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// A client continues a list with the continuation of another list. It must be refused.
// Otherwise the client would start at an arbitrary position and miss the items before it.
func TestReadingResumesOnlyFromAContinuationOfTheSameList(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withItems(1, 10, 1)
	for _, id := range []string{"other", "third"} {
		ts.must("POST", "/dbs/shop/colls", headers{"x-ms-offer-throughput": "400"}, `{"id":"`+id+`","partitionKey":{"paths":["/pk"]}}`)
	}
	ts.must("POST", "/dbs", nil, `{"id":"another"}`)
	const other = "/dbs/shop/colls/other"
	for range 3 {
		ts.must("POST", other+"/docs", pk(`["k"]`), `{"id":"`+newGUID()+`","pk":"k"}`)
	}
	lists := []string{orders + "/docs", other + "/docs", "/dbs", "/dbs/shop/colls", "/offers"}
	tokens := map[string]string{}
	for _, list := range lists {
		token := ts.do("GET", list, items(1), "").want(200).header.Get(wire.HeaderContinuation)
		if token == "" {
			t.Fatalf("%s: no continuation", list)
		}
		tokens[list] = token
	}
	for _, list := range lists {
		ts.do("GET", list, items(1).with(wire.HeaderContinuation, tokens[list]), "").want(200).wantHeader(wire.HeaderItemCount, "1")
		refused := func(token string) {
			t.Helper()
			ts.do("GET", list, items(1).with(wire.HeaderContinuation, token), "").want(400).wantText("Invalid Continuation Token")
		}
		for _, token := range []string{"garbage", "null", "-1", "AA", "~", "%%", tokens[list] + "A"} {
			refused(token)
		}
		for cut := 1; cut < len(tokens[list]); cut++ {
			refused(tokens[list][:cut])
		}
		for of, token := range tokens {
			if of != list {
				refused(token)
			}
		}
	}
	scan := ts.ask(items(1), "SELECT * FROM c").want(200).header.Get(wire.HeaderContinuation)
	for cut := 1; cut < len(scan); cut++ {
		ts.ask(headers{wire.HeaderContinuation: scan[:cut]}, "SELECT * FROM c").want(400)
	}
	ts.do("GET", orders+"/docs", headers{wire.HeaderContinuation: scan}, "").want(400)
	ts.ask(headers{wire.HeaderContinuation: tokens[orders+"/docs"]}, "SELECT * FROM c").want(400)
}
