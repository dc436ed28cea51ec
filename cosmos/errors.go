package cosmos

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/rest"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// These are the rights that the calls require, as role-based access control names them.
const (
	actionMetadata  = "Microsoft.DocumentDB/databaseAccounts/readMetadata"
	actionContainer = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/write"
	actionQuery     = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/executeQuery"
	actionRead      = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/read"
	actionCreate    = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/create"
	actionReplace   = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/replace"
	actionDelete    = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/delete"
)

// subDenied is the lowest sub-status of denied rights. 5300 and others belong to
// role-based access control. 52xx belong to accounts that do not allow keys.
const subDenied = 5000

// refusal describes a call for the error that failure returns if the service refuses the
// call. Source itself handles refusals that only a further request can explain: 410, and
// a page of another container.
type refusal struct {
	// what names the resource: "container orders of database shop in account HOST".
	what string
	// action is the right that the call requires.
	action string
	// byKey reports whether the call was signed with an account key.
	byKey bool
}

// failure returns the error of a response:
//
//	400        the client sends HTTP to a server of HTTPS: feed.ErrMisconfigured
//	401        the credentials are refused; with a key: feed.ErrMisconfigured
//	403        a right is missing, or the account's firewall refuses the client; with a
//	           key: feed.ErrMisconfigured; or this machine's clock is wrong
//	404        feed.ErrNotFound; but 1002 is a replica that lags, which is temporary; see also
//	           [Source.refused]
//	429        *feed.ThrottledError
//	others     the response itself: a temporary failure, or one without a remedy here
func (f refusal) failure(op string, a *answer) error {
	switch {
	case a.status == http.StatusTooManyRequests:
		return fmt.Errorf("%s: %w (activity %s)", op, &feed.ThrottledError{RetryAfter: a.wait()}, a.header.Get(wire.HeaderActivityID))
	case a.is(http.StatusNotFound, wire.SubReadSessionNotAvailable):
		return fmt.Errorf("%s: no region has the session's writes yet: %w", op, inLine(a.failure))
	case a.status == http.StatusNotFound:
		return fmt.Errorf("%s: %s: %w; check both names, or create it: %w", op, f.what, feed.ErrNotFound, inLine(a.failure))
	case a.status == http.StatusUnauthorized:
		return unauthorized(op, f.what, f.byKey, inLine(a.failure))
	case wire.RequiresTLS(a.status, a.failure.Error()):
		return misconfigured{fmt.Errorf("%s: the server of %s speaks TLS; begin the endpoint with https://: %w", op, f.what, inLine(a.failure))}
	case a.status == http.StatusForbidden && tellsClock(a.failure):
		return wrongClock(op, inLine(a.failure))
	case a.status == http.StatusForbidden && (a.sub() == wire.SubNone || a.sub() >= subDenied):
		right, line := missingAction(a.failure, f.action), inLine(a.failure)
		if f.byKey {
			return misconfigured{fmt.Errorf("%s: the key does not allow this on %s: it needs the right %s (leases need a read-write key, as bulk "+
				"writes do, and the account must allow keys), and the account's firewall must let this client in: %w", op, f.what, right, line)}
		}
		// Not final, because a new role takes effect after some minutes.
		return fmt.Errorf("%s: the identity lacks the right %s on %s, or the account's firewall refuses this client: %w", op, right, f.what, line)
	}
	return fmt.Errorf("%s: %w", op, inLine(a.failure))
}

// deniedAction matches the action in the service's message: "... does not have required
// RBAC permissions to perform action [Microsoft.DocumentDB/...] on resource [...]."
var deniedAction = regexp.MustCompile(`\[(Microsoft\.DocumentDB/[A-Za-z/*]+)\]`)

// missingAction returns the action in the service's message, or else the action that the
// call requires.
func missingAction(err error, action string) string {
	if m := deniedAction.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return action
}

// tellsClock reports whether a 403 response is about this machine's clock. The error is
// temporary, because the clock can be corrected.
func tellsClock(answer error) bool {
	return strings.Contains(answer.Error(), "not valid at the current time")
}

func wrongClock(op string, answer error) error {
	return fmt.Errorf("%s: the clock of this machine differs from the account's: %w", op, answer)
}

