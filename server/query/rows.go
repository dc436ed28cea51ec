package query

import (
	"encoding/json"
	"slices"
)

// Rows turns the documents of one scan into rows. It keeps memory from document
// to document, so it serves one goroutine at a time.
type Rows struct {
	prog   *program
	f      frame
	out    []byte
	counts []int64
}

// Rows returns a new evaluator of the query.
func (b *Bound) Rows() *Rows {
	r := &Rows{prog: b.prog, counts: make([]int64, len(b.prog.counts))}
	r.f.slots = make([][]byte, b.prog.slots)
	return r
}

// Eval filters and projects one document: a JSON object, with its system
// properties. ok says whether it makes a row. The row is valid until the next
// call; of SELECT * it is doc itself, of others it may share doc's memory. With
// an aggregate, documents are counted in and none makes a row.
//
// Of doc only what the query names is decoded, and reading stops when all of it
// is found. The error says that doc is no JSON object, as far as it was read.
//
// TOP, OFFSET LIMIT and ORDER BY are the caller's: see [Rows.OrderKey].
func (r *Rows) Eval(doc []byte) (row json.RawMessage, ok bool, err error) {
	p := r.prog
	if err := r.f.extract(p.root, doc); err != nil {
		return nil, false, err
	}
	if !r.selected() {
		return nil, false, nil
	}
	if p.counts != nil {
		for i, count := range p.counts {
			if count(&r.f).kind != kindUndefined {
				r.counts[i]++
			}
		}
		return nil, false, nil
	}
	if p.star {
		return doc, true, nil
	}
	r.out, ok = p.row(&r.f, r.out[:0])
	if !ok {
		return nil, false, nil
	}
	return r.out, true, nil
}

// selected says whether the condition is true.
func (r *Rows) selected() bool {
	p := r.prog
	if p.byID != nil {
		id := p.id(&r.f)
		return id.kind == kindString && slices.ContainsFunc(p.byID[string(id.b)], func(e evaluator) bool {
			return e(&r.f).kind == kindTrue
		})
	}
	return p.where == nil || p.where(&r.f).kind == kindTrue
}

// OrderKey appends to dst the sort key of the document that Eval returned a row
// of. bytes.Compare puts keys into the order of ORDER BY, descending keys
// included: undefined < null < false < true < numbers < strings < arrays <
// objects. Without ORDER BY nothing is appended. A key is about as long as the
// values it is made of.
func (r *Rows) OrderKey(dst []byte) []byte {
	for i, key := range r.prog.keys {
		mark := len(dst)
		dst = appendKey(dst, key(&r.f))
		if r.prog.desc[i] {
			for j := mark; j < len(dst); j++ {
				dst[j] = ^dst[j]
			}
		}
	}
	return dst
}

// Total returns the one row of a query with aggregates, over the documents that
// Eval saw; ok is false without aggregates.
func (r *Rows) Total() (row json.RawMessage, ok bool) {
	if r.prog.total == nil {
		return nil, false
	}
	return r.prog.total(r.counts), true
}
