package cosmos

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// maxBody is the largest answer that is read, in bytes. A page of the service has about 4 MB; a transaction, which is never cut,
// and previous images make more of it.
const maxBody = 128 << 20

// errTooLarge tells that an answer isn't read.
var errTooLarge = fmt.Errorf("the answer is larger than %d MiB: ask for fewer items a page", maxBody>>20)

// bodyRead is a response's body after it was read.
type bodyRead struct {
	*bytes.Reader
	text []byte
}

// Close does nothing; the connection was given back before.
func (bodyRead) Close() error { return nil }

// readBody reads a response's body to its end, into a buffer of its length, and gives the connection back. A body that is cut
// off is an error.
func readBody(r *http.Response) error {
	defer func() { _ = r.Body.Close() }() // it was read to its end, or an error is told already
	var (
		text []byte
		err  error
	)
	switch n := r.ContentLength; {
	case n > maxBody:
		return final{errTooLarge}
	case n >= 0:
		text = uncleared(int(n))
		_, err = io.ReadFull(r.Body, text)
	default: // compressed, or in chunks
		text, err = io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if len(text) > maxBody {
			return final{errTooLarge}
		}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	r.Body = bodyRead{bytes.NewReader(text), text}
	return nil
}

// uncleared returns n bytes that were not set to zero, as make does, which is about a twentieth of what reading and splitting a large page costs: the caller
// writes all of them before anything is shown. Of the standard library only strings.Builder gives such memory out, and its text is nobody
// else's here.
func uncleared(n int) []byte {
	var b strings.Builder
	b.Grow(max(n, 1))
	b.WriteByte(0) // an empty text has no address
	return unsafe.Slice(unsafe.StringData(b.String()), b.Cap())[:n:n]
}

// newAnswer takes a response whose body was read.
func newAnswer(r *http.Response) (*answer, error) {
	a := &answer{status: r.StatusCode, header: r.Header}
	if b, ok := r.Body.(bodyRead); ok {
		a.body = b.text
	} else { // a policy of the user's put another body in its place
		text, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		_ = r.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		a.body = text
		r.Body = bodyRead{bytes.NewReader(text), text}
	}
	if r.StatusCode == http.StatusOK || r.StatusCode == http.StatusMultiStatus || r.StatusCode == http.StatusNotModified {
		return a, nil
	}
	if !errors.As(runtime.NewResponseError(r), &a.failure) {
		return nil, fmt.Errorf("the answer has status %s and can't be read", r.Status)
	}
	return a, nil
}

// sub is the sub-status.
func (a *answer) sub() int {
	n, err := strconv.Atoi(a.header.Get(wire.HeaderSubStatus))
	if err != nil {
		return wire.SubNone
	}
	return n
}

// is reports whether the answer has a status and one of several sub-statuses.
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

// moved reports whether the region that answered doesn't have the account any more.
func (a *answer) moved() bool {
	return a.is(http.StatusForbidden, subWriteForbidden, subAccountNotFound)
}

// wait returns how long the service asks the client to wait; 0 if it does not say.
func (a *answer) wait() time.Duration { return waitOf(a.header) }

// maxWait bounds the time that an answer can ask a client to wait.
const maxWait = time.Hour

// waitOf returns the time in x-ms-retry-after-ms, else in Retry-After, which is in seconds; 0 if there is neither.
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

// newActivityID is a random GUID, by which support finds a request whose answer was lost.
func newActivityID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails: the process ends instead
	b[6], b[8] = b[6]&0x0F|0x40, b[8]&0x3F|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
