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
			if !ok || !isPath(side[0], path, b.params) {
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

// idPath is where a document has its id.
var idPath = []string{"id"}

// IDFilter returns what a top-level conjunction says of the documents' id:
// equal to id (exact), or beginning with it, in the same case. ok is false when
// it says nothing of use. It is a hint for the scan; the documents are still
// filtered.
func (b *Bound) IDFilter() (id string, exact, ok bool) {
	terms := conjunction(b.q.where, nil)
	if v, ok := b.equals(terms, idPath); ok {
		if s, ok := v.(string); ok {
			return s, true, true
		}
	}
	for _, t := range terms {
		e, ok := t.(*call)
		if !ok || e.udf || !bytes.EqualFold([]byte(e.name), []byte("STARTSWITH")) || !isPath(e.args[0], idPath, b.params) {
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
func isPath(e expr, path []string, params map[string]value) bool {
	steps, ok := staticPath(e, params)
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

// idsIn returns the ids one of which a document has to have for e to be true; ok
// is false when others may do.
func idsIn(e expr, params map[string]value) (ids []string, ok bool) {
	take := func(of expr, values ...expr) bool {
		if !isPath(of, idPath, params) {
			return false
		}
		for _, x := range values {
			v, ok := constant(x, params)
			if !ok || v.kind != kindString {
				return false
			}
			ids = append(ids, string(v.b))
		}
		return true
	}
	switch e := e.(type) {
	case *binaryOp:
		ok = e.op == "=" && (take(e.l, e.r) || take(e.r, e.l))
	case *inList:
		ok = !e.not && take(e.x, e.list...)
	case *logical:
		for _, t := range e.terms {
			some, known := idsIn(t, params)
			switch {
			case e.op == "OR" && !known:
				return nil, false
			case e.op == "OR":
				ids, ok = append(ids, some...), true
			case known && (!ok || len(some) < len(ids)):
				ids, ok = some, true
			}
		}
	}
	if !ok {
		return nil, false
	}
	return ids, true
}
