package server

import "testing"

func TestTheAccountNamesTheEndpointThatTheClientReached(t *testing.T) {
	ts := newTestServer(t, Options{})
	var a account
	ts.do("GET", "/", headers{"x-ms-documentdb-query-enablecrosspartition": "true"}, "").want(200).decode(&a)
	if len(a.WritableLocations) != 1 || a.WritableLocations[0].Endpoint != "http://example.com/" {
		t.Errorf("writable locations: %+v", a.WritableLocations)
	}
	if a.UserConsistencyPolicy.DefaultConsistencyLevel != "Session" || a.ID != "localhost" {
		t.Errorf("account: %+v", a)
	}
}
