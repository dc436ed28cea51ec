package lease

import (
	"errors"
	"fmt"
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

// DialectError tells that a lease container can't be used as it is.
type DialectError struct {
	// Found says what is there, and Remedy what to do.
	Found, Remedy string
}

func (e *DialectError) Error() string { return e.Found + "; " + e.Remedy }
