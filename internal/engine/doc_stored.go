package engine

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
)

// Limits of documents.
const (
	// MaxDocumentSize is the size in bytes of a document as it comes in, without
	// the system properties that the store appends.
	MaxDocumentSize = 2 << 20
	// MaxIDSize is the length of an id in bytes of UTF-8.
	MaxIDSize = 1023
	// MaxDepth is how deep objects and arrays may be nested; the document itself
	// is the first level.
	MaxDepth = 128
)

// maxTailSize is the most that appendStored adds to a document's own bytes.
const maxTailSize = 256

// document is a body that was checked and can be stored: everything that needs
// no LSN, time or rid, so that it is made outside the sequencer. It is a value;
// its slices are shared.
type document struct {
	id string
	// key has a component for each path of the container; those beyond are zero.
	key [MaxKeyPaths]epk.Component
	// keys is how many components there are.
	keys int
	// ttl is the item's own: 0 none, ttlNever, or seconds.
	ttl int32
	// body is the document from its opening brace to the end of its last own
	// member, without the closing brace: a slice of the caller's bytes, unless
	// system properties had to be taken out. Who keeps it beyond the call that
	// brought it copies it.
	body []byte
}

// components returns the partition key. The slice shares d's memory.
func (d *document) components() []epk.Component { return d.key[:d.keys] }

// stamp is what the sequencer alone knows of a stored document.
type stamp struct {
	// number is the document's number in its container: given at its creation,
	// kept by every replace. Its rid is made from it.
	number uint32
	// lsn is the transaction's; positive.
	lsn int64
	// ordinal is the write's place in its transaction, from 0. It tells the etags
	// of one transaction apart.
	ordinal uint16
	// ts is the store's clock in whole seconds, not negative.
	ts int64
}

// The parts of a tail, see tailFormat.
const (
	tailRID  = `,"_rid":"`
	tailSelf = `","_self":"`
	tailETag = `/","_etag":"\"`
	tailTS   = `\"","_attachments":"attachments/","_ts":`
	tailLSN  = `,"_lsn":`

	ridSize  = 24 // of a document's rid, in base64
	etagSize = 36 // without quotes: 32 hexadecimal digits and 4 hyphens
)

// tailFormat makes the system properties of one container's documents:
//
//	,"_rid":"…","_self":"…","_etag":"\"…\"","_attachments":"attachments/","_ts":N,"_lsn":N}
//
// Their order is part of the store's format: _lsn is last, so that a feed page
// is stored bytes as they are, and a point read cuts the end off. A tailFormat is
// immutable and safe for concurrent use.
type tailFormat struct {
	database, container uint32
	// self is the _self of the container's documents before their rid.
	self string
}

// newTailFormat makes the tail of container number container in database number
// database. The numbers are those of containerRID, and unique in the store:
// the etags rely on it.
func newTailFormat(database, container uint32) *tailFormat {
	return &tailFormat{database, container, containerSelf(database, container) + "docs/"}
}

// appendStored appends body (see document.body) and the system properties: the
// bytes to store. It allocates nothing when dst has room for
// len(body)+maxTailSize.
func (t *tailFormat) appendStored(dst, body []byte, s stamp) []byte {
	return t.appendTail(append(dst, body...), s)
}

func (t *tailFormat) appendTail(dst []byte, s stamp) []byte {
	dst = append(dst, tailRID...)
	at := len(dst)
	dst = appendDocumentRID(dst, t.database, t.container, s.number)
	dst = append(dst, tailSelf...)
	dst = append(dst, t.self...)
	dst = append(dst, dst[at:at+ridSize]...)
	dst = append(dst, tailETag...)
	dst = t.appendETag(dst, s)
	dst = append(dst, tailTS...)
	dst = strconv.AppendInt(dst, s.ts, 10)
	dst = append(dst, tailLSN...)
	dst = strconv.AppendInt(dst, s.lsn, 10)
	return append(dst, '}')
}

// storedSize is the exact length of what appendStored appends, for a deferred
// set.
func (t *tailFormat) storedSize(body []byte, s stamp) int {
	return len(body) + t.fixedSize() + digitCount(s.ts) + len(tailLSN) + digitCount(s.lsn) + 1
}

// fixedSize is the length of a tail before the value of _ts.
func (t *tailFormat) fixedSize() int {
	return len(tailRID) + ridSize + len(tailSelf) + len(t.self) + ridSize + len(tailETag) + etagSize + len(tailTS)
}

func digitCount(n int64) int {
	count := 1
	for ; n >= 10; n /= 10 {
		count++
	}
	return count
}

// etag returns the etag that appendStored writes for s, with its quotes. It is a
// function of the container, the LSN and the ordinal, so that applying a commit
// needs no random number, and no two versions of any items share one.
func (t *tailFormat) etag(s stamp) string {
	var b [etagSize + 2]byte
	return string(append(t.appendETag(append(b[:0], '"'), s), '"'))
}

