package engine

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/changefeed-go/changefeed/internal/layout"
)

// This file counts the index terms that a replace changes. The caller of the write counts
// them after its commit, so that other writers don't wait for it. The old document may be gone
// by then, so the request keeps the view before the write.

// maxCompared is the size in bytes of the largest documents that are compared. The charge of
// larger ones depends mostly on their size.
const maxCompared = 64 << 10

// keepView keeps the current view in r if the charge of one of its operations is exact. Only
// the sequencer may call it. The caller of the request calls dropView.
func (r *request) keepView(db *DB) {
	for i := range r.ops {
		if r.ops[i].exact {
			r.view = db.current // the sequencer alone replaces it, so it isn't released meanwhile
			r.view.refs.Add(1)
			return
		}
	}
}

// dropView releases the view of keepView, if there is one.
func (r *request) dropView() {
	if r.view != nil {
		r.view.release()
		r.view = nil
	}
}

// keepBefore keeps the version that an operation with an exact charge replaces. A document
// that the same group wrote is in no view, and belongs to another caller, so it is copied.
func (op *operation) keepBefore(old version) {
	if op.exact && op.size <= maxCompared {
		op.before = old
		op.before.body = bytes.Clone(old.body)
	}
}

// changedTerms returns the number of index terms that the replace op of r removes and adds.
func (c *Container) changedTerms(r *request, op *operation) float64 {
	if !op.before.exists {
		return assumedTerms // nobody has asked, or the operation wasn't reached
	}
	s, _ := comparisons.Get().(*comparison)
	if s == nil {
		s = new(comparison)
	}
	defer comparisons.Put(s)
	old := op.before.body
	if old == nil {
		var err error
		s.key = layout.AppendLogKey(s.key[:0], layout.SpaceLog, c.number, op.before.Segment, op.before.LSN, op.before.Ordinal)
		s.key = append(s.key, op.point...)
		s.stored, err = c.fetchKey(r.view.snap, s.stored[:0], s.key)
		if err != nil {
			return assumedTerms // the write has succeeded, and the next read reports the error
		}
		old = s.stored[:len(s.stored)-c.tail.StoredSize(nil, op.before.Stamp)]
	}
	return s.changed(old, op.doc.Body)
}

// comparison is memory for comparing two documents. key and stored are those of the old one.
type comparison struct {
	key, stored []byte
	old, new    []term
}

var comparisons sync.Pool // of *comparison

// changed returns the number of terms that only one of two documents has. Each is canonical
// JSON, and may lack the closing brace.
func (s *comparison) changed(before, after []byte) float64 {
	if bytes.Equal(before, after) {
		return 0
	}
	s.old, s.new = appendTerms(s.old[:0], before), appendTerms(s.new[:0], after)
	slices.Sort(s.old)
	slices.Sort(s.new)
	terms, i, j := 0.0, 0, 0
	for i < len(s.old) && j < len(s.new) {
		switch a, b := s.old[i], s.new[j]; {
		case a < b:
			terms += a.weight()
			i++
		case b < a:
			terms += b.weight()
			j++
		default:
			i++
			j++
		}
	}
	for _, t := range s.old[i:] {
		terms += t.weight()
	}
	for _, t := range s.new[j:] {
		terms += t.weight()
	}
	return terms
}

// term is the digest of an index term: a path that occurs, or a path and its value. A scalar
// has one of each, so that another value at the same path changes two: one goes, one comes.
// As in indexTerms, an object or an array has one term of its own, which weighs nestedTerm
// unless it is empty. The lowest bit is set in such terms.
type term uint64

func (t term) weight() float64 {
	if t&1 != 0 {
		return nestedTerm
	}
	return 1
}

var termSeed = maphash.MakeSeed()

// of returns the term within t that has the given text.
func (t term) of(text []byte) term {
	const odd = 0x9e3779b97f4a7c15 // spreads the bits of paths that differ little
	return (t*odd + term(maphash.Bytes(termSeed, text))) * odd
}

// appendTerms appends the terms of a document to dst. body is as in indexTerms, which returns
// the sum of their weights.
func appendTerms(dst []term, body []byte) []term {
	paths := make([]term, 1, 16) // those of the objects and arrays around the offset
	at := term(0)                // the path of the next value
	for i := 1; i < len(body); {
		from := i
		i = endOfToken(body, i)
		switch text := body[from:i]; text[0] {
		case ':':
		case ',': // an element of an array has no name, and its position doesn't count
			at = paths[len(paths)-1].of(nil)
		case '{', '[':
			if i < len(body) && (body[i] == '}' || body[i] == ']') {
				dst = append(dst, at.of(body[from:i+1])&^1)
				i++
				continue
			}
			dst = append(dst, at.of(text)|1)
			paths = append(paths, at)
			at = at.of(nil)
		case '}', ']':
			paths = paths[:max(len(paths)-1, 1)]
		default:
			if i < len(body) && body[i] == ':' {
				at = paths[len(paths)-1].of(text)
				continue
			}
			dst = append(dst, at&^1, (at.of(text)+2)&^1) // 2, because at.of is also the path of a member
		}
	}
	return dst
}
