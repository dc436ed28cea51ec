package layout

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
	"github.com/changefeed-go/changefeed/storetype"
)

// Limits of documents.
const (
	// MaxIDSize is the size in bytes of the longest id, in UTF-8.
	MaxIDSize = 1023
	// MaxDepth is the largest number of nested levels of objects and arrays. The document
	// itself is the first level.
	MaxDepth = 128
)

// MaxTailSize is the largest number of bytes by which a stored document is longer than
// its body.
const MaxTailSize = 256

// Document is a document from a caller after it was parsed. It lacks the data that only
// the sequencer assigns: LSN, time and document number. Copies of a document share its
// slices.
type Document struct {
	ID string
	// key has the components of the partition key. Elements beyond the container's paths
	// are zero.
	key [MaxKeyPaths]epk.Component
	// keys is the number of components in key.
	keys int
	// ttl is the item's own time to live in seconds, or TTLNever. 0 means that it has
	// none.
	TTL int32
	// body is the canonical text of the document from its opening brace to the end of its
	// last member, without system properties and without the closing brace. It is a slice
	// of the caller's bytes if these are canonical and have no system properties. Code
	// that keeps body after the caller's call must copy it.
	Body []byte
}

// Components returns the components of the partition key. The slice shares d's memory.
func (d *Document) Components() []epk.Component { return d.key[:d.keys] }

// Stamp is the data of a stored document that the sequencer assigns.
type Stamp struct {
	// number is the document's number in its container. A create assigns it, and a
	// replace keeps it. The resource id (_rid) is made of it.
	Number uint32
	// lsn is the transaction's LSN. It is positive.
	LSN int64
	// ordinal is the index of the write in its transaction. It makes the ETags of one
	// transaction differ.
	Ordinal uint16
	// ts is the store's clock in seconds. It is not negative.
	TS int64
}

// The parts of a tail, which is the end of a stored document. See TailFormat.
const (
	tailRID  = `,"_rid":"`
	tailSelf = `","_self":"`
	tailETag = `/","_etag":"\"`
	TailTS   = `\"","_attachments":"attachments/","_ts":`
	TailLSN  = `,"_lsn":`

	ridSize  = 24 // the size of a document's rid in base64
	ETagSize = 36 // without quotes: 32 hexadecimal digits and 4 hyphens
)

// TailFormat appends the system properties to the documents of one container:
//
//	,"_rid":"…","_self":"…","_etag":"\"…\"","_attachments":"attachments/","_ts":N,"_lsn":N}
//
// Their order is part of the store's format. _lsn is last: a feed page has the stored
// bytes unchanged, and a point read cuts off the end. A TailFormat is immutable and safe
// for concurrent use.
type TailFormat struct {
	database, container uint32
	// self is the _self of the container's documents up to their rid.
	self string
}

// NewTailFormat returns the TailFormat of a container by its number and its database's
// number. The numbers are the arguments of ContainerRID. The ETags of an item are never used
// for a later item of its name, because the container's number is unique in the store.
func NewTailFormat(database, container uint32) *TailFormat {
	return &TailFormat{database, container, containerSelf(database, container) + "docs/"}
}

// AppendStored appends the stored form of a document: its body (see document.body) and
// the system properties. It allocates nothing if dst has room for len(body)+MaxTailSize
// bytes.
func (t *TailFormat) AppendStored(dst, body []byte, s Stamp) []byte {
	return t.appendTail(append(dst, body...), s)
}

func (t *TailFormat) appendTail(dst []byte, s Stamp) []byte {
	dst = append(dst, tailRID...)
	at := len(dst)
	dst = AppendDocumentRID(dst, t.database, t.container, s.Number)
	dst = append(dst, tailSelf...)
	dst = append(dst, t.self...)
	dst = append(dst, dst[at:at+ridSize]...)
	dst = append(dst, tailETag...)
	dst = t.appendETag(dst, s)
	dst = append(dst, TailTS...)
	dst = strconv.AppendInt(dst, s.TS, 10)
	dst = append(dst, TailLSN...)
	dst = strconv.AppendInt(dst, s.LSN, 10)
	return append(dst, '}')
}

// StoredSize returns the exact number of bytes that AppendStored appends. Code that
// writes into a Pebble batch must reserve them in advance.
func (t *TailFormat) StoredSize(body []byte, s Stamp) int {
	return len(body) + t.FixedSize() + DigitCount(s.TS) + len(TailLSN) + DigitCount(s.LSN) + 1
}

// FixedSize returns the size in bytes of the system properties up to the value of _ts. It
// is the same for all documents of the container.
func (t *TailFormat) FixedSize() int {
	return len(tailRID) + ridSize + len(tailSelf) + len(t.self) + ridSize + len(tailETag) + ETagSize + len(TailTS)
}

// DigitCount returns the number of decimal digits of n, which is not negative.
func DigitCount(n int64) int {
	count := 1
	for ; n >= 10; n /= 10 {
		count++
	}
	return count
}

// ETag returns the ETag that AppendStored writes for s, with its quotes. It is a function
// of the container, the LSN and the ordinal. So writes need no random numbers. The LSNs of a
// key always rise, so no two versions of an item share an ETag. Items of different
// partitions may.
func (t *TailFormat) ETag(s Stamp) string {
	var b [ETagSize + 2]byte
	return string(append(t.appendETag(append(b[:0], '"'), s), '"'))
}