// unauthorized returns the error of a 401 response.
func unauthorized(op, what string, byKey bool, answer error) error {
	if byKey {
		return misconfigured{fmt.Errorf("%s: the key is refused for %s: it belongs to another account or was renewed; use a current key of the account: %w",
			op, what, answer)}
	}
	return fmt.Errorf("%s: the token is refused for %s: %w", op, what, answer)
}

// RecreatedError reports that a container was deleted and recreated under its name.
// Because positions and leases for the old container mean nothing in the new one, a
// [Source] that has used the old one refuses to continue. The error wraps
// [feed.ErrNotFound].
//
// To read the new container from its own start, create a new Source and a new processor.
// Since leases in .NET's dialect have the container's rid in their ids, the processor
// finds none and creates new ones.
type RecreatedError struct {
	// Database and Container are names.
	Database, Container string
	// OldRID is the rid of the container that was read, and NewRID that of the current one,
	// or empty if the service does not report it.
	OldRID, NewRID string
}

func (e *RecreatedError) Error() string {
	is := ""
	if e.NewRID != "" {
		is = ", and it is now " + e.NewRID
	}
	return fmt.Sprintf("container %s of database %s was deleted and recreated: its rid was %s%s; leases and positions of the old one are not valid; "+
		"start with a new Source", e.Container, e.Database, e.OldRID, is)
}

// Unwrap returns [feed.ErrNotFound], because the container that was read is gone.
func (e *RecreatedError) Unwrap() error { return feed.ErrNotFound }

// answerError is an error with a text of one line. The texts of azcore's errors are whole
// responses over many lines, which make a log unreadable. errors.As finds azcore's error
// in it.
type answerError struct {
	err  error
	line string
}

func (e *answerError) Error() string { return e.line }

// Unwrap returns the error with azcore's text.
func (e *answerError) Unwrap() error { return e.err }

// Details returns azcore's text. The processor logs it at level debug.
func (e *answerError) Details() string { return e.err.Error() }

// inLine returns err with a text of one line. If err has such a text, it returns err
// unchanged.
func inLine(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	var refused *azcore.ResponseError
	if errors.As(err, &refused) {
		text = strings.ReplaceAll(text, refused.Error(), rest.Line(refused))
	} else if !strings.Contains(text, "\n") {
		return err
	}
	return &answerError{err, strings.Join(strings.Fields(text), " ")}
}

// misconfigured marks an error as a [feed.ErrMisconfigured] without changing its text.
type misconfigured struct{ error }

// Unwrap returns the error.
func (e misconfigured) Unwrap() error { return e.error }

// Is reports whether target is [feed.ErrMisconfigured].
func (misconfigured) Is(target error) bool { return target == feed.ErrMisconfigured }

// isMismatch reports whether the server is not the TLS server that the client requires. A
// retry has no effect.
func isMismatch(err error) bool {
	var untrusted *tls.CertificateVerificationError
	return errors.As(err, &untrusted) || errors.Is(err, http.ErrSchemeMismatch)
}

// explainMismatch adds the remedy to an error that isMismatch reports, and marks it as a
// [feed.ErrMisconfigured]. It returns any other error unchanged.
func explainMismatch(host string, err error) error {
	switch {
	case errors.Is(err, feed.ErrMisconfigured) || !isMismatch(err):
		return err
	case errors.Is(err, http.ErrSchemeMismatch):
		return mismatch{misconfigured{fmt.Errorf("%w: %s does not speak TLS", err, host)}, "begin the endpoint with http://"}
	}
	return mismatch{misconfigured{fmt.Errorf("%w: the certificate of %s is not trusted", err, host)}, "give Options.Transport a client that trusts it"}
}

// mismatch is an error that isMismatch reports, with the remedy at its end.
type mismatch struct {
	misconfigured
	remedy string
}

func (e mismatch) Error() string { return e.misconfigured.Error() + "; " + e.remedy }

// Remedy returns the end of the error's text. A program that has flags for the account puts
// its own remedy there.
func (e mismatch) Remedy() string { return e.remedy }

// Unwrap returns the error without the remedy.
func (e mismatch) Unwrap() error { return e.misconfigured }
