package engine

import (
	"slices"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// position is a position in the feed of any part of a container. Each partition counts
// its own LSNs, so a position has an LSN for each range of keys. The changes up to that
// LSN were read. A read of one partition has one LSN, so its position has no steps.
type position struct {
	// lsn is the LSN of the keys below the first step.
	lsn int64
	// steps are sorted by border. Neighbours have different LSNs.
	steps []step
}

// step gives the LSN of the keys from a border on, up to the next step. The border is
// hexadecimal.
type step struct {
	border string
	lsn    int64
}

// only returns the LSN of a position that has the same LSN for all keys, and otherwise -1.
func (p position) only() int64 {
	if len(p.steps) > 0 {
		return -1
	}
	return p.lsn
}

// last returns the LSN of the keys from the last step on.
func (p position) last() int64 {
	if n := len(p.steps); n > 0 {
		return p.steps[n-1].lsn
	}
	return p.lsn
}

// add gives the keys from a border on an LSN. All steps of p are below border.
func (p *position) add(border string, lsn int64) {
	if p.last() != lsn {
		p.steps = append(p.steps, step{border, lsn})
	}
}

// continuation returns the continuation of a position: its LSN in double quotes, for
// instance "7". Each step adds its border and LSN, as in "7;3F:12".
func (p position) continuation() feed.Continuation {
	var space [22]byte
	b := space[:0]
	if n := len(p.steps); n > 0 {
		b = make([]byte, 0, len(space)+n*(len(p.steps[0].border)+len(space)))
	}
	b = strconv.AppendInt(append(b, '"'), p.lsn, 10)
	for _, s := range p.steps {
		b = append(append(b, ';'), s.border...)
		b = strconv.AppendInt(append(b, ':'), s.lsn, 10)
	}
	return feed.Continuation(append(b, '"'))
}

// parseContinuation returns the position of a continuation. It returns a
// *[storetype.BadRequestError] for a text that position.continuation never returns.
func parseContinuation(c feed.Continuation) (p position, err error) {
	bad := func() (position, error) {
		return position{}, layout.BadRequest(storetype.BadContinuation, "%.60q is not a continuation of this store, which is a decimal LSN in double quotes "+
			"or, after a read of several partitions, one for each range of keys", string(c))
	}
	text, opened := strings.CutPrefix(string(c), `"`)
	text, closed := strings.CutSuffix(text, `"`)
	first, rest, more := strings.Cut(text, ";")
	lsn, ok := parseLSN(first)
	if !opened || !closed || !ok {
		return bad()
	}
	for p.lsn = lsn; more; {
		var part, border, digits string
		part, rest, more = strings.Cut(rest, ";")
		border, digits, _ = strings.Cut(part, ":")
		lsn, ok := parseLSN(digits)
		last := ""
		if n := len(p.steps); n > 0 {
			last = p.steps[n-1].border
		}
		if !ok || !isHex(border) || border <= last || border >= feed.MaxEPK || lsn == p.last() {
			return bad()
		}
		p.add(border, lsn)
	}
	return p, nil
}

// parseLSN returns the number that a text of decimal digits has. ok is false for any other
// text.
func parseLSN(digits string) (lsn int64, ok bool) {
	lsn, err := strconv.ParseInt(digits, 10, 64)
	return lsn, err == nil && lsn >= 0 && strconv.FormatInt(lsn, 10) == digits
}

// piece is a part of a partition that a read covers from one LSN on. A read of several
// partitions has a piece for each of them. A partition may have several pieces, because
// the position may be from the time before a merge.
type piece struct {
	part *partition
	// end is the partition's last LSN.
	end int64
	// keys are the keys of the request in the piece.
	keys feed.Range
	// lsn is the LSN up to which the piece was read.
	lsn int64
}

// pieces appends the pieces of a read from a position to dst, sorted by range. The only
// piece of a read of one partition may be empty.
func (sp *partitionSet) pieces(dst []piece, filter *keyFilter, from position) []piece {
	dst = slices.Grow(dst, len(sp.partitions))
	lsn, steps := from.lsn, from.steps
	for i, p := range sp.partitions {
		rest := filter.keys.Intersect(p.keys)
		for len(steps) > 0 && steps[0].border < rest.Max {
			s := steps[0]
			if s.border > rest.Min {
				if filter.point != nil {
					break // a border cannot divide the items of one key
				}
				dst = append(dst, piece{p, sp.ends[i], feed.Range{Min: rest.Min, Max: s.border}, lsn})
				rest.Min = s.border
			}
			lsn, steps = s.lsn, steps[1:]
		}
		dst = append(dst, piece{p, sp.ends[i], rest, lsn})
	}
	return dst
}

// positionOf returns the position that a read has reached in its pieces. It never lies in
// a hole.
func (m *meta) positionOf(pieces []piece) position {
	pieces = m.outside(pieces)
	p := position{lsn: pieces[0].lsn}
	if len(pieces) > 1 {
		p.steps = make([]step, 0, len(pieces)-1)
	}
	for i := range pieces[1:] {
		p.add(pieces[i+1].keys.Min, pieces[i+1].lsn)
	}
	return p
}

// borders returns the sorted borders of the ranges that lie within keys, including the
// ends of keys.
func borders(keys feed.Range, ranges []feed.Range) []string {
	all := []string{keys.Min, keys.Max}
	for _, r := range ranges {
		for _, b := range []string{r.Min, r.Max} {
			if b > keys.Min && b < keys.Max {
				all = append(all, b)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
