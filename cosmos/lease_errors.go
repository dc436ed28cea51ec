package cosmos

import (
	"fmt"
	"net/http"
	"regexp"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// The actions of the role-based access control of Cosmos DB that calls need.
const (
	actionMetadata  = "Microsoft.DocumentDB/databaseAccounts/readMetadata"
	actionContainer = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/write"
	actionQuery     = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/executeQuery"
	actionRead      = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/read"
	actionCreate    = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/create"
	actionReplace   = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/replace"
	actionDelete    = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/delete"
)

// subDenied is where the sub-statuses of denied rights begin: 5300 and others are of role-based access control, 52xx of
// accounts that don't allow keys.
const subDenied = 5000

// failure converts a call's error into the terms of [lease.Store]: 429 is *feed.ThrottledError, and a missing
// right is named. After any other error the outcome is unknown. A document that is not found is the caller's:
// see [leaseStore.missed].
func (d *documents) failure(op, action string, err error) error {
	where, line := d.what(), inLine(err)
	switch code, sub := status(err); {
	case code == http.StatusTooManyRequests:
		return fmt.Errorf("%s: %w", op, &feed.ThrottledError{RetryAfter: waitOf(headerOf(err))})
	case isMissing(err):
		return fmt.Errorf("%s: there is no %s any more: %w", op, where, line)
	case code == http.StatusUnauthorized:
		return unauthorized(op, where, d.account.client.byKey, line)
	case code == http.StatusForbidden && sub != wire.SubNone && sub < subDenied: // of the region or the account, not of rights
	case code == http.StatusForbidden && tellsClock(err):
		return wrongClock(op, line)
	case code == http.StatusForbidden && d.account.credential != nil:
		return fmt.Errorf("%s: the identity lacks the right %s on %s: %w", op, missingAction(err, action), where, line)
	case code == http.StatusForbidden:
		return misconfigured{fmt.Errorf("%s: the key doesn't allow this on %s (leases need a read-write key, and the account must allow keys): %w",
			op, where, line)}
	}
	return fmt.Errorf("%s: %w", op, explainMismatch(d.account.host, line))
}

// what names the container in errors.
func (d *documents) what() string {
	return "container " + d.container + " of database " + d.database + " in " + d.account.host
}

// isAbsent reports whether an error is the answer 404 without a sub-status. It means that the document, or its
// container, does not exist: gateways answer 1003 for a missing container only in part.
func isAbsent(err error) bool {
	code, sub := status(err)
	return code == http.StatusNotFound && sub == wire.SubNone
}

// isMissing reports whether an error is the answer 404 to a request for a container.
func isMissing(err error) bool {
	code, sub := status(err)
	return code == http.StatusNotFound && sub != wire.SubReadSessionNotAvailable
}

// The service says: ... does not have required RBAC permissions to perform action [Microsoft.DocumentDB/...] on resource [...].
var deniedAction = regexp.MustCompile(`\[(Microsoft\.DocumentDB/[A-Za-z/*]+)\]`)

// missingAction is the action that the service names, or the one that the call is known to need.
func missingAction(err error, action string) string {
	if m := deniedAction.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return action
}
