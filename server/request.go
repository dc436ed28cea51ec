package server

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// request is an HTTP request that is being served, with the headers of its answer. Only
// the goroutine that serves the request may use it.
type request struct {
	s        *Server
	w        http.ResponseWriter
	r        *http.Request
	began    time.Time
	activity string
	path     wire.Path
	// kind is the resource type and links are the links that the signature may cover.
	// They are set only if they differ from those of path.
	kind  string
	links []string
	// op is the name of the operation. It is empty until the operation is known.
	op string
	// grant is the set of operations that the request's credential permits. It is set
	// after the credential is verified.
	grant grant
	// allowed is the access that the request's resource token permits. It is nil if the
	// request has no resource token.
	allowed *allowance
	// signer identifies the credential that signed the request.
	signer signer
	// conditions holds the time that the conditions of patches in this request have
	// taken. Only operations with patches set it.
	conditions *requestConditions

	// items is the budget for the items of a bulk request. It is nil for other requests.
	items *itemMemory

	// by is the part of the service that refuses the request. front reports whether the
	// account's front end answers it if it succeeds, and not a replica.
	by    refuser
	front bool
	// asked is the hash of the body of a query, and 0 for other requests.
	asked uint64
	// c is the container in the path, once it is found, and otherwise nil.
	c *engine.Container

	// The fields up to content become headers of the answer. charge is in request units.
	// session is the session token. lsn, itemLSN and count (the number of items) are not
	// known if they are negative.
	charge       float64
	session      string
	lsn, itemLSN int64
	etag         string
	// uncharged reports whether the answer has no charge, though a replica gives it.
	// failedBatch reports that the batch was not carried out.
	uncharged, failedBatch bool
	// shared reports whether the container has no throughput of its own. descending reports
	// whether the query sorts its rows in descending order. invalid reports that the gateway
	// found the request malformed.
	shared, descending, invalid bool
	// partition is the ID of the partition that served the request. continuation is the
	// position of the next page, or empty if there is none.
	partition    string
	count        int
	continuation string
	// contentType is the content type of the answer's body. nil means JSON.
	contentType []string
	// alt is the path of the owner resource by names, and content is the owner's rid.
	alt, content string

	// status and substatus are copied from the answer when it begins, for logs and
	// metrics.
	status, substatus int
	// received is the number of bytes that were read from the request's body, for
	// metrics.
	received int64

	// conn is the connection of the request, or nil if no guard watches it. memory holds
	// the bytes that are counted for the connection or for the request.
	conn   *guardedConn
	memory *heldMemory
	// counted is w, which counts the bytes of the answer.
	counted countingWriter
	// bodyRead is true if the body was read to its end, or if reading it failed.
	bodyRead bool
}

func newRequest(s *Server, w http.ResponseWriter, r *http.Request) *request {
	x := &request{s: s, r: r, began: time.Now(), lsn: -1, itemLSN: -1, count: -1}
	x.counted.ResponseWriter = w
	x.w, x.activity = &x.counted, x.header(wire.HeaderActivityID)
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

// plainID reports whether an activity ID of a client has only letters, digits and
// hyphens, as a GUID has. Other IDs are not returned in the answer.
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

// header returns the value of a header of the request. name must be in canonical form, so
// that no conversion is needed as in http.Header.Get.
func (x *request) header(name string) string {
	if values := x.r.Header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// flag reports whether the header name is "true". It ignores case, because SDKs write
// "True" or "true".
func (x *request) flag(name string) bool { return strings.EqualFold(x.header(name), "true") }

// maxItems returns the page size in the header of the request. 0 means the default, which
// depends on the operation, and -1 a page that is as large as an answer may be.
func (x *request) maxItems() (int, error) {
	text := x.header(wire.HeaderMaxItemCount)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 {
		return 0, &statusError{status: http.StatusBadRequest, invalid: true, message: fmt.Sprintf(
			"The input PageSize %.40s is invalid. Ensure to pass a valid page size which must be a positive integer or -1 for a dynamic page size.", text)}
	}
	return n, nil
}

// These are the sizes of pages of documents and of rows, in the service: the default, and
// that of a dynamic page, unless MaxBytes ends it before.
const (
	defaultPageItems = 1000
	dynamicPageItems = 10_000
)

// pageItems is maxItems for a page of documents or of rows.
func (x *request) pageItems() (int, error) {
	n, err := x.maxItems()
	switch n {
	case 0:
		n = defaultPageItems
	case -1:
		n = dynamicPageItems
	}
	return n, err
}

// partitionKey parses the logical partition key in the header of the request. It returns
// nil if there is no such header.
func (x *request) partitionKey() (feed.PartitionKey, error) {
	text := x.header(wire.HeaderPartitionKey)
	if text == "" {
		return nil, nil
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, badRequest("the header x-ms-documentdb-partitionkey is %.60q, which is not a partition key: %s", text, keyArray)
	}
	return key, nil
}

// keyIn is partitionKey for a request to documents of the container c. If c has no partition
// key and the client's version of the REST API knows such containers, requests name no key,
// and address the documents without one. Documents with one are out of reach of such a
// client, as in the service.
func (x *request) keyIn(c *engine.Container) (feed.PartitionKey, error) {
	key, err := x.partitionKey()
	if key == nil && err == nil && c.SystemKey() && x.beforeSystemKeys() {
		key = feed.PartitionKey{feed.Undefined}
	}
	return key, err
}

// keyArray describes a partition key in a request.
const keyArray = "a JSON array of strings, numbers, true, false, null or {}"

// parseKey parses a partition key that is a JSON array, as in the header of a request.
func parseKey(text string) (feed.PartitionKey, error) {
	key, err := feed.ParsePartitionKey(text)
	if err == nil && len(key) == 0 {
		// SDKs send [] for a document without a key, if the container was created without
		// a partition key.
		key = feed.PartitionKey{feed.Undefined}
	}
	return key, err
}

// minimal reports whether the client has asked for an answer without a body (Prefer:
// return=minimal).
func (x *request) minimal() bool {
	return strings.EqualFold(strings.ReplaceAll(x.header("Prefer"), " ", ""), "return=minimal")
}
