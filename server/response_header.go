package server

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file writes the headers of an answer. They depend on who answers: a replica, the
// gateway in front of it, or the account's front end.

// headerName is the name of a header, in the form of net/http and in lower case.
//
// The service sends header names in lower case, and .NET's SDK compares some of them
// exactly. net/http sends a name as it is in the map of headers, usually capitalised. So
// the names in this map are in lower case for HTTP/1. HTTP/2 always sends lower case. A
// caller in the same process gets the capitalised names.
type headerName struct{ canonical, lower string }

func named(name string) headerName { return headerName{name, strings.ToLower(name)} }

var (
	nameDate          = named("Date")
	nameETag          = named("Etag")
	nameContentType   = named("Content-Type")
	nameContentLength = headerName{"Content-Length", "Content-Length"} // net/http evaluates it
	nameLocation      = named("Content-Location")
	nameCache         = named("Cache-Control")
	namePragma        = named("Pragma")
	nameActivity      = named(wire.HeaderActivityID)
	nameGateway       = named(wire.HeaderGatewayVersion)
	nameService       = named(wire.HeaderServiceVersion)
	nameSchema        = named(wire.HeaderSchemaVersion)
	nameDuration      = named(wire.HeaderDuration)
	nameCharge        = named(wire.HeaderRequestCharge)
	nameLSN           = named(wire.HeaderLSN)
	nameLocalLSN      = named(wire.HeaderLocalLSN)
	nameCommittedLSN  = named(wire.HeaderCommittedLSN)
	nameItemLSN       = named(wire.HeaderItemLSN)
	nameItemLocalLSN  = named(wire.HeaderItemLocalLSN)
	nameSession       = named(wire.HeaderSessionToken)
	namePartition     = named(wire.HeaderPartitionID)
	nameCount         = named(wire.HeaderItemCount)
	nameContinuation  = named(wire.HeaderContinuation)
	nameAlt           = named(wire.HeaderAltContentPath)
	nameContent       = named(wire.HeaderContentPath)
	nameQuota         = named(wire.HeaderQuota)
	nameUsage         = named(wire.HeaderUsage)
	nameShared        = named(wire.HeaderSharedThroughput)
	nameMaxLength     = named(wire.HeaderMaxContentLength)
	nameExecution     = named(wire.HeaderQueryExecution)
	nameDeletePending = named(wire.HeaderDeletePending)
	nameSubStatus     = named(wire.HeaderSubStatus)
	nameInvalid       = named(wire.HeaderInvalid)
	nameEmptyLength   = headerName{"", "content-length"} // which net/http does not evaluate
)

// These are the values of headers that are the same in every answer. The slices are shared
// and must not be changed.
var (
	serviceVersion  = []string{"version=2.14.0.0"}
	gatewayVersion  = []string{"version=2.14.0"}
	schemaVersion   = []string{"1.21"}
	jsonContentType = []string{"application/json"}
	notStored       = []string{"no-store, no-cache"}
	notCached       = []string{"no-cache"}
	isTrue          = []string{"true"}
	isFalse         = []string{"false"}
	zeroLength      = []string{"0"}
	maxLength       = []string{"2097152"}
	forward         = []string{`{"reverseRidEnabled":false,"reverseIndexScan":false}`}
	backward        = []string{`{"reverseRidEnabled":false,"reverseIndexScan":true}`}
)

// headerWriter sets the headers of one answer. All values share one string, which saves an
// allocation for each header. Writers are reused, because each takes 2 KB of the heap.
type headerWriter struct {
	h     http.Header
	lower bool
	// conn is the connection that gets the headers as lines, or nil. lines has them, and begin
	// is memory for the beginning of the answer with them.
	conn         *guardedConn
	lines, begin []byte
	text         []byte
	names        [maxOwnHeaders]headerName
	ends         [maxOwnHeaders]int
	count        int
	memory       [1 << 10]byte
}

var headerWriters = sync.Pool{New: func() any { return new(headerWriter) }}

// maxOwnHeaders is the largest number of headers whose values differ between answers.
const maxOwnHeaders = 24

// set sets a header to a value that many answers share.
func (w *headerWriter) set(name headerName, values []string) {
	switch {
	case w.conn != nil && name != nameContentLength:
		w.lines = appendHeaderLine(w.lines, name.lower, values[0])
	case w.lower:
		w.h[name.lower] = values
	default:
		w.h[name.canonical] = values
	}
}

// add sets a header to the text that the caller has appended to w.text since the last call.
func (w *headerWriter) add(name headerName) {
	w.names[w.count], w.ends[w.count] = name, len(w.text)
	w.count++
}

func (w *headerWriter) addText(name headerName, value string) {
	w.text = append(w.text, value...)
	w.add(name)
}

func (w *headerWriter) addInt(name headerName, n int64) {
	w.text = strconv.AppendInt(w.text, n, 10)
	w.add(name)
}

// finish puts all added headers into the map, and gives the writer back. If they are lines,
// it leaves that to the connection.
func (w *headerWriter) finish() {
	if w.conn != nil {
		w.finishLines()
		return
	}
	text, values, at := string(w.text), make([]string, w.count), 0
	for i, end := range w.ends[:w.count] {
		values[i] = text[at:end]
		w.set(w.names[i], values[i:i+1:i+1])
		at = end
	}
	w.free()
}

