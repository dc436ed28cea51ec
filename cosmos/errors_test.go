package cosmos

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// response returns a response that refuses a call, with the given body, as the transport
// returns it.
func response(body string) *http.Response {
	header := http.Header{}
	header.Set(wire.HeaderSubStatus, "1003")
	header.Set(wire.HeaderActivityID, "activity-7")
	return &http.Response{
		StatusCode: 404, Status: "404 Not Found", Header: header,
		Request: &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: "a.test", Path: "/dbs"}},
		Body:    io.NopCloser(strings.NewReader(body)),
	}
}

// azcore prints a refusal over ten lines, which make a log unreadable. This package's
// error must have one line, and Details must return azcore's text.
func TestServiceErrorIsOneLineAndKeepsItsDetails(t *testing.T) {
	const body = `{"code":"NotFound","message":"Owner resource does not exist\r\nActivityId: 7, more"}`
	a, err := newAnswer(response(body)) //nolint:bodyclose // the body is a text
	if err != nil {
		t.Fatal(err)
	}
	store := &leaseStore{documentClient: newDocumentClient(&address{&Account{client: &client{}}, "db", "leases"}, "lease")}
	for name, err := range map[string]error{
		"feed":   refusal{what: "container c"}.failure("read the feed", a),
		"leases": store.failure(&call{op: "read lease 0"}, actionRead, a),
	} {
		const want = "the account answers 404/1003: Owner resource does not exist (activity activity-7)"
		if text := err.Error(); strings.Contains(text, "\n") || strings.Contains(text, "RESPONSE 404") || !strings.Contains(text, want) {
			t.Errorf("%s: %q; want %q on one line", name, text, want)
		}
		var refused *azcore.ResponseError
		var long interface{ Details() string }
		if !errors.As(err, &refused) || !errors.As(err, &long) || !strings.Contains(long.Details(), "RESPONSE 404") {
			t.Errorf("%s: azcore's error is lost: %v", name, err)
		}
	}
	login := errors.New("DefaultAzureCredential: failed to acquire a token.\nAttempted credentials:\n\tEnvironmentCredential: no")
	if text := inLine(login).Error(); text != "DefaultAzureCredential: failed to acquire a token. Attempted credentials: EnvironmentCredential: no" {
		t.Errorf("%q", text)
	}
	for body, want := range map[string]string{"": "no message", "<html>\nmore": "404/1003: <html> (", strings.Repeat("x", 9999): "xxx ("} {
		refused := runtime.NewResponseError(response(body)) //nolint:bodyclose // the body is a text
		if text := inLine(refused).Error(); len(text) > 700 || body != "" && !strings.Contains(text, want) {
			t.Errorf("%.20q: %q; want %q", body, text, want)
		}
	}
}
