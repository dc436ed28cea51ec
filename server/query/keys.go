package query

import "bytes"

// KeyFilter returns the partition key that the condition asks for: for each
// path (as its names, ["a","b"] for /a/b) the value that a top-level conjunction
// says it equals: nil (null), bool, float64 or string. ok is false unless every
// path has one. It is a hint for the scan; the documents are still filtered.
func (b *Bound) KeyFilter(paths [][]string) (key []any, ok bool) {
	if len(paths) == 0 {
		return nil, false
	}
	terms := conjunction(b.q.where, nil)
	for _, path := range paths {
		v, ok := b.equals(terms, path)
		if !ok {
			return nil, false
		}
		key = append(key, v)
	}
	return key, true
}

// equals returns what one of the terms says a path equals.
func (b *Bound) equals(terms []expr, path []string) (any, bool) {
	for _, t := range terms {
		e, ok := t.(*binaryOp)
		if !ok || e.op != "=" {
			continue
		}
		for _, side := range [][2]expr{{e.l, e.r}, {e.r, e.l}} {
			v, ok := constant(side[1], b.params)
			if !ok || !b.isPath(side[0], path) {
				continue
			}
			switch v.kind {
			case kindNull:
				return nil, true
			case kindFalse, kindTrue:
				return v.kind == kindTrue, true
			case kindNumber:
				return v.num, true
			case kindString:
				return string(v.b), true
			case kindUndefined, kindArray, kindObject:
			}
		}
	}
	return nil, false
}

// IDFilter returns what a top-level conjunction says of the documents' id:
// equal to id (exact), or beginning with it, in the same case. ok is false when
// it says nothing of use. It is a hint for the scan; the documents are still
// filtered.
func (b *Bound) IDFilter() (id string, exact, ok bool) {
	terms := conjunction(b.q.where, nil)
	path := []string{"id"}
	if v, ok := b.equals(terms, path); ok {
		if s, ok := v.(string); ok {
			return s, true, true
		}
	}
	for _, t := range terms {
		e, ok := t.(*call)
		if !ok || e.udf || !bytes.EqualFold([]byte(e.name), []byte("STARTSWITH")) || !b.isPath(e.args[0], path) {
			continue
		}
		if len(e.args) == 3 {
			if v, ok := constant(e.args[2], b.params); !ok || v.kind != kindFalse {
				continue
			}
		}
		if v, ok := constant(e.args[1], b.params); ok && v.kind == kindString && len(v.b) > 0 {
			return string(v.b), false, true
		}
	}
	return "", false, false
}

// isPath says whether an expression is a path of members below the documents.
func (b *Bound) isPath(e expr, path []string) bool {
	steps, ok := staticPath(e, b.params)
	if !ok || len(steps) != len(path) {
		return false
	}
	for i, s := range steps {
		if s.name == nil || string(s.name) != path[i] {
			return false
		}
	}
	return true
}

// conjunction appends the terms that all have to be true for a row.
func conjunction(e expr, terms []expr) []expr {
	l, ok := e.(*logical)
	switch {
	case e == nil:
		return terms
	case !ok || l.op != "AND":
		return append(terms, e)
	}
	for _, t := range l.terms {
		terms = conjunction(t, terms)
	}
	return terms
}