// appendETag appends an ETag without quotes: llllllll-llll-llll-oooo-cccccccccccc. These
// are the hexadecimal digits of the LSN, the ordinal and the container's number.
func (t *TailFormat) appendETag(dst []byte, s Stamp) []byte {
	dst = appendHex(dst, uint64(s.LSN)>>32, 8)
	dst = append(dst, '-')
	dst = appendHex(dst, uint64(s.LSN)>>16, 4)
	dst = append(dst, '-')
	dst = appendHex(dst, uint64(s.LSN), 4)
	dst = append(dst, '-')
	dst = appendHex(dst, uint64(s.Ordinal), 4)
	dst = append(dst, '-')
	return appendHex(dst, uint64(t.container), 12)
}

// appendHex appends the lowest n hexadecimal digits of v.
func appendHex(dst []byte, v uint64, n int) []byte {
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, "0123456789abcdef"[v>>(4*i)&15])
	}
	return dst
}

// ErrTail reports a stored document whose tail this store cannot have written.
var ErrTail = errors.New("the system properties at the end of a stored document are damaged")

// CutNumber cuts the member `"name":N` off the end of b. name includes the quotes and the
// colon. It returns the rest of b and N.
func CutNumber(b []byte, name string) (rest []byte, n int64, err error) {
	i, unit := len(b), int64(1)
	for i > 0 && jsonscan.IsDigit(b[i-1]) {
		if len(b)-i == 18 {
			return nil, 0, ErrTail // more digits than any int64 that the store writes
		}
		i--
		n += int64(b[i]-'0') * unit
		unit *= 10
	}
	if i == len(b) || i < len(name) || string(b[i-len(name):i]) != name {
		return nil, 0, ErrTail
	}
	return b[:i-len(name)], n, nil
}

// cutLSN cuts the closing brace and the member _lsn off a stored document. It returns the
// rest and the LSN.
func cutLSN(stored []byte) (rest []byte, lsn int64, err error) {
	if len(stored) == 0 || stored[len(stored)-1] != '}' {
		return nil, 0, ErrTail
	}
	return CutNumber(stored[:len(stored)-1], TailLSN)
}

// AppendPublic appends to dst the document that a read returns, which is the stored
// document without _lsn. dst may be stored[:0].
func AppendPublic(dst, stored []byte) ([]byte, error) {
	rest, _, err := cutLSN(stored)
	if err != nil {
		return nil, err
	}
	return append(append(dst, rest...), '}'), nil
}

// storedTimes returns the values of _ts and _lsn of a stored document. It allocates
// nothing.
func storedTimes(stored []byte) (ts, lsn int64, err error) {
	rest, lsn, err := cutLSN(stored)
	if err != nil {
		return 0, 0, err
	}
	_, ts, err = CutNumber(rest, TailTS)
	return ts, lsn, err
}

// ParseStored splits a stored document into its body (see document.body) and its stamp.
// It returns an error unless the end is exactly what AppendStored writes for this
// container. The body shares the memory of stored. ParseStored allocates nothing.
func (t *TailFormat) ParseStored(stored []byte) (body []byte, s Stamp, err error) {
	if s.TS, s.LSN, err = storedTimes(stored); err != nil {
		return nil, Stamp{}, err
	}
	size := t.StoredSize(nil, s)
	if size >= len(stored) {
		return nil, Stamp{}, ErrTail
	}
	body, tail := stored[:len(stored)-size], stored[len(stored)-size:]
	r, ok := ParseRID(string(tail[len(tailRID) : len(tailRID)+ridSize]))
	if !ok {
		return nil, Stamp{}, ErrTail
	}
	s.Number = r.Document
	etag := tail[t.FixedSize()-len(TailTS)-ETagSize:]
	const before = len("llllllll-llll-llll-")
	ordinal, err := strconv.ParseUint(string(etag[before:before+4]), 16, 16)
	if err != nil {
		return nil, Stamp{}, ErrTail
	}
	s.Ordinal = uint16(ordinal)
	var b [MaxTailSize]byte
	if !bytes.Equal(t.appendTail(b[:0], s), tail) {
		return nil, Stamp{}, ErrTail
	}
	return body, s, nil
}

// Times to live, in seconds, of containers (DefaultTTL) and items (ttl).
const (
	// TTLOff means that a container ignores its items' own ttl, or that an item has no
	// ttl.
	TTLOff = 0
	// TTLNever means that only items with a ttl of their own expire in a container, or
	// that an item never expires.
	TTLNever = -1
)

// expiry returns the time, in seconds of the store's clock, at which an item expires that
// was written in second ts. ok is false if the item never expires. container and item are
// the times to live of both. The item's own takes precedence, unless the container's is
// off.
func expiry(ts int64, container, item int32) (at int64, ok bool) {
	ttl := item
	if ttl == TTLOff {
		ttl = container
	}
	if container == TTLOff || ttl == TTLNever {
		return 0, false
	}
	return ts + int64(ttl), true
}

// Expired reports whether an item that was written in second ts has expired in second
// now. container and item are the times to live of both.
func Expired(ts int64, container, item int32, now int64) bool {
	at, ok := expiry(ts, container, item)
	return ok && at <= now
}

// CheckTTL returns a BadTTL error unless seconds can be the DefaultTTL of a container:
// TTLOff, TTLNever, or 1 and more.
func CheckTTL(seconds int64) error {
	if seconds < TTLNever || seconds > math.MaxInt32 {
		return BadRequest(storetype.BadTTL, "the default time to live is %d; it is 0 for off, -1 for on without a default, or from 1 to %d seconds",
			seconds, math.MaxInt32)
	}
	return nil
}
