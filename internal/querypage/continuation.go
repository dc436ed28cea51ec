package querypage

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/query"
)

// A token is the text of a continuation: its parts with "~" between them, and their
// checksum. A position may be any bytes. Without the checksum, a token that was cut off,
// or that another server or container made, would be read as a position, and a client
// would miss rows.

// checksumDigits is the length of a token's checksum, which is a CRC-32C in hexadecimal.
// It detects damaged tokens, but does not prevent forgery.
const checksumDigits = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// JoinToken returns a token of parts. No part may contain a "~".
func JoinToken(parts ...string) string {
	text := strings.Join(parts, "~")
	return text + "~" + checksum(text)
}

// SplitToken returns the parts of a token, or nil if JoinToken did not make it.
func SplitToken(token string) []string {
	at := len(token) - checksumDigits - 1
	if at < 0 || token[at] != '~' || checksum(token[:at]) != token[at+1:] {
		return nil
	}
	return strings.Split(token[:at], "~")
}

func checksum(text string) string {
	return fmt.Sprintf("%0*x", checksumDigits, crc32.Checksum([]byte(text), castagnoli))
}

// position is the position at which a page of a query begins, among documents or sort
// keys. It is never a number of rows that were read, so it stays right after any write,
// split or merge. Its token holds the rid of the container, but nothing of the query's
// text: SDKs change the filter and keep the position when they resume a query of several
// partitions.
//
//	<kind>~<rid>~<limit>~<offset>~<within>~<position>~<checksum>
//
// kind is s (in the order of the documents) or o (in the order of keys). within is empty
// unless the page ended among the rows of one document, as it may with JOIN. Then within
// is the document's number and the number of its rows that were returned, as in "7.250".
// The next page begins with that document. If another document has replaced it, the page
// begins with the first row of the new one.
type position struct {
	ordered bool
	// limit is the number of rows that TOP and LIMIT still allow. It is -1 if the query
	// has neither.
	limit int64
	// offset is the number of rows that OFFSET still skips.
	offset int64
	// after is the position among documents. It is empty before the first document.
	after string
	// document is the number of the document at position after, if only some of its rows
	// were returned. rows is the number of those rows. Otherwise rows is 0.
	document, rows uint64
	// last is the row before the page in an ordered query. It is nil for the first page.
	last *query.Position
}

const (
	kindScan    = "s"
	kindOrdered = "o"
	tokenParts  = 6
)

// maxSortKey is the largest size in bytes of a sort key in a continuation. Servers and
// clients limit the size of headers.
const maxSortKey = 2 << 10

// errLongSortKey is the error of a position whose sort key is too long for a
// continuation.
var errLongSortKey = errors.New("the sort key is too long for a continuation")

// startOf returns the position of the first page of a query.
func startOf(shape query.Shape) position {
	p := position{ordered: Sorts(shape), limit: -1}
	if shape.Top != nil {
		p.limit = *shape.Top
	}
	if shape.Limit != nil && (p.limit < 0 || *shape.Limit < p.limit) {
		p.limit = *shape.Limit
	}
	if shape.Offset != nil {
		p.offset = *shape.Offset
	}
	return p
}

// token returns the continuation of the position. It returns errLongSortKey if the sort
// key is too long.
func (p position) token(rid string) (string, error) {
	kind, at, limit, within := kindScan, p.after, "", ""
	if p.limit >= 0 {
		limit = strconv.FormatInt(p.limit, 10)
	}
	if p.ordered {
		kind, at = kindOrdered, ""
		if p.last != nil {
			if len(p.last.Key) > maxSortKey {
				return "", errLongSortKey
			}
			b := binary.BigEndian.AppendUint64(nil, p.last.Tie)
			b = binary.BigEndian.AppendUint64(b, p.last.Row)
			at = base64.RawURLEncoding.EncodeToString(append(b, p.last.Key...))
		}
	}
	if p.rows > 0 {
		within = strconv.FormatUint(p.document, 10) + "." + strconv.FormatUint(p.rows, 10)
	}
	return JoinToken(kind, rid, limit, strconv.FormatInt(p.offset, 10), within, at), nil
}

// parsePosition returns the position in a continuation. It is the inverse of token. It
// returns an *[Error] if the token belongs to another container, or to a query with the
// other value of ordered.
func parsePosition(text, rid string, ordered bool) (position, error) {
	p := position{ordered: ordered, limit: -1}
	kind := kindScan
	if ordered {
		kind = kindOrdered
	}
	parts := SplitToken(text)
	ok := len(parts) == tokenParts && parts[0] == kind && parts[1] == rid && (parts[2] == "" || parseCount(parts[2], &p.limit)) && parseCount(parts[3], &p.offset)
	if ok && parts[4] != "" {
		document, rows, _ := strings.Cut(parts[4], ".")
		var n, m int64
		ok = parseCount(document, &n) && parseCount(rows, &m) && m > 0 && !ordered
		p.document, p.rows = uint64(n), uint64(m)
	}
	switch {
	case !ok:
	case !ordered:
		p.after = parts[5]
	case parts[5] != "":
		const ties = 16 // the two numbers before the key
		b, err := base64.RawURLEncoding.Strict().DecodeString(parts[5])
		if ok = err == nil && len(b) >= ties && len(b) <= ties+maxSortKey; ok {
			p.last = &query.Position{Tie: binary.BigEndian.Uint64(b), Row: binary.BigEndian.Uint64(b[8:]), Key: b[ties:]}
		}
	}
	if !ok {
		return position{}, badRequest("the header x-ms-continuation is %.60q, which is not a continuation of this query in this container; "+
			"send the continuation of an earlier page of the same query, or none", text)
	}
	return p, nil
}

// parseCount parses a number as token writes it into n. It returns false for any other
// text.
func parseCount(s string, n *int64) bool {
	var err error
	*n, err = strconv.ParseInt(s, 10, 64)
	return err == nil && *n >= 0 && strconv.FormatInt(*n, 10) == s
}

// documentNumber returns the number of a document in its container, or 0. The number is
// part of the rid, which is among the document's last members.
func documentNumber(body []byte) uint64 {
	const mark, size = `"_rid":"`, 24
	at := bytes.LastIndex(body, []byte(mark))
	if at < 0 || at+len(mark)+size > len(body) {
		return 0
	}
	var b [18]byte
	if n, err := engine.RIDEncoding.Decode(b[:], body[at+len(mark):at+len(mark)+size]); err != nil || n != 16 {
		return 0
	}
	return uint64(binary.BigEndian.Uint32(b[8:]))
}
