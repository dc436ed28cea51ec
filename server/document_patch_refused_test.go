package server

import (
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// A replica refuses a patch or a batch by its content. A client needs the session token of
// such an answer as of any other write's, and the charge, which the service takes.
func TestRefusedPatchesHaveTheFormOfABackend(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	key := pk(`["p"]`)
	const document = orders + "/docs/1"
	ts.must("POST", orders+"/docs", key, `{"id":"1","pk":"p","n":1}`)
	const set = `{"op":"set","path":"/n","value":2}`
	patch := func(operations string) response {
		return ts.do("PATCH", document, key, `{"operations":[`+operations+`]}`)
	}
	under := func(condition string) response {
		return ts.do("PATCH", document, key, `{"condition":"`+condition+`","operations":[`+set+`]}`)
	}
	batch := func(operations string) response {
		return ts.do("POST", orders+"/docs", together(key, headers{wire.HeaderBatch: "True", wire.HeaderBatchAtomic: "True"}), operations)
	}
	const (
		backend     = `Message: {"Errors":["`
		compiler    = `Message: {"errors":[{"severity":"Error"`
		diagnostics = "Operation cannot be performed because one of the specified precondition is not met., \r\nRequestStartTime: "
	)
	for name, c := range map[string]struct {
		a      response
		status int
		begins string
	}{
		"If-Match":                {ts.do("PATCH", document, together(key, headers{"If-Match": `"x"`}), `{"operations":[`+set+`]}`), 412, diagnostics},
		"a false condition":       {under("from c where c.n = 0"), 412, diagnostics},
		"If-Match, a condition":   {ts.do("PATCH", document, together(key, headers{"If-Match": `"x"`}), `{"condition":"from c where c.n = 1","operations":[`+set+`]}`), 412, diagnostics},
		"a condition, no item":    {ts.do("PATCH", orders+"/docs/2", key, `{"condition":"from c where c.n = 0","operations":[`+set+`]}`), 404, "Entity with the specified id does not exist"},
		"a condition that is bad": {under("from c where"), 400, compiler},
		"a missing path":          {patch(`{"op":"remove","path":"/nope"}`), 400, backend},
		"a missing path, true":    {ts.do("PATCH", document, key, `{"condition":"from c where c.n = 1","operations":[{"op":"remove","path":"/nope"}]}`), 400, backend},
		"the id":                  {patch(`{"op":"set","path":"/id","value":"2"}`), 400, backend},
		"the key":                 {patch(`{"op":"set","path":"/pk","value":"2"}`), 400, backend},
		"eleven operations":       {patch(strings.Repeat(set+",", 10) + set), 400, backend},
		"no operation":            {patch(""), 400, backend},
		"an unknown operation":    {patch(`{"op":"double","path":"/n"}`), 400, backend},
		"no JSON":                 {ts.do("PATCH", document, key, `{`), 400, backend},
		"an empty batch":          {batch(`[]`), 400, backend},
		"an unknown type":         {batch(`[{"operationType":"Double","id":"1"}]`), 400, backend},
		"a batch that is no list": {batch(`{}`), 400, backend},
		"a patch in a batch":      {batch(`[{"operationType":"Patch","id":"1","resourceBody":{"operations":[{"op":"set","path":"/id","value":"2"}]}}]`), 207, ""},
		"a condition in a batch":  {batch(`[{"operationType":"Patch","id":"1","resourceBody":{"condition":"from c where c.n = 0","operations":[` + set + `]}}]`), 207, ""},
	} {
		c.a.want(c.status)
		if c.begins != "" {
			var body struct{ Message string }
			c.a.decode(&body)
			if !strings.HasPrefix(body.Message, c.begins) || !strings.HasSuffix(body.Message, ", SDK: Microsoft.Azure.Documents.Common/2.14.0") {
				t.Errorf("%s: %q", name, body.Message)
			}
		}
		h := c.a.header
		if h.Get("lsn") != "1" || h.Get(wire.HeaderSessionToken) != "0:-1#1" || h.Get(wire.HeaderPartitionID) != "0" {
			t.Errorf("%s: lsn %q, token %q, range %q", name, h.Get("lsn"), h.Get(wire.HeaderSessionToken), h.Get(wire.HeaderPartitionID))
		}
		if charge := h.Get(wire.HeaderRequestCharge); charge != "1.24" && name != "a condition in a batch" {
			t.Errorf("%s: %s RU", name, charge)
		}
	}
}
