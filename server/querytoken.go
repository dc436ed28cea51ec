package server

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query"
)

// The continuation of a query is a position among documents, and never a number of rows that were read: so it
// is right after any write, and on the partitions that a split or a merge made. It has the container's rid, since positions of
// another container mean nothing. It says nothing of the query's text: SDKs change the filter when they resume
// a query of several partitions, and keep the position.
//
//	<kind>~<rid>~<left>~<skip>~<within>~<position>~<checksum, see seal>
//
// kind is s (in the order of the documents) or o (ORDER BY); left is how many rows TOP or LIMIT still allow, empty without
// either; skip how many are still to be skipped by OFFSET. within is empty unless the page ended among the rows of
// one document, as it may with JOIN: then it is the document's number and how many of its rows were answered, "7.250", and
// the next page begins with that document. That count is the only one, and counts in one document: another one in its place begins
// with its first row.

// queryPosition is where a page of a query begins.
type queryPosition struct {
	ordered bool
	// left is -1 without TOP and LIMIT.
	left, skip int64
	// after is the position among documents; empty: from the first.
	after string
	// of is the number of the document that after is behind, if done rows of it were answered, and others weren't; else done is 0.
	of, done uint64
	// last is the row before the page, of an ordered query; nil: there is none.
	last *query.Position
}

const (
	tokenScan    = "s"
	tokenOrdered = "o"
	tokenParts   = 6
)

// maxSortKey is the longest sort key, in bytes, that a continuation can have: headers are bounded, by clients too.
const maxSortKey = 2 << 10

// errLongSortKey is the error of a position whose sort key is too long for a continuation.
var errLongSortKey = errors.New("the sort key is too long for a continuation")

// continueAt sets the continuation of the answer. A sort key that is too long is a 400 with an
// advice that the client has not followed yet.
func (x *exchange) continueAt(run *queryRun, rid string) error {
	text, err := run.next.token(rid)
	if errors.Is(err, errLongSortKey) {
		advice := "the page is as large as a page can be: return less of each item, let a condition or LIMIT leave fewer rows, or sort by something shorter"
		if run.count >= run.max && run.max < mostRows {
			advice = "read all rows in one page (x-ms-max-item-count: -1), or sort by something shorter"
		}
		return badRequest("the value that the rows are sorted by has more than %d bytes, which is too much for a continuation; %s", maxSortKey, advice)
	}
	x.continuation = text
	return err
}

// token returns the continuation of the position, or errLongSortKey.
func (p queryPosition) token(rid string) (string, error) {
	left := ""
	if p.left >= 0 {
		left = strconv.FormatInt(p.left, 10)
	}
	kind, position := tokenScan, p.after
	if p.ordered {
		kind, position = tokenOrdered, ""
		if p.last != nil {
			if len(p.last.Key) > maxSortKey {
				return "", errLongSortKey
			}
			b := binary.BigEndian.AppendUint64(nil, p.last.Tie)
			b = binary.BigEndian.AppendUint64(b, p.last.Row)
			position = base64.RawURLEncoding.EncodeToString(append(b, p.last.Key...))
		}
	}
	within := ""
	if p.done > 0 {
		within = strconv.FormatUint(p.of, 10) + "." + strconv.FormatUint(p.done, 10)
	}
	return seal(kind, rid, left, strconv.FormatInt(p.skip, 10), within, position), nil
}

// parseQueryToken is the reverse of token, for a query of the container that is ordered or not.
func parseQueryToken(text, rid string, ordered bool) (p queryPosition, err error) {
	bad := badRequest("the header x-ms-continuation is %.60q, which is no continuation of this query in this container: "+
		"send what an earlier page of the same query was answered with, or nothing", text)
	parts := unseal(text)
	if len(parts) != tokenParts || parts[1] != rid || (parts[0] == tokenOrdered) != ordered || (parts[0] == tokenScan) == ordered {
		return p, bad
	}
	p.ordered = ordered
	ok := true
	p.left = -1
	if parts[2] != "" {
		p.left, ok = parseCount(parts[2])
	}
	skip, skipOK := parseCount(parts[3])
	if p.skip = skip; !ok || !skipOK {
		return queryPosition{}, bad
	}
	if parts[4] != "" {
		of, done, _ := strings.Cut(parts[4], ".")
		n, ok := parseCount(of)
		m, doneOK := parseCount(done)
		if !ok || !doneOK || m == 0 || ordered {
			return queryPosition{}, bad
		}
		p.of, p.done = uint64(n), uint64(m)
	}
	if !ordered {
		p.after = parts[5]
		return p, nil
	}
	if parts[5] == "" {
		return p, nil
	}
	const ties = 16 // the two numbers before the key
	b, err := base64.RawURLEncoding.Strict().DecodeString(parts[5])
	if err != nil || len(b) < ties || len(b) > ties+maxSortKey {
		return queryPosition{}, bad
	}
	p.last = &query.Position{Tie: binary.BigEndian.Uint64(b), Row: binary.BigEndian.Uint64(b[8:]), Key: b[ties:]}
	return p, nil
}

// parseCount reads a number as token writes it.
func parseCount(s string) (n int64, ok bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == s
}

// documentNumber is the number of a document in its container, which its rid has behind the container's. The rid is
// among the document's last members.
func documentNumber(body []byte) uint64 {
	const mark, size = `"_rid":"`, 24
	at := bytes.LastIndex(body, []byte(mark))
	if at < 0 || at+len(mark)+size > len(body) {
		return 0
	}
	var b [18]byte
	if n, err := ridEncoding.Decode(b[:], body[at+len(mark):at+len(mark)+size]); err != nil || n != 16 {
		return 0
	}
	return uint64(binary.BigEndian.Uint32(b[8:]))
}
