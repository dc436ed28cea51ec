package connect

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/changefeed-go/changefeed/feed"
)

// refused returns the azcore error for an answer with this status and message.
func refused(status int, message string) error {
	return runtime.NewResponseError(&http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{},
		Request: &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: "a.test", Path: "/dbs"}},
		Body:    io.NopCloser(strings.NewReader(fmt.Sprintf(`{"code":"X","message":%q}`, message+"\r\nActivityId: 7"))),
	})
}

// plainText400 is the answer of Go's TLS server to a request without TLS.
var plainText400 = runtime.NewResponseError(&http.Response{
	StatusCode: 400, Status: "400 Bad Request", Header: http.Header{},
	Request: &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "a.test", Path: "/"}},
	Body:    io.NopCloser(strings.NewReader("Client sent an HTTP request to an HTTPS server.\n")),
})

func TestAdviceNamesTheRemedy(t *testing.T) {
	refusal := os.NewSyscallError("connect", syscall.ECONNREFUSED)
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: refusal}
	for want, err := range map[string]error{
		"start `changefeed serve`":         dial,
		"the proxy of HTTPS_PROXY":         &net.OpError{Op: "proxyconnect", Net: "tcp", Err: dial},
		"the local emulators' key":         refused(401, "no"),
		"use https:// in --endpoint":       plainText400,
		"use http:// in --endpoint":        tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
		"check the spelling of --endpoint": &net.DNSError{Name: "a.test", IsNotFound: true},
	} {
		if got := Advice(&url.Error{Op: "Get", URL: "https://a.test/", Err: err}); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestEveryAnswerInAnErrorIsALineAtMost(t *testing.T) {
	first, second := refused(404, "it isn't there"), refused(503, "come again")
	for want, err := range map[string]error{
		"the account answers 404: it isn't there":                                                      first,
		"read 1: the account answers 404: it isn't there; read 2: the account answers 503: come again": fmt.Errorf("read 1: %w; read 2: %w", first, second),
		"a: the account answers 404: it isn't there; the account answers 503: come again":              fmt.Errorf("a: %w", errors.Join(first, second)),
		"no answer": errors.New("no answer"),
		`the existing ones are shop/a\nb\u001b[2J`:                    errors.New("the existing ones are shop/a\nb\x1b[2J"),
		"DefaultAzureCredential: failed. Attempted: A: no":            fmt.Errorf("%w", errors.New("DefaultAzureCredential: failed.\nAttempted:\n\tA: no")),
		"look: the account requires TLS, but the endpoint is http://": fmt.Errorf("look: %w", Plain(plainText400)),
	} {
		if got := Text(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A user who mistyped the port must read that another web server listens there, and not
// the first character of its answer that is not JSON.
func TestAnotherWebServerIsNamedBeforeItsAnswerIsParsed(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }))
	defer s.Close()
	o, err := NewAccount("").OpenSettings(Settings{Endpoint: s.URL, Key: keyA})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = o.Close() }()
	if _, err = o.Documents().Container("shop", "orders").Properties(t.Context()); err == nil || !strings.Contains(err.Error(), s.URL+"/ is not an Azure Cosmos DB endpoint") || !errors.Is(err, feed.ErrMisconfigured) || !strings.Contains(Advice(err), "COSMOS_ENDPOINT") {
		t.Errorf("%v (misconfigured: %t)%s; want the server named, and no retry", err, errors.Is(err, feed.ErrMisconfigured), Advice(err))
	}
}
