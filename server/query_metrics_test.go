package server

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// A query whose headers ask for metrics must be answered with them, and no other query.
// azcosmos asks for them with every query, and its own tests fail without them.
func TestMetricsOfAQueryAreSentOnRequest(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withItems(1, 40, 8)
	silent := ts.ask(nil, "SELECT * FROM c").want(200)
	if silent.header.Get("x-ms-documentdb-query-metrics") != "" || silent.header.Get("x-ms-cosmos-index-utilization") != "" {
		t.Error("the answer has metrics without a request for them")
	}
	asked := ts.ask(headers{"x-ms-documentdb-populatequerymetrics": "True", "x-ms-cosmos-populateindexmetrics": "true"}, "SELECT c.id FROM c WHERE c.odd").want(200)
	metrics := map[string]float64{}
	for _, pair := range strings.Split(asked.header.Get("x-ms-documentdb-query-metrics"), ";") {
		name, value, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%q: %v", pair, err)
		}
		metrics[name] = n
	}
	if metrics["retrievedDocumentCount"] != 40 || metrics["outputDocumentCount"] != 20 || metrics["indexUtilizationRatio"] != 0.5 {
		t.Errorf("%v", metrics)
	}
	if metrics["retrievedDocumentSize"] <= metrics["outputDocumentSize"] || metrics["outputDocumentSize"] == 0 {
		t.Errorf("sizes: %v", metrics)
	}
	text, err := base64.StdEncoding.DecodeString(asked.header.Get("x-ms-cosmos-index-utilization"))
	if err != nil || !json.Valid(text) {
		t.Errorf("index metrics %q: %v", text, err)
	}
}
