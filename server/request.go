package server

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// exchange is one request and what its answer will say. It belongs to the
// goroutine that serves the request.
type exchange struct {
	s        *Server
	w        http.ResponseWriter
	r        *http.Request
	began    time.Time
	activity string
	path     wire.Path
	// kind and links are the resource type and the links that a signature may cover, where they
	// aren't the path's.
	kind  string
	links []string
	// op is the operation's name, once it is known.
	op string
	// grant is what the key that signed the request may do, once it was checked.
	grant grant
	// allowed is what a resource token allows; nil: the request has none.
	allowed *allowance
	// signer is the credential that signed the request.
	signer signer
	// conditions is set by the operations that evaluate conditions.
	conditions *requestConditions

	// items is the memory for items of a bulk request; nil: it is none.
	items *itemMemory

	// What goes into the headers of the answer. session is a session token, lsn is
	// left out when negative, count (of a page's items) likewise.
	charge  float64
	session string
	lsn     int64
	etag    string
	// partition is the one that served the request; count the number of items on
	// a page; continuation what the next page is asked for with, empty behind the last.
	partition    string
	count        int
	continuation string
	// resume is the resumeFilter of a query; nil: it has none.
	resume json.RawMessage
	// contentType is that of the answer's body; nil: JSON.
	contentType []string
	// alt and content are the owner's path by names and its rid.
	alt, content string

	// The answer's status, once it has begun; for log and metrics.
	status, substatus int
	// received is how much of the body has come, which is not what its client says; for metrics.
	received int64

	// conn is the request's connection; nil: no guard watches it. claim is the memory that is counted for
	// the request: the connection's, or its own.
	conn  *guardedConn
	claim *claim
	// drained reports whether the body was read to its end, or can't be.
	drained bool
}

func newExchange(s *Server, w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{s: s, w: w, r: r, began: time.Now(), activity: r.Header.Get(wire.HeaderActivityID), lsn: -1, count: -1}
	if s.budget == nil {
		x.claim = &unlimited
	} else if conn, ok := r.Context().Value(guardedKey{}).(*guardedConn); ok && conn.g.b == s.budget {
		x.conn, x.claim = conn, &conn.claim
	} else {
		x.claim = &claim{b: s.budget}
	}
	if !plainID(x.activity) {
		x.activity = newGUID()
	}
	return x
}

// plainID reports whether an activity id of a client can be given back: a GUID, or
// something as harmless.
func plainID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	return strings.IndexFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-'
	}) < 0
}

// newGUID makes a random GUID (version 4).
func newGUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0F|0x40, b[8]&0x3F|0x80
	text := make([]byte, 0, 36)
	for i, group := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, group)
	}
	return string(text)
}

// header is a header of the request; name is in canonical form, which http.Header.Get would make of it each time.
func (x *exchange) header(name string) string {
	if values := x.r.Header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// flag reports whether a header of the request says true; SDKs differ in its case.
func (x *exchange) flag(name string) bool { return strings.EqualFold(x.header(name), "true") }

// body reads the body of the request, of up to limit bytes.
func (x *exchange) body(limit int64) ([]byte, error) { return x.bodyIn(nil, limit) }

// bodyIn is body, in the memory of buf if there is enough. The memory is counted before it is taken.
func (x *exchange) bodyIn(buf []byte, limit int64) ([]byte, error) {
	if encoding := x.header("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, failure(http.StatusUnsupportedMediaType, wire.SubNone,
			"a body with Content-Encoding %.40q is not supported by this server; send it without compression", encoding)
	}
	if x.r.ContentLength > limit {
		return nil, tooLarge("the body of the request has %d bytes; at most %d are taken", x.r.ContentLength, limit)
	}
	// One allocation where the client announces a usual size. More memory is given only for bytes that have
	// come: a client that announces much and sends nothing must not cost much.
	first := int(min(max(x.r.ContentLength, 0), 64<<10) + 512)
	if err := x.claim.grow(ofBodies, bodyFactor*int64(max(first, cap(buf)))); err != nil {
		return nil, err
	}
	buf = slices.Grow(buf[:0], first)
	if x.conn != nil {
		x.conn.begin(phaseBody)
		defer x.conn.begin(phaseWork)
	}
	for {
		if len(buf) == cap(buf) {
			more := min(max(cap(buf), 512), int(limit)+512-cap(buf))
			if announced := int(x.r.ContentLength) + 1 - cap(buf); announced > 0 {
				more = min(more, announced)
			}
			if err := x.claim.grow(ofBodies, bodyFactor*int64(more)); err != nil {
				return nil, err
			}
			buf = slices.Grow(buf, more)
		}
		n, err := x.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		x.received = max(x.received, int64(len(buf))) // the body of a held request is read a second time, from memory
		switch {
		case int64(len(buf)) > limit:
			return nil, tooLarge("the body of the request has more than %d bytes", limit)
		case errors.Is(err, io.EOF):
			x.drained = true
			return buf, checkText(buf)
		case err != nil:
			x.drained = true // as far as that is possible
			return nil, badRequest("the body of the request can't be read: %v", err)
		}
	}
}

