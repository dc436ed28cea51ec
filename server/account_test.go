package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"testing"
)

// account holds the members of the JSON of GET / that the tests check.
type account struct {
	ID                    string
	WritableLocations     []struct{ DatabaseAccountEndpoint string }
	UserConsistencyPolicy struct{ DefaultConsistencyLevel string }
}

func TestTheAccountNamesTheEndpointThatTheClientReached(t *testing.T) {
	ts := newTestServer(t, Options{})
	var a account
	ts.do("GET", "/", headers{"x-ms-documentdb-query-enablecrosspartition": "true"}, "").want(200).decode(&a)
	if len(a.WritableLocations) != 1 || a.WritableLocations[0].DatabaseAccountEndpoint != "http://example.com/" {
		t.Errorf("writable locations: %+v", a.WritableLocations)
	}
	if a.UserConsistencyPolicy.DefaultConsistencyLevel != "Session" || a.ID != "localhost" {
		t.Errorf("account: %+v", a)
	}
}

func TestTheAccountsEndpointIsTheOneBeforeProxies(t *testing.T) {
	ts := newTestServer(t, Options{})
	for forwarded, want := range map[string]string{
		"https": "https://example.com/", "HTTPS": "https://example.com/", "https, http": "https://example.com/", "http,https": "http://example.com/",
		"": "http://example.com/", "javascript": "http://example.com/", ",": "http://example.com/",
	} {
		var a account
		ts.do("GET", "/", headers{"X-Forwarded-Proto": forwarded}, "").want(200).decode(&a)
		if got := a.WritableLocations[0].DatabaseAccountEndpoint; got != want {
			t.Errorf("X-Forwarded-Proto: %q: the endpoint is %s, want %s", forwarded, got, want)
		}
	}
}

func TestARequestWithoutHostGetsTheListenersAddress(t *testing.T) {
	ts := newTestServer(t, Options{})
	http := httptest.NewServer(ts)
	defer http.Close()
	r := ts.request("GET", "/", nil, "")
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, _ = fmt.Fprintf(c, "GET / HTTP/1.0\r\nx-ms-date: %s\r\nAuthorization: %s\r\n\r\n", r.Header.Get("x-ms-date"), r.Header.Get("Authorization"))
	said, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := bytes.Cut(said, []byte("\r\n\r\n"))
	var a account
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if got, want := a.WritableLocations[0].DatabaseAccountEndpoint, http.URL+"/"; got != want {
		t.Errorf("the endpoint is %s, want %s", got, want)
	}
}
