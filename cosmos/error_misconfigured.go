package cosmos

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/changefeed-go/changefeed/feed"
)

// misconfigured marks an error as a [feed.ErrMisconfigured], and leaves its text as it is.
type misconfigured struct{ error }

// Unwrap returns the error.
func (e misconfigured) Unwrap() error { return e.error }

// Is reports whether target is [feed.ErrMisconfigured].
func (misconfigured) Is(target error) bool { return target == feed.ErrMisconfigured }

// isMismatch reports whether the other side is not the TLS server that the client wants. To try again is of no use.
func isMismatch(err error) bool {
	var untrusted *tls.CertificateVerificationError
	return errors.As(err, &untrusted) || errors.Is(err, http.ErrSchemeMismatch)
}

// explainMismatch names the remedy for such an error of a host, and marks it. It returns any other error as it is.
func explainMismatch(host string, err error) error {
	switch {
	case errors.Is(err, feed.ErrMisconfigured) || !isMismatch(err):
		return err
	case errors.Is(err, http.ErrSchemeMismatch):
		return misconfigured{fmt.Errorf("%w: %s does not speak TLS; begin the endpoint with http://", err, host)}
	}
	return misconfigured{fmt.Errorf("%w: the certificate of %s is not trusted; give Options.Transport a client that trusts it", err, host)}
}
