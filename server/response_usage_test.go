package server

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// A refused request costs a hundredth of itself, whatever ran before it. A small request that
// came after a large one once cost more than if it had been served.
func TestRefusedRequestsCostAShareOfThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServerOver(t, engine.Options{EnforceThroughput: true}, Options{})
		ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
		ts.must("POST", "/dbs/shop/colls", headers{"x-ms-offer-throughput": "400"}, `{"id":"orders","partitionKey":{"paths":["/pk"]}}`)
		key := pk(`["p"]`)
		const document = orders + "/docs/1"
		large := `{"id":"large","pk":"p"`
		for i := range 2000 {
			large += `,"m` + strconv.Itoa(i) + `":1`
		}
		ts.must("POST", orders+"/docs", key, `{"id":"1","pk":"p","n":1}`)
		const expensive, cheap = "SELECT * FROM c", "SELECT VALUE c.id FROM c WHERE c.id = '1'"
		served := map[string]float64{}
		charge := func(a response) float64 {
			ru, err := strconv.ParseFloat(a.header.Get(wire.HeaderRequestCharge), 64)
			if err != nil {
				t.Fatal(err)
			}
			return ru
		}
		for _, text := range []string{expensive, cheap} {
			served[text] = charge(ts.ask(key, text).want(200))
		}
		// Uses up more throughput than a second restores.
		ts.must("POST", orders+"/docs", key, large+`}`)
		inBatch := together(key, headers{wire.HeaderBatch: "True", wire.HeaderBatchAtomic: "True"})
		const create, read = `{"operationType":"Create","resourceBody":{"id":"2","pk":"p","n":1}}`, `{"operationType":"Read","id":"1"}`
		for name, c := range map[string]struct {
			a    response
			cost float64
		}{
			"create":              {ts.do("POST", orders+"/docs", key, `{"id":"2","pk":"p","n":1}`), 132 / 21.0},
			"a larger create":     {ts.do("POST", orders+"/docs", key, `{"id":"2","pk":"p","n":[1,2,3,4,5,6,7,8,9,10]}`), 208 / 21.0},
			"upsert":              {ts.do("POST", orders+"/docs", together(key, headers{wire.HeaderUpsert: "True"}), `{"id":"2","pk":"p","n":1}`), 132 / 21.0},
			"replace":             {ts.do("PUT", document, key, `{"id":"1","pk":"p","n":2}`), 216 / 21.0},
			"patch":               {ts.do("PATCH", document, key, `{"operations":[{"op":"set","path":"/n","value":2}]}`), 216 / 21.0},
			"conditional patch":   {ts.do("PATCH", document, key, `{"condition":"from c where c.n = 1","operations":[{"op":"set","path":"/n","value":2}]}`), 216 / 21.0},
			"delete":              {ts.do("DELETE", document, key, ""), 140 / 21.0},
			"read":                {ts.do("GET", document, key, ""), 1},
			"batch":               {ts.do("POST", orders+"/docs", inBatch, `[`+create+`,`+read+`,`+create+`]`), 285 / 21.0},
			"expensive query":     {ts.ask(key, expensive), served[expensive]},
			"cheap query":         {ts.ask(key, cheap), served[cheap]},
			"query that is new":   {ts.ask(key, "SELECT c.n FROM c"), 2.247},
			"a smaller page":      {ts.ask(together(key, headers{wire.HeaderMaxItemCount: "1"}), expensive), 2.247},
			"documents, not read": {ts.do("GET", orders+"/docs", key, ""), 1},
		} {
			c.a.want(429, 3200)
			if want := math.Round(c.cost) / 100; math.Abs(charge(c.a)-want) > 1e-9 {
				t.Errorf("%s: %v RU, want a hundredth of %.2f", name, charge(c.a), c.cost)
			}
			if charge(c.a) > c.cost {
				t.Errorf("%s: %v RU, and %.2f if it is served", name, charge(c.a), c.cost)
			}
		}
	})
}
