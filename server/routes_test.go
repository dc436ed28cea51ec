package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
)

func TestUnsupportedOperationsAreRefusedByName(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	for path, name := range map[string]string{
		orders + "/sprocs": "a stored procedure", orders + "/sprocs/run": "a stored procedure", orders + "/triggers": "a trigger",
		orders + "/udfs/f": "a user-defined function", orders + "/conflicts": "a feed of conflicts",
		"/dbs/shop/clientencryptionkeys/k":        "client-side encryption",
		orders + "/docs/1/attachments":            "an attachment",
		orders + "/operations/partitionkeydelete": "an operation on a container (deleting all documents of a partition key)",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			ts.do(method, path, nil, `{"id":"x"}`).want(400).wantBody(name + " is not supported by this server")
		}
		ts.do("POST", path, headers{"Authorization": "nonsense"}, ``).want(401)
	}
}

func TestClientsInDirectModeAreReferredToTheGateway(t *testing.T) {
	ts := newTestServer(t, Options{})
	for _, path := range []string{"/addresses/?$resolveFor=dbs&$filter=protocol%20eq%20rntbd", "/addresses"} {
		ts.do("GET", path, headers{"Authorization": "of a link of its own"}, "").want(400).wantBody("gateway mode")
	}
}

// The operation that deletes all documents of a partition key must be refused by name.
// Java and JavaScript sign such a request as a request for its container, so this
// signature must be accepted.
func TestDeletingAPartitionKeyIsSignedAsItsContainerAndRefusedByName(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	date := wire.FormatTime(ts.db.Now())
	const path = orders + "/operations/partitionkeydelete"
	for link, status := range map[string]int{"dbs/shop/colls/orders": 400, "dbs/shop/colls/others": 401, "": 401} {
		sig := wire.Authorization(ts.key.Sign(wire.Payload("POST", "colls", link, date, "")))
		a := ts.do("POST", path, headers{wire.HeaderDate: date, "Authorization": sig, wire.HeaderPartitionKey: `["ada"]`}, "").want(status)
		if status == 400 {
			a.wantBody("deleting all documents of a partition key")
		}
	}
}

// A client's request always has a method, but a test may call the handler without one.
func TestARequestWithoutAMethodIsRefused(t *testing.T) {
	ts := newTestServer(t, Options{})
	for _, method := range []string{"", "BREW"} {
		r := ts.request(method, "/dbs", nil, "")
		r.Method = method
		w := httptest.NewRecorder()
		ts.ServeHTTP(w, r)
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("method %q: %d %s", method, w.Code, w.Body)
		}
	}
}
