package server

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// request is an HTTP request and the headers of its answer. Only the goroutine that
// serves the request may use it.
type request struct {
	s        *Server
	w        http.ResponseWriter
	r        *http.Request
	began    time.Time
	activity string
	path     wire.Path
	// kind and links are the resource type and the links that the signature may cover.
	// They are set only if they differ from those of the path.
	kind  string
	links []string
	// op is the name of the operation. It is empty until the operation is known.
	op string
	// grant is the grant of the signer. It is set after the signature is verified.
	grant grant
	// allowed is the allowance of the request's resource token, or nil if it has none.
	allowed *allowance
	// signer identifies the credential that signed the request.
	signer signer
	// conditions counts the time of the conditions of patches. It is set by the
	// operations that evaluate them.
	conditions *requestConditions

	// items is the memory for the items of a bulk request. It is nil for other requests.
	items *itemMemory

	// The headers of the answer. session is the session token. lsn and count (the number
	// of items on the page) are not sent if they are negative.
	charge  float64
	session string
	lsn     int64
	etag    string
	// partition is the partition that served the request. continuation is the
	// continuation of the next page, and empty after the last page.
	partition    string
	count        int
	continuation string
	// contentType is the content type of the body. nil means JSON.
	contentType []string
	// alt and content are the owner's path by names, and its rid.
	alt, content string

	// The status of the answer for logs and metrics. It is set when the answer begins.
	status, substatus int
	// received is the number of bytes read from the body, for metrics.
	received int64

	// conn is the connection of the request. It is nil if no guard watches it. memory is
	// the counted memory of the connection or the request.
	conn   *guardedConn
	memory *heldMemory
	// bodyRead reports whether the body was read to its end, or cannot be read further.
	bodyRead bool
}

func newRequest(s *Server, w http.ResponseWriter, r *http.Request) *request {
	x := &request{s: s, w: w, r: r, began: time.Now(), activity: r.Header.Get(wire.HeaderActivityID), lsn: -1, count: -1}
	if s.budget == nil {
		x.memory = &unlimited
	} else if conn, ok := r.Context().Value(guardedKey{}).(*guardedConn); ok && conn.g.b == s.budget {
		x.conn, x.memory = conn, &conn.memory
	} else {
		x.memory = &heldMemory{b: s.budget}
	}
	if !plainID(x.activity) {
		x.activity = newGUID()
	}
	return x
}

// plainID reports whether the activity ID of a client is safe to return, such as a GUID.
func plainID(id string) bool {
	const harmless = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-"
	return id != "" && len(id) <= 64 && strings.Trim(id, harmless) == ""
}

// newGUID returns a random GUID (version 4).
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

// header returns a header of the request. name must be in canonical form, which saves the
// work of http.Header.Get.
func (x *request) header(name string) string {
	if values := x.r.Header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// flag reports whether a header of the request is true. It ignores case, because SDKs
// differ in it.
func (x *request) flag(name string) bool { return strings.EqualFold(x.header(name), "true") }

// maxItems returns the page size of the request. 0 means that the server chooses it.
func (x *request) maxItems() (int, error) {
	text := x.header(wire.HeaderMaxItemCount)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n == 0 || n < -1 {
		return 0, badRequest("the header x-ms-max-item-count is %.40q; it must be a positive number, or -1 for the server's choice", text)
	}
	return max(n, 0), nil
}

// partitionKey returns the logical partition key of the request. It returns nil if the
// request has none.
func (x *request) partitionKey() (feed.PartitionKey, error) {
	text := x.header(wire.HeaderPartitionKey)
	if text == "" {
		return nil, nil
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, badRequest("the header x-ms-documentdb-partitionkey is not a partition key: %v", err)
	}
	return key, nil
}

// parseKey parses a partition key in the form of the protocol.
func parseKey(text string) (feed.PartitionKey, error) {
	key, err := feed.ParsePartitionKey(text)
	if err == nil && len(key) == 0 {
		// SDKs send [] to mean "no key" if the container was created without a partition
		// key.
		key = feed.PartitionKey{feed.Undefined}
	}
	return key, err
}

// minimal reports whether the client wants an answer without a body.
func (x *request) minimal() bool {
	return strings.EqualFold(strings.ReplaceAll(x.header("Prefer"), " ", ""), "return=minimal")
}
