package lease

import (
	"errors"
	"fmt"
)

// ErrLost is the cause of a handler's context that ended because the host no longer
// trusts its lease (see [context.Cause]), and what a checkpoint after that returns.
// Another host may already process the same changes.
var ErrLost = errors.New("lease lost")

// ConflictError reports that a compare-and-set found another document than the expected
// one. Decide by Current whether to try again.
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

// Conflict returns the error for a write of l that found current instead. If current has
// no range, it gets l's.
func (l Lease) Conflict(current Lease) *ConflictError {
	if current.Range.IsZero() && current.Token == l.Token {
		current.Range = l.Range
	}
	return &ConflictError{Current: current}
}