// cosmosBinary is the first byte of JSON in the service's own binary form. No text begins with it.
const cosmosBinary = 0x80

// checkText refuses a body that .NET's SDK has written in binary, which it does where its user has asked for that. Answers are
// always text: the SDK takes both.
func checkText(body []byte) error {
	if len(body) > 0 && body[0] == cosmosBinary {
		return badRequest("a body in CosmosBinary, the binary form of JSON, is not supported by this server. Start the client without " +
			"AZURE_COSMOS_BINARY_ENCODING_ENABLED=true in its environment")
	}
	return nil
}

// maxItems is the page size that the request asks for; 0: the server's choice.
func (x *exchange) maxItems() (int, error) {
	text := x.header(wire.HeaderMaxItemCount)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n == 0 || n < -1 {
		return 0, badRequest("the header x-ms-max-item-count is %.40q; it is a positive number, or -1 for the server's choice", text)
	}
	return max(n, 0), nil
}

// partitionKey is the logical partition key of the request; nil: it has none.
func (x *exchange) partitionKey() (feed.PartitionKey, error) {
	text := x.header(wire.HeaderPartitionKey)
	if text == "" {
		return nil, nil
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, badRequest("the header x-ms-documentdb-partitionkey is no partition key: %v", err)
	}
	return key, nil
}

// parseKey reads a partition key as the protocol writes it.
func parseKey(text string) (feed.PartitionKey, error) {
	key, err := feed.ParsePartitionKey(text)
	if err == nil && len(key) == 0 {
		// What SDKs write for "no key" where the container was once made without one.
		key = feed.PartitionKey{feed.Undefined}
	}
	return key, err
}

// took notes what an operation on an item cost and which partition served it.
func (x *exchange) took(r engine.Result) {
	x.charge += r.Charge
	x.etag = r.ETag
	x.served(r.Partition, r.End)
}

// served notes which partition answered, and its last LSN.
func (x *exchange) served(partition string, end int64) {
	if partition != "" {
		x.session, x.lsn, x.partition = wire.SessionToken(partition, end), end, partition
	}
}

// minimal reports whether the client wants no body back.
func (x *exchange) minimal() bool {
	return strings.EqualFold(strings.ReplaceAll(x.header("Prefer"), " ", ""), "return=minimal")
}

// Headers that are the same in every answer. Nobody writes to the slices.
var (
	serviceVersion  = []string{"version=2.14.0.0"}
	gatewayVersion  = []string{"version=2.14.0"}
	jsonContentType = []string{"application/json"}
)

// start writes the headers of the answer. size is the length of its body, or -1 if it has none.
func (x *exchange) start(status, size int) {
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
	// One allocation for the values of all headers. Names are in canonical form.
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
		// The true id, always: SDKs that expected another one read their map of the partitions again.
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
	x.claim.add(ofAnswers, int64(size))
	x.leave()
	x.w.WriteHeader(status)
}

// escapeHeader percent-encodes what a header can't hold: names may be any Unicode.
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

// send answers with a body. What goes wrong while it is written is the
// connection's end, and nobody is left to be told.
func (x *exchange) send(status int, body []byte) error {
	x.start(status, len(body))
	_, _ = x.w.Write(body)
	return nil
}

// sendJSON answers with v as JSON.
func (x *exchange) sendJSON(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return x.send(status, body)
}

// sendEmpty answers without a body: 204, 304, and writes whose body isn't wanted. The latter say
// so by a length of 0, which 204 and 304 must not have.
func (x *exchange) sendEmpty(status int) error {
	size := 0
	if status == http.StatusNoContent || status == http.StatusNotModified {
		size = -1
	}
	x.start(status, size)
	return nil
}

// fail answers with an error.
func (x *exchange) fail(err error) {
	a := answerTo(err)
	// A disk that refuses writes refuses very many, and is logged by the store.
	if a.status >= http.StatusInternalServerError && !errors.As(err, new(*engine.DiskError)) {
		x.s.o.Logger.ErrorContext(x.r.Context(), "request failed", "operation", x.op, "activity", x.activity, "error", err)
	}
	x.leave()
	x.drain()
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
