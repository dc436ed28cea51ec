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

	"github.com/changefeed-go/changefeed/internal/layout"
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
// split or merge. query_token.go has the text of its continuation.
//
// A page of a JOIN may end among the rows of a document, and every page before a row that is
// too large for it. Then the next page begins with that document. If another document has
// replaced it, the page begins with the first row of the new one.
type position struct {
	ordered bool
	// limit is the number of rows that TOP and LIMIT still allow. It is -1 if the query
	// has neither.
	limit int64
	// offset is the number of rows that OFFSET still skips.
	offset int64
	// after is the position among documents. It is empty before the first document.
	after string
	// within reports whether the page begins with the document at position after. document
	// is its number, and rows is the number of its rows that were returned.
	within         bool
	document, rows uint64
	// last is the row before the page in an ordered query. It is nil for the first page.
	last *query.Position
}

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

// text returns the position as text. It returns errLongSortKey if the sort key is too long.
//
//	<limit>~<offset>~<within>~<position>
//
// within is empty if the next page begins after the document at the position. Otherwise it is
// the document's number and the number of its rows that were returned, as in "7.250".
func (p position) text() (string, error) {
	at, limit, within := p.after, "", ""
	if p.limit >= 0 {
		limit = strconv.FormatInt(p.limit, 10)
	}
	if p.ordered {
		at = ""
		if p.last != nil {
			if len(p.last.Key) > maxSortKey {
				return "", errLongSortKey
			}
			b := binary.BigEndian.AppendUint64(nil, p.last.Tie)
			b = binary.BigEndian.AppendUint64(b, p.last.Row)
			at = base64.RawURLEncoding.EncodeToString(append(b, p.last.Key...))
		}
	}
	if p.within {
		within = strconv.FormatUint(p.document, 10) + "." + strconv.FormatUint(p.rows, 10)
	}
	return strings.Join([]string{limit, strconv.FormatInt(p.offset, 10), within, at}, "~"), nil
}

// parsePosition returns the position that text has written. ok is false for another text.
func parsePosition(text string, ordered bool) (p position, ok bool) {
	p = position{ordered: ordered, limit: -1}
	parts := strings.Split(text, "~")
	ok = len(parts) == 4 && (parts[0] == "" || parseCount(parts[0], &p.limit)) && parseCount(parts[1], &p.offset)
	if ok && parts[2] != "" {
		document, rows, _ := strings.Cut(parts[2], ".")
		var n, m int64
		ok = parseCount(document, &n) && parseCount(rows, &m) && !ordered
		p.within, p.document, p.rows = true, uint64(n), uint64(m)
	}
	switch {
	case !ok:
	case !ordered:
		p.after = parts[3]
	case parts[3] != "":
		const ties = 16 // the two numbers before the key
		b, err := base64.RawURLEncoding.Strict().DecodeString(parts[3])
		if ok = err == nil && len(b) >= ties && len(b) <= ties+maxSortKey; ok {
			p.last = &query.Position{Tie: binary.BigEndian.Uint64(b), Row: binary.BigEndian.Uint64(b[8:]), Key: b[ties:]}
		}
	}
	return p, ok
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
	if n, err := layout.RIDEncoding.Decode(b[:], body[at+len(mark):at+len(mark)+size]); err != nil || n != 16 {
		return 0
	}
	return uint64(binary.BigEndian.Uint32(b[8:]))
}
