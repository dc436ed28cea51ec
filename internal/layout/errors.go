package layout

import (
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/storetype"
)

// These are reasons of a [storetype.BadRequestError], found in its Err. They are for
// callers in this module, which answer with another text for each. Its other reasons are a
// *jsonscan.SyntaxError and a *canonical.RangeError.
var (
	// ErrNotObject: the document is JSON, but not an object.
	ErrNotObject = errors.New("not an object")
	// ErrNoID: the document has no id.
	ErrNoID = errors.New("no id")
	// ErrBadName: the name of a database or container has a character that none may have.
	ErrBadName = errors.New("bad name")
	// ErrFewComponents: the partition key has fewer components than the container's.
	ErrFewComponents = errors.New("too few components")
)

// BadRequest returns a *[storetype.BadRequestError] with a formatted Detail.
func BadRequest(kind storetype.BadRequestKind, format string, args ...any) error {
	return &storetype.BadRequestError{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// BadRequestBy is like BadRequest, with a reason.
func BadRequestBy(cause error, kind storetype.BadRequestKind, format string, args ...any) error {
	return &storetype.BadRequestError{Kind: kind, Detail: fmt.Sprintf(format, args...), Err: cause}
}

// Corrupt returns a *[storetype.CorruptError] with a formatted Detail. Its Dir is left for
// the store, which knows it, to add.
func Corrupt(format string, args ...any) error {
	return &storetype.CorruptError{Detail: fmt.Sprintf(format, args...)}
}
