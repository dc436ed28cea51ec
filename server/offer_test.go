package server

import (
	"fmt"
	"sync"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
)

type offersPage struct {
	Offers []struct {
		ID, Resource, OfferResourceID string
		RID                           string `json:"_rid"`
		Self                          string `json:"_self"`
		Content                       struct {
			OfferThroughput        int
			OfferAutopilotSettings *struct{ MaxThroughput int }
		}
	}
}

// withOffer creates the container c with the throughput in the headers h. It returns the
// path of its offer.
func (ts *testServer) withOffer(h headers) string {
	ts.t.Helper()
	ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
	ts.must("POST", "/dbs/shop/colls", h, `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
	var page offersPage
	ts.do("GET", "/offers", nil, "").want(200).decode(&page)
	if len(page.Offers) != 1 {
		ts.t.Fatalf("offers: %+v", page)
	}
	return "/" + page.Offers[0].Self
}

func TestOfferOfAContainer(t *testing.T) {
	ts := newTestServer(t, Options{})
	path := ts.withOffer(headers{"x-ms-offer-throughput": "400"})
	c := ts.must("GET", "/dbs/shop/colls/c", nil, "").object()
	o := ts.do("GET", path, nil, "").want(200).wantBody(`"content":{"offerThroughput":400,"offerIsRUPerMinuteThroughputEnabled":false`).
		wantHeader(wire.HeaderMinThroughput, "400").wantHeader(wire.HeaderOfferReplacePending, "false").object()
	if o["offerResourceId"] != c["_rid"] || o["resource"] != c["_self"] || o["offerVersion"] != "V2" || o["offerType"] != "Invalid" {
		t.Errorf("%v", o)
	}
	if rid, _ := o["_rid"].(string); len(rid) != 4 || o["id"] != rid {
		t.Errorf("rid %v, id %v", o["_rid"], o["id"])
	}
	ts.do("PUT", path, nil, `{"content":{"offerThroughput":20000}}`).want(200).wantBody(`"content":{"offerThroughput":20000,"offerIsRUPerMinuteThroughputEnabled":false`)
	ts.do("GET", path, nil, "").want(200).wantBody(`"content":{"offerThroughput":20000,"offerIsRUPerMinuteThroughputEnabled":false`)
	if n := partitionsOf(ts, "c"); n != 1 {
		t.Errorf("%d partitions after the replacement", n)
	}
	ts.do("GET", "/offers/AAAA", nil, "").want(404)
	ts.do("PUT", "/offers/AAAA", nil, `{"content":{"offerThroughput":500}}`).want(404)
	ts.must("DELETE", "/dbs/shop/colls/c", nil, "")
	ts.do("GET", path, nil, "").want(404)
}

func TestReplacedOffersAreValidated(t *testing.T) {
	ts := newTestServer(t, Options{})
	path := ts.withOffer(headers{"x-ms-offer-throughput": "400"})
	for _, body := range []string{
		`{}`, `{"content":7}`, `{"content":{}}`, `{"content":{"offerThroughput":300}}`, `{"content":{"offerThroughput":450}}`,
		`{"content":{"offerThroughput":1000100}}`, `{"content":{"offerAutopilotSettings":{"maxThroughput":1500}}}`,
		`{"content":{"offerAutopilotSettings":{}}}`, `{"offerResourceId":"Gis8AQ==","content":{"offerThroughput":500}}`,
	} {
		ts.do("PUT", path, nil, body).want(400)
	}
	ts.do("PUT", path, headers{"If-Match": `"other"`}, `{"content":{"offerThroughput":500}}`).want(412)
	ts.do("GET", path, nil, "").want(200).wantBody(`"offerThroughput":400,`)
}

func TestOffersChangeBetweenManualAndAutoscale(t *testing.T) {
	ts := newTestServer(t, Options{})
	path := ts.withOffer(headers{"x-ms-cosmos-offer-autopilot-settings": `{"maxThroughput":4000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":10}}}`})
	ts.do("GET", path, nil, "").want(200).wantHeader(wire.HeaderMinThroughput, "1000").
		wantBody(`"content":{"offerThroughput":400,"offerAutopilotSettings":{"maxThroughput":4000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":10}}}}`)
	autoscale := `{"content":{"offerThroughput":400,"offerAutopilotSettings":{"maxThroughput":4000}}}`
	ts.do("PUT", path, nil, `{"content":{"offerAutopilotSettings":{"maxThroughput":8000}}}`).want(200).wantBody(`"maxThroughput":8000`)
	ts.do("PUT", path, nil, `{"content":{"offerThroughput":600}}`).want(200).wantBody(`"content":{"offerThroughput":600,"offerIsRUPerMinuteThroughputEnabled":false`)
	ts.do("PUT", path, nil, autoscale).want(200).wantBody(`"maxThroughput":4000`)
	ts.do("PUT", path, headers{"x-ms-cosmos-migrate-offer-to-manual-throughput": "true"}, autoscale).want(200).wantBody(`"content":{"offerThroughput":4000,"offerIsRUPerMinuteThroughputEnabled":false`)
	ts.do("PUT", path, headers{"x-ms-cosmos-migrate-offer-to-autopilot": "true"}, `{"content":{"offerThroughput":400}}`).
		want(200).wantBody(`"offerAutopilotSettings":{"maxThroughput":4000}`)
	c, err := ts.db.Container(t.Context(), "shop", "c")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := c.Properties(t.Context()); err != nil || p.Throughput != 4000 {
		t.Errorf("the store has %d RU/s (%v)", p.Throughput, err)
	}
}

func TestOffersOfDatabasesAndContainersAreListed(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.must("POST", "/dbs", headers{"x-ms-offer-throughput": "1000"}, `{"id":"shop"}`)
	ts.must("POST", "/dbs", nil, `{"id":"none"}`)
	for i := range 3 {
		ts.must("POST", "/dbs/shop/colls", headers{"x-ms-offer-throughput": "400"}, fmt.Sprintf(`{"id":"c%d","partitionKey":{"paths":["/pk"]}}`, i))
	}
	ts.must("POST", "/dbs/shop/colls", nil, `{"id":"shared","partitionKey":{"paths":["/pk"]}}`)
	var page offersPage
	ts.do("GET", "/offers", nil, "").want(200).decode(&page)
	rids, owners := map[string]bool{}, map[string]bool{}
	database := ts.must("GET", "/dbs/shop", nil, "").object()["_rid"].(string)
	for _, o := range page.Offers {
		rids[o.RID], owners[o.OfferResourceID] = true, true
		if o.OfferResourceID == database {
			ts.do("PUT", "/"+o.Self, nil, `{"content":{"offerThroughput":2000}}`).want(200)
			ts.do("GET", "/"+o.Self, nil, "").want(200).wantBody(`"content":{"offerThroughput":2000,"offerIsRUPerMinuteThroughputEnabled":false`)
			ts.do("PUT", "/"+o.Self, headers{"If-Match": `"other"`}, `{"content":{"offerThroughput":3000}}`).want(412)
		}
	}
	if len(page.Offers) != 4 || len(rids) != 4 || len(owners) != 4 || !owners[database] {
		t.Errorf("offers: %+v", page)
	}
}

func TestThroughputOfACreationIsValidated(t *testing.T) {
	ts := newTestServer(t, Options{})
	for _, h := range []headers{
		{"x-ms-offer-throughput": "x"},
		{"x-ms-offer-throughput": "0"},
		{"x-ms-offer-throughput": "350"},
		{"x-ms-offer-throughput": "450"},
		{"x-ms-cosmos-offer-autopilot-settings": "x"},
		{"x-ms-cosmos-offer-autopilot-settings": `{"maxThroughput":100}`},
		{"x-ms-offer-throughput": "400", "x-ms-cosmos-offer-autopilot-settings": `{"maxThroughput":1000}`},
	} {
		ts.do("POST", "/dbs", h, `{"id":"shop"}`).want(400)
	}
}

func TestConcurrentReplacementsLoseNoChange(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.must("POST", "/dbs", headers{"x-ms-offer-throughput": "1000"}, `{"id":"shop"}`)
	ts.must("POST", "/dbs/shop/colls", headers{"x-ms-offer-throughput": "400"}, `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
	var page offersPage
	ts.do("GET", "/offers", nil, "").want(200).decode(&page)
	var all sync.WaitGroup
	put := func(path, body string) {
		all.Go(func() {
			for range 20 {
				if a := ts.do("PUT", path, nil, body); a.status != 200 {
					t.Errorf("%s: %d %s", a.what, a.status, a.body)
				}
			}
		})
	}
	for _, o := range page.Offers {
		put("/"+o.Self, `{"content":{"offerThroughput":5000}}`)
		put("/"+o.Self, `{"content":{"offerThroughput":5000}}`)
	}
	put("/dbs/shop/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":60,"analyticalStorageTtl":-1}`)
	all.Wait()
	ts.do("GET", "/dbs/shop/colls/c", nil, "").want(200).wantBody(`"defaultTtl":60`).wantBody(`"analyticalStorageTtl":-1`)
	for _, o := range page.Offers {
		ts.do("GET", "/"+o.Self, nil, "").want(200).wantBody(`"content":{"offerThroughput":5000,"offerIsRUPerMinuteThroughputEnabled":false`)
	}
}
