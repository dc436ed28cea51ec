package lease

import (
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
)

// ErrLost is the cause of a context that ended because the host may no longer
// trust its lease, and the error of a checkpoint after that.
var ErrLost = errors.New("lease lost")

// ConflictError tells that a compare-and-set found another document than the
// one expected.
type ConflictError struct {
	// Current is the document as it is now.
	Current Lease
}

func (e *ConflictError) Error() string {
	owner := e.Current.Owner
	if owner == "" {
		owner = "nobody"
	}
	return fmt.Sprintf("lease %s was changed meanwhile; it is owned by %s", e.Current.Token, owner)
}

// Conflict returns the error of a write of l that found current. Where the document of
// current has no range it has that of l.
func (l Lease) Conflict(current Lease) *ConflictError {
	if current.Range.IsZero() && current.Token == l.Token {
		current.Range = l.Range
	}
	return &ConflictError{Current: current}
}

// Verdict tells the owner of a lease what a conflict means.
type Verdict int

// The verdicts.
const (
	// Lost: somebody else owns the lease, or nobody. Stop, write nothing.
	Lost Verdict = iota
	// Mine: an earlier attempt arrived, or somebody wrote properties (an ask).
	// Current is the base of the next write, which is sent at once; trust comes from
	// that write, not from the conflict. A mark in Current: hand over.
	Mine
	// Moved: somebody edited the position. Stop the worker, write nothing, let
	// the lease expire; whoever acquires it then starts over from that position.
	Moved
)

// String names the verdict for messages.
func (v Verdict) String() string {
	switch v {
	case Mine:
		return "mine"
	case Moved:
		return "moved"
	case Lost:
	}
	return "lost"
}

// Judge tells what current, the document that answered a write of owner's with a
// conflict, means to it: acked is the last position that the store acknowledged,
// sent the last one that was sent (the same, when nothing is under way). It holds
// for renewals, checkpoints, releases, put backs, and for an acquire that is
// repeated because its first outcome is unknown; not for the first attempt of an
// acquire, which a conflict always refuses.
func Judge(current Lease, owner string, acked, sent feed.Continuation) Verdict {
	switch {
	case owner == "" || current.Owner != owner:
		return Lost
	case current.Continuation == acked || current.Continuation == sent:
		return Mine
	}
	return Moved
}
