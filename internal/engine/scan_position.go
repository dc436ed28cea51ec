package engine

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// A page of items never spans two physical partitions. Its items come in the order in
// which they were first written, which is that of their numbers, if the request covers the
// whole partition or a single key. The items of other requests are sorted by key, and
// only within a key by number: the store has no order of writing for any range of keys,
// and sorting all items of the range for each page would cost too much.

// itemPosition is a position among the items of a container. It is valid for any live
// partitions, so splits and merges between two pages change nothing.
//
// All items with points below lower are done, and those with the point lower up to number.
// Ranges follow lower, and each begins where the one before it ends. Their items are done
// up to a number each. There is one for a partition that was read in part, and one more
// for each time that such a range was split between two pages.
type itemPosition struct {
	lower  []byte
	number uint32
	ranges []doneRange
}

// doneRange is a range of keys below upper, whose items are done up to a number.
type doneRange struct {
	upper  []byte
	number uint32
}

// The first bytes of encoded positions.
const (
	positionInOrder = 'o'
	positionInIndex = 'i' // followed by a point and an id, see scanIndex
)

// encode returns the position as the text of a continuation.
func (p itemPosition) encode() string {
	b := appendBorder([]byte{positionInOrder}, p.lower, p.number)
	for _, r := range p.ranges {
		b = appendBorder(b, r.upper, r.number)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func appendBorder(b, border []byte, number uint32) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(border))) //nolint:gosec // a point has at most a few hundred bytes
	return binary.BigEndian.AppendUint32(append(b, border...), number)
}

func readBorder(b []byte) (border []byte, number uint32, rest []byte, ok bool) {
	if len(b) < 6 {
		return nil, 0, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; len(b) < n+4 {
		return nil, 0, nil, false
	}
	return b[:n:n], binary.BigEndian.Uint32(b[n:]), b[n+4:], true
}

// encodeIndexPosition returns the position of an index entry as the text of a
// continuation. rest has the point and the id.
func encodeIndexPosition(rest []byte) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{positionInIndex}, rest...))
}

// readPosition parses the continuation of a request. In the order of the index, it
// returns a point and an id.
func (r *ItemsRequest) readPosition() (at itemPosition, rest []byte, err error) {
	if r.Continuation == "" {
		return at, nil, nil
	}
	bad := layout.BadRequest(storetype.BadContinuation, "%.60q is not a position among items", r.Continuation)
	b, err := base64.RawURLEncoding.DecodeString(r.Continuation)
	if err != nil || len(b) < 2 {
		return at, nil, bad
	}
	kind, b := b[0], b[1:]
	if r.AnyOrder {
		if kind != positionInIndex {
			return at, nil, bad
		}
		return at, b, nil
	}
	var ok bool
	if at.lower, at.number, b, ok = readBorder(b); !ok || kind != positionInOrder {
		return at, nil, bad
	}
	for len(b) > 0 {
		var done doneRange
		if done.upper, done.number, b, ok = readBorder(b); !ok {
			return at, nil, bad
		}
		at.ranges = append(at.ranges, done)
	}
	return at, nil, nil
}

// last returns the number of the item that the position follows, or 0.
func (p *itemPosition) last() uint32 {
	if len(p.ranges) > 0 {
		return p.ranges[0].number
	}
	return p.number
}

// itemPart is the part of a page's order that is in one partition: its items with points
// of at least lower and below upper.
type itemPart struct {
	partition *partition
	// byNumber is true for the order of the partition's numbers, which begins after
	// number. Otherwise the items are sorted by key, and those with the point lower begin
	// after number.
	byNumber     bool
	lower, upper []byte
	number       uint32
	// rest has the ranges of the position that follow the part.
	rest []doneRange
	// resumed is not nil if the part is only the item that this position follows.
	resumed *itemPosition
}

