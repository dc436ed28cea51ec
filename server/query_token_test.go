package server

import (
	"math"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
)

func TestAPositionOfAQueryIsReadAsItWasWritten(t *testing.T) {
	const rid = "AAAAAYAAAAE="
	for _, p := range []queryPosition{
		{left: -1},
		{left: 0, after: "AbC_-"},
		{left: math.MaxInt64, skip: 7, after: "x"},
		{left: -1, after: "x", of: 12, done: 250},
		{ordered: true, left: -1},
		{ordered: true, left: 3, skip: 2},
		{ordered: true, left: -1, last: &query.Position{Tie: math.MaxUint64, Row: 3, Key: []byte{0, 255, '~'}}},
		{ordered: true, left: -1, last: &query.Position{Key: []byte(strings.Repeat("k", maxSortKey))}},
	} {
		text, err := p.token(rid)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseQueryToken(text, rid, p.ordered)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again, _ := got.token(rid); again != text || got.left != p.left || got.skip != p.skip {
			t.Errorf("%+v became %+v", p, got)
		}
		if _, err := parseQueryToken(text, "AAAAAYAAAAI=", p.ordered); err == nil {
			t.Errorf("%s is taken by another container", text)
		}
		if _, err := parseQueryToken(text, rid, !p.ordered); err == nil {
			t.Errorf("%s is taken by a query of the other kind", text)
		}
	}
	if _, err := (queryPosition{ordered: true, last: &query.Position{Key: make([]byte, maxSortKey+1)}}).token(rid); err == nil {
		t.Error("a sort key beyond the limit got a continuation")
	}
}

// Whatever a client sends as a continuation is a page or a 400.
func FuzzContinuations(f *testing.F) {
	ts := newTestServer(f, Options{})
	rid := ts.withItems(2, 20, 3).Identity().ContainerRID
	for _, seed := range []string{
		"", "null", "~~~~", "s~" + rid + "~~0~~", "s~" + rid + "~3~2~~AAAA", "o~" + rid + "~~0~~AAAAAAAAAAEAAAAAAAAAADM", "o~" + rid + "~5~1~~",
		"s~" + rid + "~9223372036854775807~9223372036854775807~9223372036854775807.9223372036854775807~____", "s~" + rid + "~-1~0~~", "o~" + rid + "~~0~~AAAA", "s~" + rid + "~~0~~!",
		"s~" + rid + "~~0~1.0~", "s~" + rid + "~~0~1~", "o~" + rid + "~~0~1.1~",
		"r~" + rid + "~AAAA", "r~" + rid + "~", "r~AAAAAYAAAAI=~AAAA", seal("r", rid, "AAAA"), seal("r", rid, "AAAA")[:20], "garbage", "-1", "AA",
		"l~~Databases~c2hvcA", "l~~Databases~", "l~~Offers~c2hvcA",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		ts := &testServer{Server: ts.Server, t: t, db: ts.db, key: ts.key}
		// Parts that nobody sealed, too: what is behind the checksum is for all to make.
		for _, token := range []string{token, seal(token)} {
			tryContinuation(t, ts, token)
		}
	})
}

func tryContinuation(t *testing.T, ts *testServer, token string) {
	t.Helper()
	for _, text := range []string{"SELECT * FROM c", "SELECT * FROM c WHERE c.pk = 'k1' ORDER BY c.v", "SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'k1'"} {
		if a := ts.ask(headers{"x-ms-continuation": token}, text); a.status != 200 && a.status != 400 {
			t.Fatalf("%s: %q: %d %s", text, token, a.status, a.body)
		}
	}
	for _, list := range []string{orders + "/docs", "/dbs", "/dbs/shop/colls", "/offers"} {
		a := ts.do("GET", list, headers{"x-ms-continuation": token}, "")
		if a.status != 200 && a.status != 400 || a.status == 200 && token != "" && unseal(token) == nil {
			t.Fatalf("%s: %q: %d %s", list, token, a.status, a.body)
		}
	}
	if a := ts.read(headers{"If-None-Match": token}); a.status != 200 && a.status != 304 && a.status != 400 {
		t.Fatalf("change feed: %q: %d %s", token, a.status, a.body)
	}
}
