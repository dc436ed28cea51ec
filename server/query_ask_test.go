package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// queryBody returns the JSON body of a query. params alternates the names and the values
// of parameters.
func queryBody(t testing.TB, text string, params ...any) string {
	t.Helper()
	list := []map[string]any{}
	for i := 0; i < len(params); i += 2 {
		list = append(list, map[string]any{"name": params[i], "value": params[i+1]})
	}
	b, err := json.Marshal(map[string]any{"query": text, "parameters": list})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ask runs a query over the container orders and returns the answer.
func (ts *testServer) ask(h headers, text string, params ...any) response {
	ts.t.Helper()
	all := headers{"Content-Type": wire.ContentTypeQuery, wire.HeaderCrossPartition: "True"}
	maps.Copy(all, h)
	delete(all, "A-IM") // the helper latest sets this header, which marks a change feed request
	return ts.do("POST", orders+"/docs", all, queryBody(ts.t, text, params...))
}

// rows returns the rows of a page, each as its JSON text.
func (a response) rows() []string {
	a.t.Helper()
	var body struct {
		RID       string `json:"_rid"`
		Documents []json.RawMessage
		Count     int `json:"_count"`
	}
	a.want(200).decode(&body)
	if body.Count != len(body.Documents) || a.header.Get("x-ms-item-count") != fmt.Sprint(body.Count) || body.RID != a.header.Get("x-ms-content-path") {
		a.t.Errorf("%s: frame %s %d, headers %v", a.what, body.RID, body.Count, a.header)
	}
	rows := make([]string, len(body.Documents))
	for i, d := range body.Documents {
		rows[i] = string(d)
	}
	return rows
}

// askAll reads all pages of a query over orders. If between is not nil, it is called
// after each page. It returns all rows and the number of pages.
func (ts *testServer) askAll(h headers, between func(page int), text string, params ...any) (rows []string, pages int) {
	ts.t.Helper()
	h = maps.Clone(h)
	if h == nil {
		h = headers{}
	}
	for {
		a := ts.ask(h, text, params...)
		rows = append(rows, a.rows()...)
		pages++
		token := a.header.Get("x-ms-continuation")
		if token == "" {
			return rows, pages
		}
		if token == "null" || len(token) > 1024 || strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
			ts.t.Fatalf("continuation %q", token)
		}
		h["x-ms-continuation"] = token
		if between != nil {
			between(pages)
		}
		if pages > 1000 {
			ts.t.Fatal("the query does not end")
		}
	}
}

// withItems creates the container orders with n documents, distributed over k partition
// keys.
func (ts *testServer) withItems(partitions, n, k int) *engine.Container {
	ts.t.Helper()
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: partitions})
	for i := range n {
		put(ts.t, c, `{"id":"%03d","pk":"k%d","v":%d,"odd":%t}`, i, i%k, i, i%2 == 1)
	}
	return c
}
