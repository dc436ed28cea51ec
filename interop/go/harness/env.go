package harness

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// Env is what a run of a suite is given, by environment variables.
type Env struct {
	// Endpoint is the server's URL, without a slash at its end (CHANGEFEED_ENDPOINT).
	Endpoint string
	// Key is the account's primary key (CHANGEFEED_KEY).
	Key string
	// ReadOnlyKey reads and writes nothing (CHANGEFEED_READONLY_KEY).
	ReadOnlyKey string
	// CA is the path of the server's certificate, empty over plain HTTP (CHANGEFEED_CA).
	CA string
	// Report is the file that scenarios are reported to, empty for none (CHANGEFEED_REPORT).
	Report string
}

// FromEnvironment reads the environment; the error names the variable that is missing.
func FromEnvironment() (Env, error) {
	e := Env{
		Endpoint:    strings.TrimSuffix(os.Getenv("CHANGEFEED_ENDPOINT"), "/"),
		Key:         os.Getenv("CHANGEFEED_KEY"),
		ReadOnlyKey: os.Getenv("CHANGEFEED_READONLY_KEY"),
		CA:          os.Getenv("CHANGEFEED_CA"),
		Report:      os.Getenv("CHANGEFEED_REPORT"),
	}
	for name, value := range map[string]string{
		"CHANGEFEED_ENDPOINT": e.Endpoint, "CHANGEFEED_KEY": e.Key, "CHANGEFEED_READONLY_KEY": e.ReadOnlyKey,
	} {
		if value == "" {
			return Env{}, fmt.Errorf("%s is not set: the suite runs against a server, see interop/README.md", name)
		}
	}
	return e, nil
}

// Client returns an HTTP client that trusts the server's certificate.
func (e Env) Client() (*http.Client, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	if e.CA != "" {
		pem, err := os.ReadFile(e.CA)
		if err != nil {
			return nil, fmt.Errorf("read the server's certificate: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate in PEM", e.CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport, Timeout: time.Minute}, nil
}
