package server

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// requestCharge returns the charge in the header of an answer.
func (a response) requestCharge() float64 {
	a.t.Helper()
	ru, err := strconv.ParseFloat(a.header.Get(wire.HeaderRequestCharge), 64)
	if err != nil {
		a.t.Fatalf("%s: %v", a.what, err)
	}
	return ru
}

// An operation costs the same alone, in bulk and in a transaction, whether it succeeds or
// fails, and a batch costs the sum of its operations.
func TestOperationsCostTheSameAloneAndInBatches(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	key := pk(`["p"]`)
	ts.must("POST", orders+"/docs", key, `{"id":"1","pk":"p","n":1}`)
	ts.must("POST", orders+"/docs", key, `{"id":"large","pk":"p","n":1,"text":"`+strings.Repeat("x", maxInlinePatch)+`"}`)
	large := ts.do("PATCH", orders+"/docs/large", key, `{"operations":[{"op":"incr","path":"/n","value":1}]}`).want(200).requestCharge()
	const read, failed, patched = 1.0, 26 / 21.0, 224 / 21.0
	const incr = `{"operations":[{"op":"incr","path":"/n","value":1}]`
	for name, c := range map[string]struct {
		method, id, body string
		h                headers
		operation        string
		charge           float64
	}{
		"read":                         {"GET", "1", "", nil, `"Read","id":"1"`, read},
		"read of a missing item":       {"GET", "2", "", nil, `"Read","id":"2"`, read},
		"read with another If-Match":   {"GET", "1", "", headers{"If-Match": `"x"`}, `"Read","id":"1","ifMatch":"\"x\""`, read},
		"delete of a missing item":     {"DELETE", "2", "", nil, `"Delete","id":"2"`, failed},
		"create of an existing item":   {"POST", "", `{"id":"1","pk":"p","n":1}`, nil, `"Create","resourceBody":{"id":"1","pk":"p","n":1}`, 132 / 21.0 / 4},
		"patch":                        {"PATCH", "1", incr + `}`, nil, `"Patch","id":"1","resourceBody":` + incr + `}`, patched},
		"patch of a missing item":      {"PATCH", "2", incr + `}`, nil, `"Patch","id":"2","resourceBody":` + incr + `}`, failed},
		"patch whose condition holds":  {"PATCH", "1", incr + `,"condition":"from c where c.n > 0"}`, nil, `"Patch","id":"1","resourceBody":` + incr + `,"condition":"from c where c.n > 0"}`, patched},
		"patch whose condition fails":  {"PATCH", "1", incr + `,"condition":"from c where c.n < 0"}`, nil, `"Patch","id":"1","resourceBody":` + incr + `,"condition":"from c where c.n < 0"}`, failed},
		"condition and a missing item": {"PATCH", "2", incr + `,"condition":"from c where c.n > 0"}`, nil, `"Patch","id":"2","resourceBody":` + incr + `,"condition":"from c where c.n > 0"}`, failed},
		"patch of a large item":        {"PATCH", "large", incr + `}`, nil, `"Patch","id":"large","resourceBody":` + incr + `}`, large},
	} {
		path := strings.TrimSuffix(orders+"/docs/"+c.id, "/")
		if got := ts.do(c.method, path, together(key, c.h), c.body).requestCharge(); math.Abs(got-c.charge) > 0.006 {
			t.Errorf("%s: %v RU alone, want %.2f", name, got, c.charge)
		}
		batch := `[{"partitionKey":"[\"p\"]","operationType":` + c.operation + `}]`
		for how, h := range map[string]headers{"in bulk": inBulk, "in a transaction": transaction} {
			var answer batchAnswer
			a := ts.do("POST", orders+"/docs", h, batch).decode(&answer)
			if len(answer) != 1 || math.Abs(answer[0].RequestCharge-c.charge) > 0.006 {
				t.Errorf("%s: %s RU %s, want %.4f", name, a.body, how, c.charge)
			}
			if got := a.requestCharge(); math.Abs(got-c.charge) > 0.006 {
				t.Errorf("%s: the batch costs %v RU %s, want %.2f", name, got, how, c.charge)
			}
		}
	}
}

// A patch with a condition takes from the throughput what its answer says, although the
// server reads the item first. The clock stands still, so nothing is restored.
func TestConditionalPatchTakesItsChargeFromTheThroughput(t *testing.T) {
	const patch = `{"condition":"from c where c.n > 0","operations":[{"op":"incr","path":"/n","value":1}]}`
	for how, send := range map[string]func(ts *testServer) response{
		"alone": func(ts *testServer) response { return ts.do("PATCH", orders+"/docs/1", pk(`["p"]`), patch) },
		"in a transaction": func(ts *testServer) response {
			return ts.do("POST", orders+"/docs", transaction, `[{"operationType":"Patch","id":"1","resourceBody":`+patch+`}]`)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ts := newTestServerOver(t, engine.Options{EnforceThroughput: true}, Options{})
			ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
			ts.must("POST", "/dbs/shop/colls", headers{"x-ms-offer-throughput": "400"}, `{"id":"orders","partitionKey":{"paths":["/pk"]}}`)
			created := ts.do("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p","n":1}`).want(201).requestCharge()
			served, a := 0, send(ts)
			for ; a.status == 200; a = send(ts) {
				served++
			}
			if want := int(math.Ceil((400 - created) / (224 / 21.0))); a.status != 429 || served != want {
				t.Errorf("%s: %d patches and status %d, want %d", how, served, a.status, want)
			}
		})
	}
}
