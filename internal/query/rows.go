package query

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/internal/canonical"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// Rows turns the documents of one scan into rows. It reuses memory from document to
// document. It is not safe for concurrent use.
type Rows struct {
	prog *program
	f    frame
	doc  []byte
	out  []byte
	// short is the memory of queried.
	short []byte
}

// Rows returns a new evaluator of the query, for one goroutine.
func (b *Bound) Rows() *Rows { return newRows(b.prog) }

func newRows(p *program) *Rows {
	r := &Rows{prog: p}
	r.f.slots = make([][]byte, p.slots)
	r.f.inner = make([]looped, len(p.inner))
	for i, in := range p.inner {
		r.f.inner[i].slots = make([][]byte, in.slots)
	}
	return r
}

// Each calls visit for every row of FROM that satisfies the condition, before SELECT is
// evaluated. doc is a JSON object with its system properties. During the call, and until
// the next one, [Rows.Row] returns the row and [Rows.OrderKey] its sort key. Each stops
// if visit returns false.
//
// Each decodes only the members that the query names, and stops reading doc when it has
// found all of them. It returns an error if doc is not a JSON object, as far as it was
// read. It returns an *[EvaluationError] if the query cannot be evaluated for doc.
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

// Row returns the current row of Each. ok is false if the value of SELECT VALUE is
// undefined. The row is valid until the next call of any method. The row of SELECT * is
// the document itself, unless it has a number with a long exponent, which has another form
// in queries (see package canonical). Other rows may share the document's memory. Row must
// not be called for queries with aggregates or GROUP BY; [Rows.Groups] returns their rows.
//
// The caller applies TOP, OFFSET LIMIT, ORDER BY and DISTINCT. See [Rows.OrderKey].
func (r *Rows) Row() (row json.RawMessage, ok bool) {
	switch p := r.prog; {
	case p.value != nil:
		return r.queried(p.value(&r.f)), true
	case p.star:
		return r.queried(r.doc), true
	}
	r.f.notFinite = false // a condition may have such values
	r.out, ok = r.prog.row(&r.f, r.out[:0])
	r.f.made()
	return r.queried(r.out), ok
}

// queried returns the text of a stored value as queries return it.
func (r *Rows) queried(text []byte) []byte {
	if !canonical.HasLongExponent(text) {
		return text
	}
	r.short = canonical.AppendQueried(r.short[:0], text)
	return r.short
}

// Eval calls Each and returns the first row, if there is one. It is for queries that
// return at most one row per document and are not [Shape.Grouped].
func (r *Rows) Eval(doc []byte) (row json.RawMessage, ok bool, err error) {
	if r.prog.from != nil {
		return r.first(doc)
	}
	// This path avoids Each, because a visit function would be an allocation for each
	// document.
	if err := r.f.extract(r.prog.root, doc); err != nil {
		return nil, false, err
	}
	r.doc = doc
	if r.selected() {
		row, ok = r.Row()
	}
	return row, ok, r.end()
}

// first implements Eval for queries that may have several rows for a document. It is
// separate, because the closure makes its results escape to the heap.
func (r *Rows) first(doc []byte) (row json.RawMessage, ok bool, err error) {
	err = r.Each(doc, func() bool {
		row, ok = r.Row()
		return !ok
	})
	return row, ok, err
}

// matches reports whether a row of the document satisfies the WHERE clause.
func (r *Rows) matches(doc []byte) (found bool, err error) {
	if err := r.f.extract(r.prog.root, doc); err != nil {
		return false, err
	}
	if p := r.prog.from; p != nil {
		found = !p.rows(&r.f, func() bool { return false })
	} else {
		found = r.selected()
	}
	err = r.end()
	return found && err == nil, err
}

// end returns the error that ended the evaluation of the current document, or nil. It
// resets the state for the next document.
func (r *Rows) end() error {
	err := r.f.err
	r.f.err, r.f.began = nil, time.Time{}
	return err
}

// selected reports whether the current document satisfies the WHERE clause.
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

// OrderKey appends the sort key of the current row to dst. bytes.Compare orders keys as
// ORDER BY does, including descending keys: undefined < null < false < true < numbers <
// strings < arrays < objects. Arrays are sorted by a hash, and so are objects. Without ORDER
// BY, OrderKey appends nothing. A key is about as long as its values.
func (r *Rows) OrderKey(dst []byte) []byte {
	for i, key := range r.prog.keys {
		mark := len(dst)
		dst = value.AppendOrderKey(dst, key(&r.f))
		invert(dst[mark:], r.prog.desc[i])
	}
	return dst
}

// invert inverts all bits of a key if the order is descending.
func invert(key []byte, descending bool) {
	for i := 0; descending && i < len(key); i++ {
		key[i] = ^key[i]
	}
}

// While sets a function that is called every few milliseconds of work. If check returns
// an error, the evaluation of the document ends with it. That also interrupts a large
// join or a slow function. With While, a document that takes more than ten seconds ends
// with an *[EvaluationError]. While returns r.
func (r *Rows) While(check func() error) *Rows {
	r.f.stopped = check
	return r
}
