package cosmos

import (
	"fmt"
	"net/http"
	"regexp"

	"github.com/changefeed-go/changefeed/feed"
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

// failure converts a call's error to the errors of [lease.Store]. 429 becomes a
// *feed.ThrottledError, and a missing right is named. After any other error the result is
// unknown. The caller handles a missing document; see [leaseStore.missed].
func (d *documents) failure(op, action string, err error) error {
	where, line := d.what(), inLine(err)
	switch code, sub := status(err); {
	case code == http.StatusTooManyRequests:
		return fmt.Errorf("%s: %w", op, &feed.ThrottledError{RetryAfter: waitOf(headerOf(err))})
	case isMissing(err):
		return fmt.Errorf("%s: there is no %s: %w", op, where, line)
	case code == http.StatusUnauthorized:
		return unauthorized(op, where, d.account.client.byKey, line)
	case code == http.StatusForbidden && sub != wire.SubNone && sub < subDenied: // the refusal is about the region or the account, not about a right
	case code == http.StatusForbidden && tellsClock(err):
		return wrongClock(op, line)
	case code == http.StatusForbidden && d.account.credential != nil:
		return fmt.Errorf("%s: the identity lacks the right %s on %s: %w", op, missingAction(err, action), where, line)
	case code == http.StatusForbidden:
		return misconfigured{fmt.Errorf("%s: the key does not allow this on %s (leases need a read-write key, and the account must allow keys): %w",
			op, where, line)}
	}
	return fmt.Errorf("%s: %w", op, explainMismatch(d.account.host, line))
}

// what names the container in errors.
func (d *documents) what() string {
	return "container " + d.container + " of database " + d.database + " in " + d.account.host
}

// isAbsent reports whether an error is a 404 response without a sub-status. Then the
// document or its container does not exist. Not every gateway returns 1003 for a missing
// container.
func isAbsent(err error) bool {
	code, sub := status(err)
	return code == http.StatusNotFound && sub == wire.SubNone
}

// isMissing reports whether an error is a 404 response to a request for a container.
func isMissing(err error) bool {
	code, sub := status(err)
	return code == http.StatusNotFound && sub != wire.SubReadSessionNotAvailable
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
