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
	"github.com/changefeed-go/changefeed/storetype"
)

// setResult sets the headers of the answer from the result of an operation on an item:
// the charge, the etag and the partition.
func (x *request) setResult(r storetype.Result) {
	x.charge += r.Charge
	x.etag = r.ETag
	if x.r.Method == http.MethodGet {
		x.itemLSN = r.LSN
	}
	x.setPartition(r.Partition, r.End)
}

// setPartition sets the headers for the partition that served the request. end is the
// last LSN of the partition.
func (x *request) setPartition(partition string, end int64) {
	if partition != "" {
		x.session, x.lsn, x.partition = wire.SessionToken(partition, end), end, partition
	}
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

// sendEmpty answers without a body.
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
	a := answerTo(err, x.onItem())
	if x.kind == adminPrefix {
		a.by = byAdmin
	}
	// An error of the disk makes very many requests fail. The store logs it, so it is not
	// logged again for each request.
	if a.status >= http.StatusInternalServerError && !errors.As(err, new(*storetype.DiskError)) {
		x.s.o.Logger.ErrorContext(x.r.Context(), "request failed", "operation", x.op, "activity", x.activity, "error", err)
	}
	x.releaseSlot()
	x.discardBody()
	x.by, x.substatus, x.invalid = a.by, a.substatus, a.invalid
	if x.charge == 0 && a.by.isBackend() {
		x.charge = x.refusedCharge(a)
	}
	if a.retryAfter > 0 {
		x.w.Header().Set(wire.HeaderRetryAfter, strconv.FormatInt(max(a.retryAfter.Milliseconds(), 1), 10))
		if a.substatus != wire.SubThroughput { // this server's own refusals are also for proxies and HTTP clients that are not SDKs
			x.w.Header().Set("Retry-After", strconv.FormatInt(int64((a.retryAfter+time.Second-1)/time.Second), 10))
		}
	}
	if a.status == http.StatusNotModified {
		x.start(a.status, -1)
		return
	}
	body := wire.ErrorBody{Code: a.code, AdditionalErrorInfo: a.info}
	if a != *errForbidden {
		body.Message = a.by.message(a.message, x.activity, x.began, time.Now())
	}
	text := body.JSON()
	x.start(a.status, len(text))
	_, _ = x.w.Write(text)
}

// refusedCharge returns what a replica's refusal costs, unless the store has told it.
func (x *request) refusedCharge(a statusError) float64 {
	reads := x.r.Method == http.MethodGet || x.op == opQuery || x.op == opPlan
	switch {
	case a.substatus == wire.SubThroughput:
		return engine.ThrottledShare * x.s.costs.of(x)
	case a.status == http.StatusNotFound && a.by == byBackend && !reads:
		return metadataFailedCharge // as any other write that fails
	case a.status == http.StatusNotFound && a.by == byBackend:
		return metadataReadCharge
	case !x.onItem() && (a.status == http.StatusConflict || a.status == http.StatusPreconditionFailed):
		return metadataFailedCharge
	}
	return 0
}

// onItem reports whether the path addresses an item, or the items of a container.
func (x *request) onItem() bool { return len(x.path.Types) > 2 && x.path.Types[2] == "docs" }

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
