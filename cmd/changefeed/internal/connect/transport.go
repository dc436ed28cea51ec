package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"
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

// sender sends requests, and keeps SDKs from trying again what can't succeed: their pauses would only
// put off the message.
type sender struct{ *http.Client }

// Do implements policy.Transporter.
func (s sender) Do(r *http.Request) (*http.Response, error) {
	answer, err := s.Client.Do(r)
	if err != nil && hopeless(err, r.URL.Hostname()) {
		return nil, &hopelessError{err}
	}
	return answer, err
}

// hopeless reports whether an error is about who answers, and not about how: a certificate that isn't trusted, no TLS, no such host,
// and on this machine nobody who listens.
func hopeless(err error, host string) bool {
	var (
		certificate *tls.CertificateVerificationError
		dns         *net.DNSError
	)
	switch {
	case errors.As(err, &certificate), errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &dns) && dns.IsNotFound:
		return true
	}
	return errors.Is(err, syscall.ECONNREFUSED) && onThisMachine(host)
}

// hopelessError is an error after which azcore doesn't try again.
type hopelessError struct{ error }

// Unwrap returns the error underneath.
func (e *hopelessError) Unwrap() error { return e.error }

// NonRetriable is how azcore knows.
func (*hopelessError) NonRetriable() {}
