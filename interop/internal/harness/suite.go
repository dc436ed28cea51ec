package harness

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Env contains the values of the environment variables that configure a run of a suite in
// Go.
type Env struct {
	// Endpoint is the server's URL without a trailing slash (CHANGEFEED_ENDPOINT). If
	// empty, the suite has no server.
	Endpoint string
	// Key is the account's primary key (CHANGEFEED_KEY).
	Key string
	// ReadOnlyKey is a key that permits reads only (CHANGEFEED_READONLY_KEY).
	ReadOnlyKey string
	// HTTP is a client that trusts the server's certificate (CHANGEFEED_CA, if set).
	HTTP *http.Client
	// Admin calls the server's admin API.
	Admin *Client

	report string // path of the report file, if any (CHANGEFEED_REPORT)
}

// FromEnvironment reads the environment. Without CHANGEFEED_ENDPOINT it returns the zero
// Env. It returns an error that names a missing or invalid variable.
func FromEnvironment() (Env, error) {
	e := Env{
		Endpoint:    strings.TrimSuffix(os.Getenv("CHANGEFEED_ENDPOINT"), "/"),
		Key:         os.Getenv("CHANGEFEED_KEY"),
		ReadOnlyKey: os.Getenv("CHANGEFEED_READONLY_KEY"),
		HTTP:        newHTTPClient(),
		report:      os.Getenv("CHANGEFEED_REPORT"),
	}
	if e.Endpoint == "" {
		return Env{}, nil
	}
	if e.ReadOnlyKey == "" {
		return Env{}, fmt.Errorf("CHANGEFEED_READONLY_KEY is not set; see interop/README.md")
	}
	if ca := os.Getenv("CHANGEFEED_CA"); ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return Env{}, fmt.Errorf("CHANGEFEED_CA: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return Env{}, fmt.Errorf("CHANGEFEED_CA: %s has no certificate in PEM", ca)
		}
		e.HTTP.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} //nolint:errcheck // the transport has this type
	}
	var err error
	if e.Admin, err = NewClient(e.Endpoint, e.Key); err != nil {
		return Env{}, fmt.Errorf("CHANGEFEED_KEY: %w", err)
	}
	e.Admin.http = e.HTTP
	return e, nil
}

func newHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
}

// Main runs the tests of a package and returns the exit status. Without a server it runs
// no tests, so `go test ./...` skips the suites.
func (e Env) Main(m *testing.M) int {
	if e.Endpoint == "" {
		fmt.Println("not run: CHANGEFEED_ENDPOINT is not set; see interop/README.md") //nolint:forbidigo // the output of a test
		return 0
	}
	return m.Run()
}

// Scenario runs a scenario of interop/scenarios.json as a subtest, and appends its
// outcome to the report. If a scenario ends the process, the report lacks it, and the
// runner counts it as failed.
func (e Env) Scenario(t *testing.T, name string, run func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Cleanup(func() {
			line := name + "\tok\n"
			if t.Failed() || t.Skipped() {
				line = name + "\tfailed\tsee the suite's output\n"
			}
			if err := e.append(line); err != nil {
				t.Errorf("report: %v", err)
			}
		})
		run(t)
	})
}

// reporting guards the report file, because scenarios run in parallel.
var reporting sync.Mutex

func (e Env) append(line string) error {
	if e.report == "" {
		return nil
	}
	reporting.Lock()
	defer reporting.Unlock()
	f, err := os.OpenFile(e.report, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
