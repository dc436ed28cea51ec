package lease

import (
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
)

// ErrLost is the cause of a context that ended because the host no longer trusts its
// lease. A checkpoint after that returns it.
var ErrLost = errors.New("lease lost")

// ConflictError reports that a compare-and-set found another document than the expected
// one.
type ConflictError struct {
	// Current is the stored document.
	Current Lease
}

func (e *ConflictError) Error() string {
	owner := e.Current.Owner
	if owner == "" {
		owner = "nobody"
	}
	return fmt.Sprintf("lease %s was changed by another write; its owner is %s", e.Current.Token, owner)
}

// Conflict returns the error of a write of l that found current. If current has no range,
// it gets the range of l.
func (l Lease) Conflict(current Lease) *ConflictError {
	if current.Range.IsZero() && current.Token == l.Token {
		current.Range = l.Range
	}
	return &ConflictError{Current: current}
}

// Verdict is the meaning of a conflict for the owner of a lease. [Judge] returns it.
type Verdict int

// These are the possible verdicts.
const (
	// Lost means that another host owns the lease, or none does. The owner stops and
	// writes nothing.
	Lost Verdict = iota
	// Mine means that an earlier attempt succeeded, or that another host wrote
	// properties, such as an ask. The owner writes again at once, with Current as the
	// base. Only that write renews its trust. If Current has a mark, the owner hands the
	// lease over.
	Mine
	// Moved means that an operator edited the position. The owner stops its worker,
	// writes nothing and lets the lease expire. The next owner starts from that position.
	Moved
)

// String returns the name of the verdict for messages.
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

// Judge returns the meaning of a conflict for owner, whose write found the document
// current. acked is the last position that the store acknowledged. sent is the last
// position that was sent; it equals acked if no write is outstanding.
//
// Judge applies to renewals, checkpoints, releases and put-backs. It also applies to an
// acquire that is repeated because the result of the first attempt is unknown. It does
// not apply to the first attempt of an acquire, because any conflict refuses that.
func Judge(current Lease, owner string, acked, sent feed.Continuation) Verdict {
	switch {
	case owner == "" || current.Owner != owner:
		return Lost
	case current.Continuation == acked || current.Continuation == sent:
		return Mine
	}
	return Moved
}