// appendETag appends llllllll-llll-llll-oooo-cccccccccccc: LSN, ordinal and
// container number in hexadecimal.
func (t *tailFormat) appendETag(dst []byte, s stamp) []byte {
	dst = appendHex(dst, uint64(s.lsn)>>32, 8)
	dst = append(dst, '-')
	dst = appendHex(dst, uint64(s.lsn)>>16, 4)
	dst = append(dst, '-')
	dst = appendHex(dst, uint64(s.lsn), 4)
	dst = append(dst, '-')
	dst = appendHex(dst, uint64(s.ordinal), 4)
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

var errTail = errors.New("the system properties at the end of a stored document are damaged")

// cutNumber cuts `"name":N` off the end of b.
func cutNumber(b []byte, name string) (rest []byte, n int64, err error) {
	i, unit := len(b), int64(1)
	for i > 0 && jsonscan.IsDigit(b[i-1]) {
		if len(b)-i == 18 {
			return nil, 0, errTail // more digits than an int64 has for certain
		}
		i--
		n += int64(b[i]-'0') * unit
		unit *= 10
	}
	if i == len(b) || i < len(name) || string(b[i-len(name):i]) != name {
		return nil, 0, errTail
	}
	return b[:i-len(name)], n, nil
}

// cutLSN takes the last member and the brace off stored bytes.
func cutLSN(stored []byte) (rest []byte, lsn int64, err error) {
	if len(stored) == 0 || stored[len(stored)-1] != '}' {
		return nil, 0, errTail
	}
	return cutNumber(stored[:len(stored)-1], tailLSN)
}

// appendPublic appends a document as a point read shows it: stored bytes
// without _lsn.
func appendPublic(dst, stored []byte) ([]byte, error) {
	rest, _, err := cutLSN(stored)
	if err != nil {
		return nil, err
	}
	return append(append(dst, rest...), '}'), nil
}

// storedTimes reads _ts and _lsn off the end of stored bytes. It allocates
// nothing.
func storedTimes(stored []byte) (ts, lsn int64, err error) {
	rest, lsn, err := cutLSN(stored)
	if err != nil {
		return 0, 0, err
	}
	_, ts, err = cutNumber(rest, tailTS)
	return ts, lsn, err
}

// parseStored takes stored bytes apart: the document's own bytes (as
// document.body, sharing memory) and the stamp. It checks that the tail is exactly
// what appendStored of this container writes. It allocates nothing.
func (t *tailFormat) parseStored(stored []byte) (body []byte, s stamp, err error) {
	if s.ts, s.lsn, err = storedTimes(stored); err != nil {
		return nil, stamp{}, err
	}
	size := t.storedSize(nil, s)
	if size >= len(stored) {
		return nil, stamp{}, errTail
	}
	body, tail := stored[:len(stored)-size], stored[len(stored)-size:]
	r, ok := parseRID(string(tail[len(tailRID) : len(tailRID)+ridSize]))
	if !ok {
		return nil, stamp{}, errTail
	}
	s.number = r.document
	etag := tail[t.fixedSize()-len(tailTS)-etagSize:]
	const before = len("llllllll-llll-llll-")
	ordinal, err := strconv.ParseUint(string(etag[before:before+4]), 16, 16)
	if err != nil {
		return nil, stamp{}, errTail
	}
	s.ordinal = uint16(ordinal)
	var b [maxTailSize]byte
	if !bytes.Equal(t.appendTail(b[:0], s), tail) {
		return nil, stamp{}, errTail
	}
	return body, s, nil
}

// Times to live, in seconds, of containers (DefaultTTL) and items (ttl).
const (
	// ttlOff says of a container that its items' own ttl is ignored, and of an
	// item that it has none.
	ttlOff = 0
	// ttlNever says of a container that items expire by their own ttl alone,
	// and of an item that it never expires.
	ttlNever = -1
)

// expiry returns the second of the store's clock from which an item written in
// second ts is expired; ok is false when it never is. container and item are
// times to live. An item's own wins over its container's, unless that is off.
func expiry(ts int64, container, item int32) (at int64, ok bool) {
	ttl := item
	if ttl == ttlOff {
		ttl = container
	}
	if container == ttlOff || ttl == ttlNever {
		return 0, false
	}
	return ts + int64(ttl), true
}

// expired reports whether an item is expired in second now of the store's clock.
func expired(ts int64, container, item int32, now int64) bool {
	at, ok := expiry(ts, container, item)
	return ok && at <= now
}

// checkTTL judges a container's DefaultTTL: off, never, or seconds.
func checkTTL(seconds int64) error {
	if seconds < ttlNever || seconds > math.MaxInt32 {
		return badRequest(BadTTL, "the default time to live is %d; it is 0 for off, -1 for on without a default, or from 1 to %d seconds",
			seconds, math.MaxInt32)
	}
	return nil
}
