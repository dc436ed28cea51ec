package server

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/memnet"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// rawAnswer sends a request over HTTP/1.1. It returns the lines of the answer before the
// body, as they are sent, and the body.
func rawAnswer(t *testing.T, network *memnet.Network, r *http.Request) (lines []string, body string) {
	t.Helper()
	conn, err := network.Dial(t.Context(), "tcp", "server:80")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	r.Close = true
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(text), "\r\n\r\n")
	return strings.Split(head, "\r\n"), body
}

// Header names must be sent in lower case. If .NET's SDK gets a capitalised
// x-ms-continuation, it does not recognise it, and returns it to the user as a
// continuation of its own.
func TestHeaderNamesAreSentInLowerCase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{Partitions: 2})
		h, path := ts.withItem()
		ts.must("POST", orders+"/docs", h, `{"id":"2","pk":"p"}`)
		etag := ts.must("GET", path, h, "").header.Get("Etag")
		network := &memnet.Network{}
		listener, err := network.Listen("server:80")
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: ts.Server, ReadHeaderTimeout: time.Minute}
		done := make(chan error, 1)
		go func() { done <- srv.Serve(listener) }()
		defer func() {
			_ = srv.Shutdown(context.WithoutCancel(t.Context()))
			<-done
		}()
		query := headers{"Content-Type": wire.ContentTypeQuery, wire.HeaderMaxItemCount: "1", wire.HeaderPopulateQueryMetrics: "true"}
		seen := map[string]bool{}
		send := func(method, path string, h headers, body string) {
			t.Helper()
			r := ts.request(method, path, h, body)
			lines, answer := rawAnswer(t, network, r)
			for _, line := range lines[1:] {
				name, _, _ := strings.Cut(line, ":")
				framing := []string{"Connection", "Content-Length", "Transfer-Encoding"}
				if name != strings.ToLower(name) && !slices.Contains(framing, name) {
					t.Errorf("%s %s: %s", method, path, line)
				}
				if seen[name] = true; strings.Count("\n"+strings.ToLower(strings.Join(lines, "\n")), "\n"+strings.ToLower(name)+":") != 1 {
					t.Errorf("%s %s: %s is sent twice", method, path, name)
				}
			}
			// A client that uses net/http must read the same answer.
			parsed, err := http.ReadResponse(bufio.NewReader(strings.NewReader(strings.Join(lines, "\r\n")+"\r\n\r\n"+answer)), r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = parsed.Body.Close() }()
			if got, err := io.ReadAll(parsed.Body); err != nil || string(got) != answer || parsed.Header.Get("Date") == "" {
				t.Errorf("%s %s: %v, %q of %q", method, path, err, got, answer)
			}
		}
		send("GET", "/", nil, "")
		send("GET", "/", headers{"Authorization": ""}, "")
		send("POST", orders+"/docs", h, `{"id":"3","pk":"p"}`)
		send("POST", orders+"/docs", h, `{"id":"3","pk":"p"}`)
		send("POST", orders+"/docs", h.with("Prefer", "return=minimal"), `{"id":"4","pk":"p","long":"`+strings.Repeat("x", 10_000)+`"}`)
		send("GET", orders+"/docs/4", h, "")
		send("GET", path, h.with("If-None-Match", etag), "")
		send("GET", orders+"/docs", h.with(wire.HeaderMaxItemCount, "1"), "")
		send("GET", orders+"/docs", h.with(wire.HeaderAIM, wire.AIMIncremental).with(wire.HeaderMaxItemCount, "1"), "")
		send("POST", orders+"/docs", together(h, query), queryBody(t, "SELECT * FROM c ORDER BY c.id"))
		send("POST", orders+"/docs", queryHeaders(), queryBody(t, "SELECT * FROM c ORDER BY c.id"))
		send("POST", orders+"/docs", transaction, `[{"operationType":"Read","id":"1"}]`)
		send("GET", orders+"/pkranges", nil, "")
		send("GET", "/offers", nil, "")
		send("GET", "/dbs/none/colls", nil, "")
		send("GET", path, nil, "")
		send("PUT", "/dbs/shop/colls", nil, "")
		send("DELETE", orders+"/docs/4", h, "")
		if _, err := ts.Faults().Add(Fault{Status: 429, RetryAfter: time.Second, Count: 1}); err != nil {
			t.Fatal(err)
		}
		send("GET", path, h, "")
		for _, name := range []string{
			"content-location", "content-type", "date", "etag", "lsn", "x-ms-activity-id", "x-ms-alt-content-path", "x-ms-content-path", "x-ms-continuation",
			"x-ms-documentdb-partitionkeyrangeid", "x-ms-documentdb-query-metrics", "x-ms-gatewayversion", "x-ms-item-count", "x-ms-request-charge",
			"x-ms-retry-after-ms", "x-ms-serviceversion", "x-ms-session-token", "x-ms-substatus",
		} {
			if !seen[name] {
				t.Errorf("no answer had %s", name)
			}
		}
	})
}
