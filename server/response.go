package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// setResult sets the headers of the answer from the result of an operation on an item:
// the charge, the etag and the partition.
func (x *request) setResult(r engine.Result) {
	x.charge += r.Charge
	x.etag = r.ETag
	x.setPartition(r.Partition, r.End)
}

// setPartition sets the headers for the partition that served the request. end is the
// last LSN of the partition.
func (x *request) setPartition(partition string, end int64) {
	if partition != "" {
		x.session, x.lsn, x.partition = wire.SessionToken(partition, end), end, partition
	}
}

// These are the values of headers that are the same in every answer. The slices are
// shared and must not be changed.
var (
	serviceVersion  = []string{"version=2.14.0.0"}
	gatewayVersion  = []string{"version=2.14.0"}
	jsonContentType = []string{"application/json"}
)

// start writes the status and the headers of the answer. size is the length of the body
// in bytes, or -1 if it is unknown.
func (x *request) start(status, size int) {
	h := x.w.Header()
	lower := isHTTP1(x.r)
	if lower {
		lowerHeader(h)
	}
	setAll := func(name string, values []string) {
		if lower {
			name = lowerName(name)
		}
		h[name] = values
	}
	// All header values share one slice, which saves an allocation for each header. The
	// names must be in canonical form.
	values := make([]string, 0, 12)
	set := func(name, value string) {
		values = append(values, value)
		setAll(name, values[len(values)-1:len(values):len(values)])
	}
	set("Date", wire.FormatTime(x.s.db.Now()))
	set(wire.HeaderActivityID, x.activity)
	set(wire.HeaderRequestCharge, strconv.FormatFloat(x.charge, 'f', -1, 64))
	setAll(wire.HeaderServiceVersion, serviceVersion)
	setAll(wire.HeaderGatewayVersion, gatewayVersion)
	if x.session != "" {
		set(wire.HeaderSessionToken, x.session)
	}
	if x.lsn >= 0 {
		set(wire.HeaderLSN, strconv.FormatInt(x.lsn, 10))
	}
	if x.etag != "" {
		set("Etag", x.etag)
	}
	if x.partition != "" {
		// SDKs compare this partition with the one they expected, and list the partitions
		// again if they differ.
		set(wire.HeaderPartitionID, x.partition)
	}
	if x.count >= 0 {
		set(wire.HeaderItemCount, strconv.Itoa(x.count))
	}
	if x.continuation != "" {
		set(wire.HeaderContinuation, x.continuation)
	}
	if x.alt != "" {
		set(wire.HeaderAltContentPath, escapeHeader(x.alt))
		set(wire.HeaderContentPath, x.content)
	}
	if size > 0 {
		contentType := jsonContentType
		if x.contentType != nil {
			contentType = x.contentType
		}
		setAll("Content-Type", contentType)
	}
	if size >= 0 {
		set("Content-Length", strconv.Itoa(size))
	}
	x.status = status
	x.memory.add(ofAnswers, int64(size))
	x.releaseSlot()
	x.w.WriteHeader(status)
}

