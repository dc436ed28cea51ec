package query

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// Rows turns the documents of one scan into rows. It keeps memory from document
// to document, so it serves one goroutine at a time.
type Rows struct {
	prog *program
	f    frame
	doc  []byte
	out  []byte
}

// Rows returns a new evaluator of the query.
func (b *Bound) Rows() *Rows { return newRows(b.prog) }

func newRows(p *program) *Rows {
	r := &Rows{prog: p}
	r.f.slots = make([][]byte, p.slots)
	r.f.inner = make([]extractor, len(p.inner))
	for i, in := range p.inner {
		r.f.inner[i].slots = make([][]byte, in.slots)
	}
	return r
}

// Each calls visit for every row that the document makes before SELECT is looked
// at: for what FROM names of it, if the condition is true. doc is a JSON object
// with its system properties. During the call, and until the next one, [Rows.Row]
// has the row and [Rows.OrderKey] its sort key. Each ends when visit returns
// false.
//
// Of doc only what the query names is decoded, and reading stops when all of it
// is found. The error says that doc is no JSON object, as far as it was read.
func (r *Rows) Each(doc []byte, visit func() (more bool)) error {
	if err := r.f.extract(r.prog.root, doc); err != nil {
		return err
	}
	r.doc = doc
	if p := r.prog.from; p != nil {
		p.rows(&r.f, visit)
	} else if r.selected() {
		visit()
	}
	return r.end()
}

// Row projects the row that Each is at. ok is false when SELECT VALUE makes
// nothing of it. The row is valid until the next call of any method; of SELECT *
// it is the document itself, of others it may share its memory. It is not for
// queries with aggregates or GROUP BY, whose rows [Rows.Groups] makes.
//
// TOP, OFFSET LIMIT, ORDER BY and DISTINCT are the caller's: see [Rows.OrderKey].
func (r *Rows) Row() (row json.RawMessage, ok bool) {
	switch p := r.prog; {
	case p.value != nil:
		return p.value(&r.f), true
	case p.star:
		return r.doc, true
	}
	r.out, ok = r.prog.row(&r.f, r.out[:0])
	return r.out, ok
}

// Eval is Each and Row in one, for queries that make at most one row of a
// document, and are not [Shape.Grouped]: the first row is returned, if there is one.
func (r *Rows) Eval(doc []byte) (row json.RawMessage, ok bool, err error) {
	if r.prog.from != nil {
		return r.first(doc)
	}
	// As Each, without a function for it to call, which would be an allocation.
	if err := r.f.extract(r.prog.root, doc); err != nil {
		return nil, false, err
	}
	r.doc = doc
	if r.selected() {
		row, ok = r.Row()
	}
	return row, ok, r.end()
}

// first is apart from Eval because the results that it shares with a function are allocated.
func (r *Rows) first(doc []byte) (row json.RawMessage, ok bool, err error) {
	err = r.Each(doc, func() bool {
		row, ok = r.Row()
		return !ok
	})
	return row, ok, err
}

// end returns what kept a document from being evaluated.
func (r *Rows) end() error {
	err := r.f.err
	r.f.err, r.f.began = nil, time.Time{}
	return err
}

// selected says whether the condition is true.
func (r *Rows) selected() bool {
	p := r.prog
	if p.byID != nil {
		id := p.id(&r.f)
		return id.Kind == value.String && slices.ContainsFunc(p.byID[string(id.Bytes)], func(e evaluator) bool {
			return e(&r.f).Kind == value.True
		})
	}
	return p.where == nil || p.where(&r.f).Kind == value.True
}

// OrderKey appends to dst the sort key of the document that Eval returned a row
// of. bytes.Compare puts keys into the order of ORDER BY, descending keys
// included: undefined < null < false < true < numbers < strings < arrays <
// objects. Without ORDER BY nothing is appended. A key is about as long as the
// values it is made of.
func (r *Rows) OrderKey(dst []byte) []byte {
	for i, key := range r.prog.keys {
		dst = appendOrderKey(dst, key(&r.f), r.prog.desc[i])
	}
	return dst
}

// appendOrderKey appends the key of a value, whose bits are turned over for a descending order.
func appendOrderKey(dst []byte, v value.Value, descending bool) []byte {
	mark := len(dst)
	dst = value.AppendKey(dst, v)
	for i := mark; descending && i < len(dst); i++ {
		dst[i] = ^dst[i]
	}
	return dst
}

// While ends the evaluation of a document with the error that check returns, once it
// returns one. It is called now and then, each time after some milliseconds of work at most,
// also in the middle of a large join, or of a function that takes long. With it a document that takes more than ten
// seconds is an *[EvaluationError]. It returns r.
func (r *Rows) While(check func() error) *Rows {
	r.f.stopped = check
	return r
}
