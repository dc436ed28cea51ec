package connect

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
)

// transport makes the HTTP transport of an account: the standard one, proxies of the
// environment included, which trusts certificate (a file in PEM; empty: none) besides
// the system's. Error: *[UsageError].
func transport(certificate string) (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // it is one, unless a program replaced it, which this one doesn't
	t.MaxIdleConnsPerHost = 64
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if certificate == "" {
		return t, nil
	}
	pem, err := os.ReadFile(certificate)
	if err != nil {
		return nil, refuse("--certificate: %v", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // a system that has none
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, refuse("--certificate: %s has no certificate in PEM", certificate)
	}
	t.TLSClientConfig.RootCAs = roots
	return t, nil
}
