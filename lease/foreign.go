package lease

import (
	"fmt"
	"strings"
)

// Foreign is a lease document of the same processor in another dialect than the
// store's.
type Foreign struct {
	ID      string
	Dialect Dialect
}

// Refusal is a [*DialectError] when the listing of a store of dialect d shows that
// the store must not be used, else nil. A host looks at it when it starts:
//
//   - There are leases of another dialect. Both processors would process every
//     change; and where the ids are the same, each would destroy the other's leases.
//     A marker alone is no evidence: Java's second dialect makes the first's, too.
//   - There is a marker and no lease, in JavaHandleChanges. That is what an upgrade
//     to Java's second dialect leaves; or somebody deleted the leases. New ones
//     would process everything again, beside those hosts.
func (l Listing) Refusal(d Dialect) error {
	if len(l.Foreign) > 0 {
		return refusal(d, l.Foreign)
	}
	if l.upgraded(d) {
		return &DialectError{
			Found: "the lease container has this processor's marker (.info) and none of its leases, as an upgrade to " + JavaLatestVersion.String() +
				" leaves it when that processor's leases are elsewhere by now, or somebody who deletes leases",
			Remedy: "go on in that dialect; or, if the leases were deleted to start over, delete the marker as well (`changefeed leases delete --all`)",
		}
	}
	return nil
}

// upgraded reports whether a store of dialect d looks as after an upgrade by Java's
// handleLatestVersionChanges, or wiped: no lease may be created, nor put back.
func (l Listing) upgraded(d Dialect) bool {
	return d == JavaHandleChanges && !l.Initialized.IsZero() && len(l.Leases) == 0 && len(l.Unreadable) == 0
}

func refusal(d Dialect, found []Foreign) *DialectError {
	other := found[0].Dialect
	e := &DialectError{Found: fmt.Sprintf("lease %s is in %s, and the lease store is in %s", found[0].ID, other, d)}
	if len(found) > 1 {
		e.Found = fmt.Sprintf("%d leases, %s among them, are in %s, and the lease store is in %s", len(found), found[0].ID, other, d)
	}
	e.Remedy = fmt.Sprintf("to go on with them, use the dialect %q for the leases, or convert them to %q with `changefeed leases convert` "+
		"while no host runs; to leave them alone, use another processor name or another lease container", other.Name(), d.Name())
	return e
}

// foreignError tells that a document under the codec's own prefix is one of another
// dialect.
type foreignError struct{ dialect Dialect }

func (e *foreignError) Error() string { return "it is in " + e.dialect.String() }

// elsewhere tells in which dialect a document is that is none by its id in the
// codec's own.
func (c Codec) elsewhere(id string, doc []byte) (Dialect, bool) {
	for _, d := range []Dialect{JavaHandleChanges, DotNet, JavaLatestVersion} {
		prefix, err := d.prefix(c.key)
		if d == c.dialect || err != nil || !strings.HasPrefix(id, prefix+separator) {
			continue
		}
		if d == JavaHandleChanges {
			return d, true
		}
		// The other two have the same prefix where the host is in lower case.
		return rangeDialect(doc), true
	}
	return DotNet, false
}

// rangeDialect tells the documents of DotNet and JavaLatestVersion apart, which may
// have the same ids: by the member that holds the range, else by the position.
func rangeDialect(doc []byte) Dialect {
	found := DotNet
	_ = scan(doc, func(m member) error { // what isn't JSON is nobody's
		switch string(m.key()) {
		case "feedRange":
			found = JavaLatestVersion
		case "ContinuationToken":
			if text, err := m.text(); err == nil && isWrapped(text) {
				found = JavaLatestVersion
			}
		}
		return nil
	})
	return found
}