// partAt returns the first part with items after a position that the filter selects. ok
// is false if there is none.
func (m *meta) partAt(sc *keyFilter, at itemPosition) (part itemPart, ok bool) {
	part.lower, part.upper = sc.lower, sc.upper
	if bytes.Compare(at.lower, part.lower) >= 0 {
		part.lower, part.number = at.lower, at.number
	}
	if sc.point != nil {
		if !sc.holds(sc.point) {
			return part, false // the key is outside of the request's range
		}
		if bytes.Compare(part.lower, sc.point) < 0 {
			part.lower, part.number = sc.point, 0
		}
		part.upper = layout.Successor(sc.point)
	}
	if bytes.Compare(part.lower, part.upper) >= 0 {
		return part, false
	}
	part.partition = m.partitions[min(m.find(part.lower), len(m.partitions)-1)]
	part.cut(part.partition.upper)
	done := at.ranges
	for len(done) > 0 && bytes.Compare(done[0].upper, part.lower) <= 0 {
		done = done[1:]
	}
	switch {
	case len(done) > 0:
		part.byNumber, part.number = true, done[0].number
		part.cut(done[0].upper)
		for len(done) > 0 && bytes.Compare(done[0].upper, part.upper) <= 0 {
			done = done[1:]
		}
		part.rest = done
	case sc.point == nil && part.number == 0 && part.isWhole():
		part.byNumber = true
	}
	return part, true
}

// cut removes the keys from border on from the part.
func (p *itemPart) cut(border []byte) {
	if bytes.Compare(border, p.upper) < 0 {
		p.upper = border
	}
}

// isWhole reports whether the part has all keys of its partition.
func (p *itemPart) isWhole() bool {
	return bytes.Equal(p.lower, p.partition.lower) && bytes.Equal(p.upper, p.partition.upper)
}

// has reports whether a point is in the part.
func (p *itemPart) has(point []byte) bool {
	return bytes.Compare(point, p.lower) >= 0 && bytes.Compare(point, p.upper) < 0
}

// after returns the position after an item of the part. It does not keep point.
func (p *itemPart) after(point []byte, number uint32) itemPosition {
	switch {
	case p.resumed != nil:
		return *p.resumed
	case !p.byNumber:
		return itemPosition{lower: bytes.Clone(point), number: number}
	}
	done := make([]doneRange, 0, 1+len(p.rest))
	return itemPosition{lower: p.lower, ranges: append(append(done, doneRange{p.upper, number}), p.rest...)}
}

// begin returns the position before the part.
func (p *itemPart) begin() itemPosition { return p.after(p.lower, p.number) }

// end returns the position after the part.
func (p *itemPart) end() itemPosition { return itemPosition{lower: p.upper, ranges: p.rest} }

// ItemsPosition is a position among items that a range of keys and a document number
// describe: the items of the range were read up to the number, in the order of their
// numbers. If Keys has only a Min, that is a full key, or with the number 0 the key before which
// everything was read.
type ItemsPosition struct {
	Keys   feed.Range
	Number uint32
}

// ParseItemsPosition returns the position of a continuation of [Container.Items]. ok is
// false if it takes more to describe it, or if the text is no such continuation.
func ParseItemsPosition(continuation string) (p ItemsPosition, ok bool) {
	at, _, err := (&ItemsRequest{ItemsRequest: storetype.ItemsRequest{Continuation: continuation}}).readPosition()
	switch {
	case err != nil || len(at.ranges) > 1 || at.last() == 0 && (len(at.ranges) > 0 || len(at.lower) == 0):
		return p, false
	case len(at.ranges) == 1 && at.number == 0:
		p.Keys.Max = epk.Hex(at.ranges[0].upper)
	case len(at.ranges) == 1:
		return p, false
	}
	p.Keys.Min, p.Number = epk.Hex(at.lower), at.last()
	return p, true
}

// Continuation returns the continuation of the position. It is the inverse of
// [ParseItemsPosition]. It returns "" if Keys is not hexadecimal.
func (p ItemsPosition) Continuation() string {
	lower, upper, err := binaryRange(p.Keys)
	switch {
	case err != nil:
		return ""
	case p.Keys.Max == "":
		return itemPosition{lower: lower, number: p.Number}.encode()
	}
	return itemPosition{lower: lower, ranges: []doneRange{{upper, p.Number}}}.encode()
}

// DocumentRID returns the resource id (_rid) of the item with a document number.
func (c *Container) DocumentRID(number uint32) string {
	return string(layout.AppendDocumentRID(nil, c.database, c.number, number))
}
