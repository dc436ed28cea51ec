package cosmos

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/changefeed-go/changefeed/internal/uncleared"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// maxBody is the maximum size of a response in bytes. A page of the service has about 4
// MB. Previous images, and transactions, which are never cut, make it larger.
const maxBody = 128 << 20

// errTooLarge reports that a response is too large to read.
var errTooLarge = fmt.Errorf("the response is larger than %d MiB; use fewer items per page", maxBody>>20)

// bodyRead is the body of a response that is already in memory.
type bodyRead struct {
	*bytes.Reader
	text []byte
}

// Close does nothing, because the connection was returned before.
func (bodyRead) Close() error { return nil }

// readBody reads a response's body into a buffer of its length and returns the
// connection. It returns an error if the body is truncated.
func readBody(r *http.Response) error {
	defer func() { _ = r.Body.Close() }() // an error of Close does not matter: the body was read, or its error is returned
	var (
		text []byte
		err  error
	)
	switch n := r.ContentLength; {
	case n > maxBody:
		return final{errTooLarge}
	case n >= 0:
		text = uncleared.Bytes(int(n))[:n:n] // make would clear it, a twentieth of the time to read and split a large page
		_, err = io.ReadFull(r.Body, text)
	default: // the length is unknown: the body is compressed or in chunks
		text, err = io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if len(text) > maxBody {
			return final{errTooLarge}
		}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	r.Body = bodyRead{bytes.NewReader(text), text}
	return nil
}

// newAnswer converts a response whose body was read.
func newAnswer(r *http.Response) (*answer, error) {
	a := &answer{status: r.StatusCode, header: r.Header}
	if b, ok := r.Body.(bodyRead); ok {
		a.body = b.text
	} else { // a policy of the user has replaced the body
		text, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		_ = r.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("read the response: %w", err)
		}
		a.body = text
		r.Body = bodyRead{bytes.NewReader(text), text}
	}
	switch r.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusMultiStatus, http.StatusNotModified:
		return a, nil
	}
	if !errors.As(runtime.NewResponseError(r), &a.failure) {
		return nil, fmt.Errorf("the response has status %s and cannot be read", r.Status)
	}
	return a, nil
}

// sub returns the sub-status. It is 0 if the response has none.
func (a *answer) sub() int {
	n, err := strconv.Atoi(a.header.Get(wire.HeaderSubStatus))
	if err != nil {
		return wire.SubNone
	}
	return n
}

// is reports whether the response has the status and one of the sub-statuses.
func (a *answer) is(status int, subs ...int) bool {
	if a.status != status {
		return false
	}
	for _, sub := range subs {
		if a.sub() == sub {
			return true
		}
	}
	return len(subs) == 0
}

// moved reports whether the response shows that its region no longer has the account.
func (a *answer) moved() bool {
	return a.is(http.StatusForbidden, subWriteForbidden, subAccountNotFound)
}

// isAbsent reports whether the response is 404 without a sub-status. Then the document or its
// container does not exist. Not every gateway returns 1003 for a missing container.
func (a *answer) isAbsent() bool { return a.is(http.StatusNotFound, wire.SubNone) }

// isMissing reports whether the response to a request for a container is that there is none.
func (a *answer) isMissing() bool {
	return a.status == http.StatusNotFound && a.sub() != wire.SubReadSessionNotAvailable
}

// date returns the time of the response by the service's clock. It is zero if the response
// has no date.
func (a *answer) date() time.Time { return dateOf(a.header) }

// dateOf returns the date in the headers of a response, or the zero time if there is none.
func dateOf(h http.Header) time.Time {
	t, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// wait returns the pause that the service requests. It is 0 if there is none.
func (a *answer) wait() time.Duration { return waitOf(a.header) }

// maxWait limits the pause that a response can request.
const maxWait = time.Hour

// waitOf returns the time in x-ms-retry-after-ms, or else in Retry-After, which is in
// seconds. It returns 0 if there is neither.
func waitOf(h http.Header) time.Duration {
	for _, field := range []struct {
		name string
		unit time.Duration
	}{{wire.HeaderRetryAfter, time.Millisecond}, {"Retry-After", time.Second}} {
		n, err := strconv.ParseFloat(h.Get(field.name), 64)
		if err == nil && n > 0 {
			return time.Duration(min(n, float64(maxWait/field.unit)) * float64(field.unit))
		}
	}
	return 0
}

// newActivityID returns a random GUID. Support finds a request by it even if the response
// was lost.
func newActivityID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // rand.Read never fails; it ends the process instead
	b[6], b[8] = b[6]&0x0F|0x40, b[8]&0x3F|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
