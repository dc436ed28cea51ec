package query

import "encoding/json"

// Rows turns the documents of one scan into rows. It keeps memory from document
// to document, so it serves one goroutine at a time.
type Rows struct {
	prog *program
}

// Rows returns a new evaluator of the query.
func (b *Bound) Rows() *Rows { return &Rows{prog: b.prog} }

// Eval filters and projects one document: a JSON object, with its system
// properties. ok says whether it makes a row. The row is valid until the next
// call; of SELECT * it is doc itself, of others it may share doc's memory. With
// an aggregate, documents are counted in and none makes a row. The error says
// that doc is no JSON object.
//
// TOP, OFFSET LIMIT and ORDER BY are the caller's: see [Rows.OrderKey].
func (r *Rows) Eval(doc []byte) (row json.RawMessage, ok bool, err error) {
	return nil, false, &UnsupportedError{What: "evaluation"}
}

// OrderKey appends to dst the sort key of the document that Eval returned a row
// of. bytes.Compare puts keys into the order of ORDER BY, descending keys
// included: undefined < null < false < true < numbers < strings < arrays <
// objects. Without ORDER BY nothing is appended. A key is about as long as the
// values it is made of.
func (r *Rows) OrderKey(dst []byte) []byte { return dst }

// Total returns the one row of a query with aggregates, over the documents that
// Eval saw; ok is false when the row's value is undefined, or without aggregates.
func (r *Rows) Total() (row json.RawMessage, ok bool) { return nil, false }
