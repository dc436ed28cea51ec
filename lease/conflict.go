package lease

import (
	"errors"
	"fmt"
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
