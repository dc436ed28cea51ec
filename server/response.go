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

// setResult sets the charge, the version and the partition of an operation on an item.
func (x *request) setResult(r engine.Result) {
	x.charge += r.Charge
	x.etag = r.ETag
	x.setPartition(r.Partition, r.End)
}

// setPartition sets the partition that answered and its last LSN.
func (x *request) setPartition(partition string, end int64) {
	if partition != "" {
		x.session, x.lsn, x.partition = wire.SessionToken(partition, end), end, partition
	}
}

// Headers that are the same in every answer. The slices must not be changed.
var (
	serviceVersion  = []string{"version=2.14.0.0"}
	gatewayVersion  = []string{"version=2.14.0"}
	jsonContentType = []string{"application/json"}
)

// start writes the headers of the answer. size is the length of the body, or -1 if the
// answer has no Content-Length.
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
	// There is one allocation for the values of all headers. Names are in canonical form.
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
		// An SDK that expected another partition reads the partitions again.
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

// escapeHeader percent-encodes the characters that a header cannot have. Names may have
// any Unicode characters.
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

// send answers with a body. It ignores an error of the write, which means that the
// connection has ended.
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

// sendEmpty answers without a body. The answer has a Content-Length of 0, except with 204
// and 304, which must not have one.
func (x *request) sendEmpty(status int) error {
	size := 0
	if status == http.StatusNoContent || status == http.StatusNotModified {
		size = -1
	}
	x.start(status, size)
	return nil
}

// fail answers with an error.
func (x *request) fail(err error) {
	a := answerTo(err)
	// A disk that refuses writes makes very many requests fail. The store logs the error
	// of the disk, so these failures are not logged here.
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
		h.Set("Retry-After", strconv.FormatInt(int64((a.retryAfter+time.Second-1)/time.Second), 10)) // for proxies and plain HTTP clients
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

// The service sends the names of its headers in lower case, and .NET's SDK compares some
// of them exactly. net/http sends names as they are in the map of the answer's headers,
// usually capitalised. So the map has lower-case names in answers over HTTP/1. HTTP/2
// always sends lower case. Callers in the same process read capitalised names.

// lowerNames maps the usual headers of answers to lower case, which saves an allocation
// for each.
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

// lowerName returns the name of a header in lower case. It does not change headers that
// net/http uses to frame the message.
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

// lowerHeader renames the headers of an answer to lower case.
func lowerHeader(h http.Header) {
	for name, values := range h {
		if lower := lowerName(name); lower != name {
			h[lower] = values
			delete(h, name)
		}
	}
	// net/http adds both headers unless the map has these names. Headers without values
	// are not sent.
	h["Date"], h["Content-Type"] = nil, nil
}

// isHTTP1 reports whether a request came over an HTTP/1 connection of net/http.
func isHTTP1(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.Context().Value(http.ServerContextKey) != nil
}

// A page of documents is written from the stored bytes, without encoding. Its length is
// counted first, so that the answer has a Content-Length. Small parts are written through
// a buffer. Otherwise every few documents would cost a system call.

// pageParts calls emit for the parts of a page's documents, including the commas between
// them. It is called twice and must emit the same parts both times. emit must not keep a
// part after it returns.
type pageParts func(emit func([]byte))

// sendText answers with count documents that are one text, with commas between them. It
// writes the text without a copy. written is false if the client has disconnected. The
// connection may then still use the text.
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

// sendPage answers with count documents and the headers of x.
func (x *request) sendPage(count int, documents pageParts) error {
	head, tail := x.frame(count)
	size := len(head) + len(tail)
	documents(func(b []byte) { size += len(b) })
	x.count = count
	x.start(http.StatusOK, size)
	w := pageWriters.Get().(*bufio.Writer) //nolint:errcheck // the pool holds nothing else
	w.Reset(x.w)
	// An error means that the connection has ended, so no answer can report it.
	_, _ = w.WriteString(head)
	documents(func(b []byte) { _, _ = w.Write(b) })
	_, _ = w.WriteString(tail)
	_ = w.Flush()
	w.Reset(nil)
	pageWriters.Put(w)
	return nil
}

// sendNoPage answers 304, which means that there are no new documents. The answer has the
// position, and a count, which SDKs also read here.
func (x *request) sendNoPage() error {
	x.count = 0
	return x.sendEmpty(http.StatusNotModified)
}

// pageWriters is a pool of buffered writers of 64 KiB.
var pageWriters = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 64<<10) }}
