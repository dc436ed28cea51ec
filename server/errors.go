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
	"github.com/changefeed-go/changefeed/internal/canonical"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// statusError is an error that determines the answer to the client: the status, the
// sub-status and the body.
type statusError struct {
	// by is the part of the service that refuses such a request.
	by                refuser
	status, substatus int
	// code is the member code of the body. If empty, codeOf derives it from the status.
	code string
	// message is the text of the body's message, without what its refuser adds to it.
	message string
	// invalid reports that the gateway found the request malformed.
	invalid bool
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

// refuse returns a statusError of a refuser with the given text.
func refuse(by refuser, status, substatus int, text string) error {
	return &statusError{by: by, status: status, substatus: substatus, message: text}
}

// failure returns a statusError of the gateway with a formatted message.
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

// unsupported returns a 400 error that names a part of the protocol that the server does
// not support.
func unsupported(what string) error {
	return failure(http.StatusBadRequest, wire.SubNone, "%s is not supported by this server", what)
}

// errNotFound is the answer to a request for a missing database or container, or for
// anything in one. As in the service, it has no sub-status, so a client cannot tell a
// missing container from a missing item by it.
var errNotFound = refuse(byBackend, http.StatusNotFound, wire.SubNone, "Resource Not Found. Learn more: https://aka.ms/cosmosdb-tsg-not-found")

// errInternal is the answer to a request whose operation panicked.
var errInternal = failure(http.StatusInternalServerError, wire.SubNone, "the request failed in the server; the log has the cause under the activity id")

// statusClientClosed is the status that logs and metrics show for a request whose client
// disconnected before the answer.
const statusClientClosed = 499

// answerTo converts any error to the status, sub-status and body of an answer. The
// mapping of errors is in statusOf. onItem reports whether the error is of an operation on
// an item, and not on a database, container or another resource.
func answerTo(err error, onItem bool) statusError {
	a := statusOf(err, onItem)
	if a.message == "" {
		a.message = err.Error()
	}
	if a.code == "" {
		a.code = codeOf(a.status)
	}
	return a
}

func statusOf(err error, onItem bool) statusError {
	var (
		status    *statusError
		bad       *storetype.BadRequestError
		large     *storetype.TooLargeError
		throttled *feed.ThrottledError
		gone      *feed.GoneError
		lost      *feed.HistoryLostError
		unique    *storetype.UniqueKeyError
		disk      *storetype.DiskError
		token     *aad.TokenError
		wrong     *querypage.Error
	)
	switch {
	case errors.As(err, &status):
		return *status
	case errors.As(err, &bad):
		return badRequestAnswer(bad)
	case errors.As(err, &large):
		return tooLarge
	case errors.As(err, &token):
		return statusError{status: http.StatusUnauthorized}
	case errors.As(err, &wrong):
		return statusError{status: http.StatusBadRequest, message: wrong.Error(), by: compilerIf(wrong.Compiled())}
	case errors.Is(err, query.ErrNotFinite):
		const form = `{"errors":[{"severity":"Error","code":%d,"message":%s}]}`
		return statusError{
			by: byEvaluator, status: http.StatusBadRequest, substatus: wire.SubNotFinite,
			message: fmt.Sprintf(form, wire.SubNotFinite, jsonString(query.ErrNotFinite.Error())),
		}
	case errors.As(err, &throttled):
		return statusError{
			by: byBackend, status: http.StatusTooManyRequests, substatus: wire.SubThroughput, retryAfter: throttled.RetryAfter,
			message: "Request rate is large. More Request Units may be needed, so no changes were made. Please retry this request later. " +
				"Learn more: http://aka.ms/cosmosdb-error-429",
		}
	case errors.As(err, &gone):
		return statusError{by: byBackend, status: http.StatusGone, substatus: wire.SubPartitionGone}
	case errors.As(err, &lost):
		return statusError{by: byBackend, status: http.StatusBadRequest}
	case errors.As(err, &unique), errors.Is(err, storetype.ErrConflict):
		if !onItem {
			return statusError{by: byBackend, status: http.StatusConflict, message: "Resource with specified id, name, or unique index already exists."}
		}
		return statusError{by: byDocuments, status: http.StatusConflict, message: "Entity with the specified id already exists in the system."}
	case errors.Is(err, storetype.ErrPreconditionFailed):
		return statusError{
			by: byDocuments, status: http.StatusPreconditionFailed,
			message: "Operation cannot be performed because one of the specified precondition is not met.",
		}
	case errors.Is(err, storetype.ErrNotModified):
		return statusError{by: byBackend, status: http.StatusNotModified}
	case errors.Is(err, feed.ErrNotFound):
		if !onItem {
			return *errNotFound.(*statusError) //nolint:errcheck,errorlint // refuse returns no other type
		}
		return statusError{
			by: byDocuments, status: http.StatusNotFound,
			message: "Entity with the specified id does not exist in the system. More info: https://aka.ms/cosmosdb-tsg-not-found",
		}
	case errors.Is(err, feed.ErrUnsupported):
		return statusError{status: http.StatusBadRequest}
	case errors.As(err, &disk), errors.Is(err, storetype.ErrClosed):
		return statusError{status: http.StatusServiceUnavailable}
	case errors.Is(err, context.Canceled):
		return statusError{status: statusClientClosed}
	case errors.Is(err, context.DeadlineExceeded):
		return statusError{status: http.StatusRequestTimeout}
	}
	return statusError{status: http.StatusInternalServerError}
}

func compilerIf(compiled bool) refuser {
	if compiled {
		return byCompiler
	}
	return byGateway
}

// tooLarge is the answer to a body that exceeds a limit.
var tooLarge = statusError{status: http.StatusRequestEntityTooLarge, message: "Request size is too large", by: byBackend, invalid: true}

// badRequestAnswer returns the answer to a request that the store refuses as invalid. Where
// no text of the service is known, it has the store's own.
func badRequestAnswer(bad *storetype.BadRequestError) statusError {
	a := statusError{by: byBackend, status: http.StatusBadRequest}
	var (
		syntax *jsonscan.SyntaxError
		beyond *canonical.RangeError
	)
	switch {
	case errors.Is(bad, layout.ErrFewComponents):
		return *errNoKey.(*statusError) //nolint:errcheck,errorlint // refuse returns no other type
	case bad.Kind == storetype.KeyMismatch:
		a.substatus = wire.SubPartitionKeyMismatch
		a.message = "PartitionKey extracted from document doesn't match the one specified in the header. " +
			"Learn more: https://aka.ms/CosmosDB/sql/errors/wrong-pk-value"
	case errors.Is(bad, layout.ErrNotObject):
		a.message = "One of the specified inputs is invalid"
	case errors.As(bad, &syntax), errors.As(bad, &beyond):
		a.message = "The request payload is invalid. Ensure to provide a valid request payload."
	case errors.Is(bad, layout.ErrNoID):
		a.message = "The input content is invalid because the required properties - 'id; ' - are missing. " +
			"Learn more: https://aka.ms/CosmosDB/sql/errors/missing-id"
	case errors.Is(bad, layout.ErrBadName):
		a.message = "The input name presented contains invalid character."
	}
	return a
}

// errNoKey is the answer to a request that needs the partition key of an item, and has none
// or a part of one.
var errNoKey = refuse(byBackend, http.StatusBadRequest, wire.SubPartitionKeyMismatch,
	"The partition key supplied in x-ms-partitionkey header has fewer components than defined in the the collection.")

// codeOf returns the member code of an error body for a status: the name of the status
// without spaces, such as "NotFound".
func codeOf(status int) string {
	if status == wire.StatusRetryWith {
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
