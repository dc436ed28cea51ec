package connect

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
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

// introduction sends requests of azcosmos. With its first one that asks for the account, on a context of its own, and holds
// the first up for as long as there is no answer, a minute at most: so that one ends with the command's context.
type introduction struct {
	sender
	command context.Context //nolint:containedctx // the requests have contexts of their own, which azcosmos keeps from ending
}

// Do implements policy.Transporter.
func (s introduction) Do(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "" && r.URL.Path != "/" {
		return s.sender.Do(r)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.command, cancel)() //nolint:contextcheck // its end is what the request is to notice
	answer, err := s.sender.Do(r.WithContext(ctx))
	if err == nil {
		var body []byte
		body, err = io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		answer.Body = io.NopCloser(bytes.NewReader(body))
	}
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		return nil, &hopelessError{context.Canceled}
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
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

// Hopeless reports whether err is about who answers, such as a certificate that is not trusted, or
// nobody who listens on this machine.
func Hopeless(err error) bool {
	var hopeless *hopelessError
	return errors.As(err, &hopeless)
}

// hopelessError is an error after which azcore doesn't try again.
type hopelessError struct{ error }

// Unwrap returns the error underneath.
func (e *hopelessError) Unwrap() error { return e.error }

// NonRetriable is how azcore knows.
func (*hopelessError) NonRetriable() {}
