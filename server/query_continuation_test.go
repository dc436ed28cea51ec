package server

import (
	"testing"

	"github.com/changefeed-go/changefeed/internal/querypage"
)

// FuzzContinuations sends a query with a random continuation. It must be answered with a
// page or a 400. The change feed also answers 404 to a position after its end.
func FuzzContinuations(f *testing.F) {
	ts := newTestServer(f, Options{})
	rid := ts.withItems(2, 20, 3).Identity().ContainerRID
	for _, seed := range []string{
		"", "null", "~~~~", "s~" + rid + "~~0~~", "s~" + rid + "~3~2~~AAAA", "o~" + rid + "~~0~~AAAAAAAAAAEAAAAAAAAAADM", "o~" + rid + "~5~1~~",
		"s~" + rid + "~9223372036854775807~9223372036854775807~9223372036854775807.9223372036854775807~____", "s~" + rid + "~-1~0~~", "o~" + rid + "~~0~~AAAA", "s~" + rid + "~~0~~!",
		"s~" + rid + "~~0~1.0~", "s~" + rid + "~~0~1~", "o~" + rid + "~~0~1.1~",
		`{"token":"-RID:~` + rid + `#RT:1#TRC:1#ISV:2#IEO:1#QCF:8","range":{"min":"","max":"FF"}}`, `[{"token":"-RID:~` + rid + `#RT:2#TRC:2#RTD:fn5-fkZG#ISV:2#IEO:1#QCF:8"}]`, "garbage", "-1", "AA", `"1000"`,
		"l~~Databases~c2hvcA", "l~~Databases~", "l~~Offers~c2hvcA",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		ts := &testServer{Server: ts.Server, t: t, db: ts.db, key: ts.key}
		// The text is also sent with a valid checksum, which any client can compute.
		for _, token := range []string{token, querypage.JoinToken(token)} {
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
		if a.status != 200 && a.status != 400 || a.status == 200 && token != "" && querypage.SplitToken(token) == nil {
			t.Fatalf("%s: %q: %d %s", list, token, a.status, a.body)
		}
	}
	a := ts.read(headers{"If-None-Match": token})
	if ended := a.status == 404 && a.sub() == 1002; a.status != 200 && a.status != 304 && a.status != 400 && !ended {
		t.Fatalf("change feed: %q: %d %s", token, a.status, a.body)
	}
}
