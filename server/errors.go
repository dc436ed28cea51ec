package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/aad"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// statusError is an error that determines the answer to the client: the status, the
// sub-status and the body.
type statusError struct {
	status, substatus int
	// code is the member code of the body. If empty, codeOf derives it from the status.
	code    string
	message string
	// info is the member additionalErrorInfo of the body. It holds the plan of a query
	// that one request cannot serve.
	info string
	// retryAfter is sent as the time after which the client may retry. If 0, no time is
	// sent.
	retryAfter time.Duration
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%d/%d: %s", e.status, e.substatus, e.message)
}

// failure returns a statusError with a formatted message.
func failure(status, substatus int, format string, args ...any) error {
	return &statusError{status: status, substatus: substatus, message: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return failure(http.StatusBadRequest, wire.SubNone, format, args...)
}

func forbidden(format string, args ...any) error {
	return failure(http.StatusForbidden, wire.SubNone, format, args...)
}

func unauthorized(format string, args ...any) error {
	return failure(http.StatusUnauthorized, wire.SubNone, format, args...)
}

func tooLarge(format string, args ...any) error {
	return failure(http.StatusRequestEntityTooLarge, wire.SubNone, format, args...)
}

// unsupported returns a 400 error that names a part of the protocol that the server does
// not support.
func unsupported(what string) error {
	return failure(http.StatusBadRequest, wire.SubNone, "%s is not supported by this server", what)
}

// ownerNotFound returns a 404 error for a missing database or container, of which the
// request addresses a part. Its sub-status distinguishes it from a missing item.
func ownerNotFound(err error) error {
	return &statusError{status: http.StatusNotFound, substatus: wire.SubOwnerNotFound, message: "Owner resource does not exist: " + err.Error()}
}

// errInternal is the answer to a request whose operation panicked.
var errInternal = failure(http.StatusInternalServerError, wire.SubNone, "the request failed in the server; the log has the cause under the activity id")

// statusClientClosed is the status that logs and metrics show for a request whose client
// disconnected before the answer.
const statusClientClosed = 499

// answerTo converts any error to the status, sub-status and body of an answer. The
// mapping of errors is in statusOf.
func answerTo(err error) statusError {
	a := statusOf(err)
	if a.message == "" {
		a.message = err.Error()
	}
	if a.code == "" {
		a.code = codeOf(a.status)
	}
	return a
}

func statusOf(err error) statusError {
	var (
		status    *statusError
		bad       *engine.BadRequestError
		large     *engine.TooLargeError
		throttled *feed.ThrottledError
		gone      *feed.GoneError
		lost      *feed.HistoryLostError
		unique    *engine.UniqueKeyError
		disk      *engine.DiskError
		token     *aad.TokenError
		wrong     *querypage.Error
	)
	switch {
	case errors.As(err, &status):
		return *status
	case errors.As(err, &bad):
		if bad.Kind == engine.KeyMismatch {
			return statusError{status: http.StatusBadRequest, substatus: wire.SubPartitionKeyMismatch}
		}
		return statusError{status: http.StatusBadRequest}
	case errors.As(err, &large):
		return statusError{status: http.StatusRequestEntityTooLarge}
	case errors.As(err, &token):
		return statusError{status: http.StatusUnauthorized}
	case errors.As(err, &wrong):
		return statusError{status: http.StatusBadRequest, message: wrong.Error()}
	case errors.As(err, &throttled):
		return statusError{
			status: http.StatusTooManyRequests, substatus: wire.SubThroughput, retryAfter: throttled.RetryAfter,
			message: "Request rate is large. The provisioned throughput is used up; try again after the time in x-ms-retry-after-ms.",
		}
	case errors.As(err, &gone):
		return statusError{status: http.StatusGone, substatus: wire.SubPartitionGone}
	case errors.As(err, &lost):
		return statusError{status: http.StatusBadRequest}
	case errors.As(err, &unique):
		// The message does not name the item that already has the value. A resource token
		// may not permit that item.
		return statusError{
			status:  http.StatusConflict,
			message: fmt.Sprintf("Unique index constraint violation. Another item has the same values at %s.", strings.Join(unique.Paths, ", ")),
		}
	case errors.Is(err, engine.ErrConflict):
		return statusError{status: http.StatusConflict}
	case errors.Is(err, engine.ErrPreconditionFailed):
		return statusError{status: http.StatusPreconditionFailed}
	case errors.Is(err, engine.ErrNotModified):
		return statusError{status: http.StatusNotModified}
	case errors.Is(err, feed.ErrNotFound):
		return statusError{status: http.StatusNotFound}
	case errors.Is(err, feed.ErrUnsupported):
		return statusError{status: http.StatusBadRequest}
	case errors.As(err, &disk), errors.Is(err, engine.ErrClosed):
		return statusError{status: http.StatusServiceUnavailable}
	case errors.Is(err, context.Canceled):
		return statusError{status: statusClientClosed}
	case errors.Is(err, context.DeadlineExceeded):
		return statusError{status: http.StatusRequestTimeout}
	}
	return statusError{status: http.StatusInternalServerError}
}

// statusRetryWith is the service's status 449: the write conflicted with another write,
// and the client should retry.
const statusRetryWith = 449

// codeOf returns the member code of an error body for a status: the name of the status
// without spaces, such as "NotFound".
func codeOf(status int) string {
	if status == statusRetryWith {
		return "RetryWith"
	}
	name := strings.ReplaceAll(http.StatusText(status), " ", "")
	switch {
	case name != "":
		return name
	case status < http.StatusInternalServerError:
		return "BadRequest"
	}
	return "InternalServerError"
}