// start writes the status and the headers of the answer. size is the length of the body
// in bytes, or -1 if it is unknown.
func (x *request) start(status, size int) {
	w, _ := headerWriters.Get().(*headerWriter)
	w.h, w.lower, w.text, w.count = x.w.Header(), isHTTP1(x.r), w.memory[:0], 0
	if w.lower {
		lowerHeader(w.h)
		w.conn = x.lineConn()
	}
	w.text = wire.AppendTime(w.text, x.s.db.Now())
	w.add(nameDate)
	w.set(nameGateway, gatewayVersion)
	w.set(nameContentType, x.contentTypes())
	success := status < http.StatusBadRequest
	if success {
		w.set(nameCache, notStored)
		w.set(namePragma, notCached)
	}
	if x.r.Method != http.MethodPost {
		x.appendLocation(w)
	}
	if !success || !x.front {
		w.addText(nameActivity, x.activity)
	}
	if success && !x.front || x.by.isBackend() {
		x.setBackend(w, status, success)
	}
	if x.etag != "" { // of an error it is the oldest position that a feed still has
		w.addText(nameETag, x.etag)
	}
	if x.substatus != 0 {
		w.addInt(nameSubStatus, int64(x.substatus))
	}
	if x.invalid {
		w.set(nameInvalid, []string{"1"})
	}
	if hasNoBody := status == http.StatusNoContent || status == http.StatusNotModified; hasNoBody && w.lower {
		w.set(nameEmptyLength, zeroLength) // as the service does, although HTTP forbids it for 204
	} else if !hasNoBody && size >= 0 {
		w.addInt(nameContentLength, int64(size))
	}
	w.finish()
	x.status = status
	x.memory.add(ofAnswers, int64(size))
	x.releaseSlot()
	x.w.WriteHeader(status)
}

// contentTypes returns the values of Content-Type.
func (x *request) contentTypes() []string {
	if x.contentType != nil {
		return x.contentType
	}
	return jsonContentType
}

// appendLocation adds the URL of the request, as Content-Location.
func (x *request) appendLocation(w *headerWriter) {
	w.text = bytes.TrimSuffix(x.s.appendEndpoint(w.text, x.r), []byte("/"))
	w.text = append(w.text, x.r.URL.EscapedPath()...)
	w.add(nameLocation)
}

// setBackend sets the headers of a replica's answer.
func (x *request) setBackend(w *headerWriter, status int, success bool) {
	w.set(nameService, serviceVersion)
	w.set(nameSchema, schemaVersion)
	w.text = strconv.AppendFloat(w.text, float64(time.Since(x.began).Microseconds())/1000, 'f', 3, 64)
	w.add(nameDuration)
	if status == http.StatusRequestEntityTooLarge {
		return
	}
	about := x.subject()
	if !x.uncharged && about != aboutRanges {
		w.text = strconv.AppendFloat(w.text, hundredths(x.charge), 'f', -1, 64)
		w.add(nameCharge)
	}
	x.locate(about)
	w.addInt(nameLSN, x.lsn)
	w.addInt(nameLocalLSN, x.lsn)
	w.addInt(nameCommittedLSN, x.lsn)
	if status != http.StatusTooManyRequests {
		w.addText(nameSession, x.session)
		if x.partition != "" && !x.uncharged {
			// SDKs compare this partition with the one they expected, and list the partitions
			// again if they differ.
			w.addText(namePartition, x.partition)
		}
	}
	if success || x.substatus == wire.SubNotFinite {
		x.setUsage(w, about)
	}
	if success {
		x.setSuccess(w, about, status)
	}
}

// setSuccess sets the headers that only a replica's successful answer has.
func (x *request) setSuccess(w *headerWriter, about subject, status int) {
	if x.count >= 0 {
		w.addInt(nameCount, int64(x.count))
	}
	if x.continuation != "" {
		w.addText(nameContinuation, x.continuation)
	}
	if x.itemLSN >= 0 && status != http.StatusNotModified {
		w.addInt(nameItemLSN, x.itemLSN)
		w.addInt(nameItemLocalLSN, x.itemLSN)
	}
	if x.alt != "" && !x.failedBatch {
		w.addText(nameAlt, escapeHeader(x.alt))
		if about != aboutContainer || x.r.Method != http.MethodPost {
			w.addText(nameContent, x.content)
		}
	}
	if about == aboutContainer && status != http.StatusNoContent {
		w.set(nameMaxLength, maxLength)
		if x.shared {
			w.set(nameShared, isTrue)
		}
	}
	if x.op == opQuery {
		execution := forward
		if x.descending {
			execution = backward
		}
		w.set(nameExecution, execution)
	}
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

// lowerName returns a header name in lower case. It does not change the headers that
// net/http itself evaluates, such as Content-Length.
func lowerName(name string) string {
	switch name {
	case "Connection", "Content-Length", "Trailer", "Transfer-Encoding":
		return name
	}
	return strings.ToLower(name)
}

// isHTTP1 reports whether a request arrived over HTTP/1 at an http.Server. Tests may call
// the handler without one.
func isHTTP1(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.Context().Value(http.ServerContextKey) != nil
}

// hundredths rounds a charge as the service does in headers.
func hundredths(ru float64) float64 { return math.Round(ru*100) / 100 }
