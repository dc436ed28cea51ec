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

// transport returns the HTTP transport of an account. It is the standard one, including
// the environment's proxies. In addition to the system's certificates it trusts
// certificate, a PEM file, unless that is empty. Errors are of type *[UsageError], and
// name the flag or variable in n.
func transport(certificate string, n names) (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // this program does not replace the default transport
	t.MaxIdleConnsPerHost = 64
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if certificate == "" {
		return t, nil
	}
	pem, err := os.ReadFile(certificate)
	if err != nil {
		return nil, refuse("%s: %v", n.certificateFile(), err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // the system has none
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, refuse("%s: %s has no certificate in PEM", n.certificateFile(), certificate)
	}
	t.TLSClientConfig.RootCAs = roots
	return t, nil
}

// hopeless reports whether a retry cannot fix err. Such errors are an untrusted
// certificate, a server without TLS, an unknown host and, on this machine, a refused
// connection.
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

// Hopeless reports whether a retry cannot fix err, for instance an untrusted certificate
// or a refused connection on this machine.
func Hopeless(err error) bool {
	var hopeless *hopelessError
	return errors.As(err, &hopeless)
}

// hopelessError is an error that a retry cannot fix. azcore does not retry it.
type hopelessError struct{ error }

// Unwrap returns the error underneath.
func (e *hopelessError) Unwrap() error { return e.error }

// NonRetriable is the method by which azcore recognizes errors that it must not retry.
func (*hopelessError) NonRetriable() {}
