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

// exchange is one request and what its answer will say. It belongs to the
// goroutine that serves the request.
type request struct {
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
	conn   *guardedConn
	memory *heldMemory
	// drained reports whether the body was read to its end, or can't be.
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

// plainID reports whether a client's activity ID can be returned: it is a GUID, or as harmless.
func plainID(id string) bool {
	const harmless = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-"
	return id != "" && len(id) <= 64 && strings.Trim(id, harmless) == ""
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
func (x *request) header(name string) string {
	if values := x.r.Header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// flag reports whether a header of the request says true; SDKs differ in its case.
func (x *request) flag(name string) bool { return strings.EqualFold(x.header(name), "true") }

// maxItems is the page size that the request asks for; 0: the server's choice.
func (x *request) maxItems() (int, error) {
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
func (x *request) partitionKey() (feed.PartitionKey, error) {
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

// minimal reports whether the client wants no body back.
func (x *request) minimal() bool {
	return strings.EqualFold(strings.ReplaceAll(x.header("Prefer"), " ", ""), "return=minimal")
}