// escapeHeader percent-encodes the characters of s that a header must not contain. Names
// of resources may have any Unicode characters.
func escapeHeader(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// send answers with a body. It ignores an error of the write, because then the connection
// has ended and no answer is possible.
func (x *request) send(status int, body []byte) error {
	x.start(status, len(body))
	_, _ = x.w.Write(body)
	return nil
}

// sendJSON answers with the JSON of v.
func (x *request) sendJSON(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return x.send(status, body)
}

// sendEmpty answers without a body. It sends a Content-Length of 0, except for the
// statuses 204 and 304, which must not have this header.
func (x *request) sendEmpty(status int) error {
	size := 0
	if status == http.StatusNoContent || status == http.StatusNotModified {
		size = -1
	}
	x.start(status, size)
	return nil
}

// fail answers with the error err.
func (x *request) fail(err error) {
	a := answerTo(err)
	// An error of the disk makes very many requests fail. The store logs it, so it is not
	// logged again for each request.
	if a.status >= http.StatusInternalServerError && !errors.As(err, new(*engine.DiskError)) {
		x.s.o.Logger.ErrorContext(x.r.Context(), "request failed", "operation", x.op, "activity", x.activity, "error", err)
	}
	x.releaseSlot()
	x.discardBody()
	h := x.w.Header()
	if a.substatus != 0 {
		h.Set(wire.HeaderSubStatus, strconv.Itoa(a.substatus))
	}
	if a.retryAfter > 0 {
		h.Set(wire.HeaderRetryAfter, strconv.FormatInt(max(a.retryAfter.Milliseconds(), 1), 10))
		h.Set("Retry-After", strconv.FormatInt(int64((a.retryAfter+time.Second-1)/time.Second), 10)) // for proxies and HTTP clients that are not SDKs
	}
	x.substatus = a.substatus
	if a.status == http.StatusNotModified {
		x.start(a.status, -1)
		return
	}
	body := wire.ErrorBody{Code: a.code, Message: a.message + "\nActivityId: " + x.activity, AdditionalErrorInfo: a.info}.JSON()
	x.start(a.status, len(body))
	_, _ = x.w.Write(body)
}

// The service sends header names in lower case, and .NET's SDK compares some of them
// exactly. net/http sends a name as it is in the map of headers, usually capitalised. So
// the names in this map are changed to lower case for HTTP/1. HTTP/2 always sends lower
// case. A caller in the same process gets the capitalised names.

// lowerNames maps the usual header names to lower case. The table saves an allocation for
// each header.
var lowerNames = lowered(wire.HeaderActivityID, wire.HeaderAltContentPath, wire.HeaderContentPath, wire.HeaderContinuation, wire.HeaderGatewayVersion,
	wire.HeaderItemCount, wire.HeaderLSN, wire.HeaderPartitionID, wire.HeaderRequestCharge, wire.HeaderRetryAfter, wire.HeaderServiceVersion,
	wire.HeaderSessionToken, wire.HeaderSubStatus, "Content-Type", "Date", "Etag")

func lowered(names ...string) map[string]string {
	m := map[string]string{}
	for _, name := range names {
		m[name] = strings.ToLower(name)
	}
	return m
}

// lowerName returns a header name in lower case. It does not change the headers that
// net/http itself evaluates, such as Content-Length.
func lowerName(name string) string {
	if lower, known := lowerNames[name]; known {
		return lower
	}
	switch name {
	case "Connection", "Content-Length", "Trailer", "Transfer-Encoding":
		return name
	}
	return strings.ToLower(name)
}

// lowerHeader changes the names of an answer's headers to lower case.
func lowerHeader(h http.Header) {
	for name, values := range h {
		if lower := lowerName(name); lower != name {
			h[lower] = values
			delete(h, name)
		}
	}
	// net/http adds Date and Content-Type unless these names are in the map. An entry
	// without values prevents that, and is not sent.
	h["Date"], h["Content-Type"] = nil, nil
}

// isHTTP1 reports whether a request arrived over HTTP/1 at an http.Server. Tests may call
// the handler without one.
func isHTTP1(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.Context().Value(http.ServerContextKey) != nil
}

// The functions below write a page of documents from the stored bytes, without encoding
// them. They first add up the length, so that the answer has a Content-Length. Small
// parts are written through a buffer, because otherwise a system call would be needed for
// every few documents.

// pageParts calls emit for each part of a page in order: documents and the commas between
// them. It is called twice, and must emit the same parts both times. emit must not keep a
// part after it returns.
type pageParts func(emit func([]byte))

// sendText answers with a page of count documents, which are one text with commas between
// them. The text is not copied. written is false if the client has disconnected. Then the
// connection may still read the text, so the caller must not reuse it.
func (x *request) sendText(count int, documents []byte) (written bool) {
	head, tail := x.frame(count)
	x.count = count
	x.start(http.StatusOK, len(head)+len(documents)+len(tail))
	for _, part := range [][]byte{[]byte(head), documents, []byte(tail)} {
		if _, err := x.w.Write(part); err != nil {
			return false
		}
	}
	return true
}

// frame returns the JSON before and after the documents of a page.
func (x *request) frame(count int) (head, tail string) {
	return `{"_rid":"` + x.content + `","Documents":[`, `],"_count":` + strconv.Itoa(count) + `}`
}

// sendPage answers with a page of count documents and the headers that x holds.
func (x *request) sendPage(count int, documents pageParts) error {
	head, tail := x.frame(count)
	size := len(head) + len(tail)
	documents(func(b []byte) { size += len(b) })
	x.count = count
	x.start(http.StatusOK, size)
	w := pageWriters.Get().(*bufio.Writer) //nolint:errcheck // the pool holds nothing else
	w.Reset(x.w)
	// Errors of these writes are ignored, because they mean that the connection has
	// ended.
	_, _ = w.WriteString(head)
	documents(func(b []byte) { _, _ = w.Write(b) })
	_, _ = w.WriteString(tail)
	_ = w.Flush()
	w.Reset(nil)
	pageWriters.Put(w)
	return nil
}

// sendNoPage answers 304: there are no new documents. SDKs read the etag and an item
// count of 0 from the headers.
func (x *request) sendNoPage() error {
	x.count = 0
	return x.sendEmpty(http.StatusNotModified)
}

// pageWriters is a pool of buffered writers for pages, with buffers of 64 KiB.
var pageWriters = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 64<<10) }}
