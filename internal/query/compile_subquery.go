package query

import (
	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// A subquery runs in the frame of the enclosing query, with bindings of its own. Its rows
// are produced one by one.

// block is a compiled subquery.
type block struct {
	from *from
	emit emitter // the row
	// distinct reports whether the subquery has DISTINCT, so that only the first of equal
	// rows is returned.
	distinct bool
	group    *grouping // set if the rows are groups; replaces emit
}

// block compiles the subquery q. where replaces its WHERE clause.
func (c *compiler) block(q *syntax.Select, where syntax.Expr) *block {
	outer := c.group
	c.group = nil
	defer func() { c.group = outer }()
	b := &block{from: c.from(q, where), distinct: q.Distinct}
	if isGrouped(q) {
		b.group = c.grouping(q)
		return b
	}
	b.emit, _ = c.emit(rowOf(q))
	return b
}

// rowOf returns the expression whose value is the row of a SELECT.
func rowOf(q *syntax.Select) syntax.Expr {
	switch {
	case q.Star:
		return &syntax.Ident{Binding: q.From.Binding}
	case q.Value != nil:
		return q.Value
	}
	return objectOf(q)
}

// objectOf returns the object that a select list without VALUE builds.
func objectOf(q *syntax.Select) *syntax.Object {
	o := &syntax.Object{Members: make([]syntax.Item, len(q.Items))}
	for i, name := range syntax.OutputNames(q.Items) {
		o.Members[i] = syntax.Item{Expr: q.Items[i].Expr, Name: name}
	}
	return o
}

// each calls visit with the JSON of each row until visit returns false. It returns false
// if visit did. visit may keep the JSON.
func (b *block) each(f *frame, visit func(raw []byte) bool) bool {
	if b.distinct {
		visit = different(f, visit)
	}
	if b.group != nil {
		return b.eachGroup(f, visit)
	}
	return b.from.rows(f, func() bool {
		raw, ok := b.emit(f, nil)
		return f.err == nil && (!ok || visit(raw))
	})
}

// different returns a function that calls visit for each row that differs from all
// earlier ones.
func different(f *frame, visit func(raw []byte) bool) func(raw []byte) bool {
	seen := map[string]bool{}
	held := 0
	return func(raw []byte) bool {
		key := string(value.AppendKey(nil, value.Decode(raw)))
		if seen[key] {
			return true
		}
		seen[key] = true
		if held += groupOverhead + len(key); !f.holds(held) {
			return false
		}
		return visit(raw)
	}
}

// eachGroup reads all rows, then visits their groups in the order of their first rows.
// Without GROUP BY there is exactly one group, even of no rows.
func (b *block) eachGroup(f *frame, visit func(raw []byte) bool) bool {
	g := b.group
	groups := map[string]*group{}
	var order []*group
	add := func(key string, values []value.Value) *group {
		m := g.newGroup(key)
		m.keep(values)
		groups[key] = m
		order = append(order, m)
		return m
	}
	if len(g.keys) == 0 {
		add("", nil)
	}
	held := 0
	values := make([]value.Value, len(g.keys))
	var key []byte
	b.from.rows(f, func() bool {
		key = g.keyOf(f, values, key[:0])
		m := groups[string(key)]
		if m == nil {
			m = add(string(key), values)
			held += m.size
		}
		before := m.size
		g.add(m, f)
		held += m.size - before
		return f.holds(held)
	})
	outer := f.group
	defer func() { f.group = outer }()
	for _, m := range order {
		if f.err != nil {
			return false
		}
		f.group = m
		raw, ok := g.row(f, nil)
		f.group = outer
		if ok && !visit(raw) {
			return false
		}
	}
	return f.err == nil
}

// subquery compiles an expression that contains a SELECT.
func (c *compiler) subquery(e *syntax.Subquery) (evaluator, bool) {
	switch e.Kind {
	case "EXISTS":
		return c.exists(e.Query, e.Query.Where, true), false
	case "ALL":
		// ALL is true if there is no row for which WHERE is false.
		var where syntax.Expr = &syntax.Literal{Value: value.OfBool(false)}
		if e.Query.Where != nil {
			where = &syntax.Unary{Op: "NOT", X: e.Query.Where}
		}
		return c.exists(e.Query, where, false), false
	}
	if isSimple(e) {
		return c.expr(rowOf(e.Query))
	}
	raw := c.json(e)
	return func(f *frame) value.Value { return f.read(raw(f)) }, false
}

// isSimple reports whether a subquery is equivalent to a plain expression.
func isSimple(e *syntax.Subquery) bool {
	return e.Kind == "" && e.Query.From == nil && e.Query.Where == nil && !isGrouped(e.Query)
}

// emitSubquery compiles a subquery to an emitter of its JSON, in which numbers keep their
// stored digits. It returns nil for EXISTS and ALL, which create no JSON.
func (c *compiler) emitSubquery(e *syntax.Subquery) emitter {
	if e.Kind == "EXISTS" || e.Kind == "ALL" {
		return nil
	}
	if isSimple(e) {
		emit, _ := c.emit(rowOf(e.Query))
		return emit
	}
	raw := c.json(e)
	return func(f *frame, dst []byte) ([]byte, bool) {
		b := raw(f)
		return append(dst, b...), b != nil
	}
}

// json compiles a subquery whose value is computed from its rows: a scalar, ARRAY, FIRST
// or LAST. The function returns its JSON, or nil if the value is undefined.
func (c *compiler) json(e *syntax.Subquery) func(f *frame) []byte {
	b := c.block(e.Query, e.Query.Where)
	switch e.Kind {
	case "ARRAY":
		return b.array
	case "FIRST", "LAST":
		return func(f *frame) (found []byte) {
			b.each(f, func(raw []byte) bool {
				found = raw
				return e.Kind == "LAST"
			})
			return found
		}
	}
	return func(f *frame) (found []byte) {
		b.each(f, func(raw []byte) bool {
			if found != nil {
				f.stop("The cardinality of a scalar subquery result set cannot be greater than one.")
				return false
			}
			found = raw
			return true
		})
		return found
	}
}

// exists compiles a subquery to an evaluator that returns yes if the subquery has a row,
// and the opposite otherwise.
func (c *compiler) exists(q *syntax.Select, where syntax.Expr, yes bool) evaluator {
	if !isGrouped(q) {
		outer := c.group
		c.group = nil
		rows := c.from(q, where)
		row, _ := c.expr(rowOf(q))
		c.group = outer
		return func(f *frame) value.Value {
			found := false
			rows.rows(f, func() bool {
				found = row(f).Kind != value.Undefined
				return !found
			})
			return value.OfBool(found == yes)
		}
	}
	b := c.block(q, where)
	return func(f *frame) value.Value {
		found := false
		b.each(f, func([]byte) bool {
			found = true
			return false
		})
		return value.OfBool(found == yes)
	}
}

// array returns the rows as a JSON array.
func (b *block) array(f *frame) []byte {
	array := []byte{'['}
	take := func(emit func([]byte) ([]byte, bool)) bool {
		mark := len(array)
		if mark > 1 {
			array = append(array, ',')
		}
		var ok bool
		if array, ok = emit(array); !ok {
			array = array[:mark]
		}
		return !f.tooLarge(len(array))
	}
	if b.group == nil && !b.distinct {
		b.from.rows(f, func() bool {
			return take(func(dst []byte) ([]byte, bool) { return b.emit(f, dst) })
		})
	} else {
		b.each(f, func(raw []byte) bool {
			return take(func(dst []byte) ([]byte, bool) { return append(dst, raw...), true })
		})
	}
	return append(array, ']')
}
