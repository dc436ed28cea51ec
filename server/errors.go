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

// statusError is an error of the protocol with the content of its answer.
type statusError struct {
	status, substatus int
	// code is the code in the body. If it is empty, the code is derived from the status.
	code    string
	message string
	// info is additionalErrorInfo in the body: the plan of a query that one request
	// cannot serve.
	info string
	// retryAfter is the time after which the client may retry. It is not sent if it is 0.
	retryAfter time.Duration
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%d/%d: %s", e.status, e.substatus, e.message)
}

// failure returns a statusError.
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

// unsupported returns the answer to a request for a part of the protocol that the server
// does not support.
func unsupported(what string) error {
	return failure(http.StatusBadRequest, wire.SubNone, "%s is not supported by this server", what)
}

// ownerNotFound returns the answer to a request whose owner resource does not exist.
func ownerNotFound(err error) error {
	return &statusError{status: http.StatusNotFound, substatus: wire.SubOwnerNotFound, message: "Owner resource does not exist: " + err.Error()}
}

// errInternal is the answer after a panic.
var errInternal = failure(http.StatusInternalServerError, wire.SubNone, "the request failed in the server; the log has the cause under the activity id")

// statusClientClosed is the status of a request whose client has disconnected. Only logs
// and metrics show it.
const statusClientClosed = 499

// answerTo returns the answer to an error. Only statusOf maps errors to statuses.
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
		// The other item is not named, because a resource token may permit only this
		// item.
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

// statusRetryWith is a status of the service. It means that a write conflicted with
// another one, and that the client should retry.
const statusRetryWith = 449

// codeOf returns the code of a status, as the service writes it: its name without spaces.
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
