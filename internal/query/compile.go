package query

import (
	"errors"
	"time"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// evaluator returns the value of an expression for the document that is loaded in f.
type evaluator func(f *frame) value.Value

// emitter appends the JSON of an expression's value to dst. If the value is undefined, it
// returns dst unchanged, and false.
type emitter func(f *frame, dst []byte) ([]byte, bool)

// program is a compiled query, ready to be evaluated for documents.
type program struct {
	root  *node
	slots int
	star  bool
	where evaluator // nil without a condition
	from  *from     // set if FROM needs loops; replaces where
	inner []*inner
	// value returns the JSON that SELECT * selects, if that is a part of the document and
	// not the whole.
	value func(f *frame) []byte
	// byID speeds up a condition that only documents with certain IDs can satisfy. It
	// maps each such ID to terms of the condition, one of which must be true. id returns
	// the document's ID.
	byID map[string][]evaluator
	id   evaluator

	row   emitter // nil for SELECT * and for groups
	keys  []evaluator
	desc  []bool
	group *grouping // for a SELECT of groups; replaces row
	count *countDistinct
}

// compiler compiles the parts of a query to evaluators and emitters.
type compiler struct {
	params map[string]value.Value
	now    time.Time
	folded int // size of the folded constants in bytes
	root   *node
	slots  int
	inner  []*inner
	group  *grouping // the group whose select list is being compiled
}

func compile(q *syntax.Select, params map[string]value.Value, now time.Time) *program {
	c, p := compileCondition(q, params, now)
	if p.from != nil && q.Star {
		p.value = c.raw(sourcesOf(q)[0].Binding, nil)
	}
	p.star = q.Star
	for _, o := range q.OrderBy {
		key, _ := c.expr(o.Expr)
		p.keys, p.desc = append(p.keys, key), append(p.desc, o.Desc)
	}
	c.selection(p, q)
	p.slots, p.inner = c.slots, c.inner
	return p
}

// compileCondition compiles only FROM and WHERE of a query, for a filter.
func compileCondition(q *syntax.Select, params map[string]value.Value, now time.Time) (*compiler, *program) {
	c := &compiler{params: params, now: now, root: newNode()}
	p := &program{root: c.root}
	if len(sourcesOf(q)) > 0 {
		p.from = c.from(q, q.Where)
	} else if q.Where != nil {
		c.condition(p, q.Where)
	}
	p.slots, p.inner = c.slots, c.inner
	return c, p
}

// longList is the number of elements from which IN searches a map instead of the list.
const longList = 8

// condition compiles WHERE. SDKs read many items with one long chain of (c.id = @id AND
// c.pk = @pk). With byID, a document evaluates only the terms of its own id.
func (c *compiler) condition(p *program, where syntax.Expr) {
	p.where, _ = c.expr(where)
	terms := []syntax.Expr{where}
	if l, ok := where.(*syntax.Logical); ok && l.Op == "OR" {
		terms = l.Terms
	}
	byID := map[string][]evaluator{}
	for _, t := range terms {
		ids, ok := idsIn(t, c.params)
		if !ok {
			return
		}
		ev, _ := c.expr(t)
		for _, id := range ids {
			byID[id] = append(byID[id], ev)
		}
	}
	if len(byID) >= longList {
		p.byID = byID
		p.id, _ = c.expr(&syntax.Member{Base: &syntax.Ident{}, Name: idPath[0]})
	}
}

// selection compiles the select list of q into p.
func (c *compiler) selection(p *program, q *syntax.Select) {
	switch {
	case isGrouped(q):
		p.group = c.grouping(q)
	case !q.Star:
		p.row = c.projection(q)
	}
}

// projection returns an emitter of the rows of a SELECT.
func (c *compiler) projection(q *syntax.Select) emitter {
	if q.Value != nil {
		row, _ := c.emit(q.Value)
		return row
	}
	row, _ := c.emitObject(objectOf(q).Members)
	return row
}

// slot returns the index of the slot in which the extractor stores the value at a path. A
// new path gets a new slot.
func (c *compiler) slot(path []step) int {
	n := c.root.at(path)
	if n.slot == noSlot {
		n.slot = c.slots
		c.slots++
	}
	return n.slot
}

// fold replaces an expression of constants by its value, so that it is computed only
// once. It does not fold an expression that fails, because a query must fail only when a
// document is evaluated. After maxFoldedBytes of values it folds no more.
func (c *compiler) fold(e evaluator, constant bool) (evaluator, bool) {
	if !constant || c.folded > maxFoldedBytes {
		return e, false
	}
	// A constant expression that takes long is not folded. It is evaluated for each
	// document, where its time is limited.
	f := frame{stopped: func() error { return errLongConstant }}
	v := e(&f)
	if c.folded += len(v.Bytes); f.err != nil || c.folded > maxFoldedBytes {
		return e, false
	}
	return func(*frame) value.Value { return v }, true
}

// errLongConstant ends the folding of a constant expression that takes long.
var errLongConstant = errors.New("the constant takes long to compute")

// maxFoldedBytes limits the total size of the folded constants of a query, in bytes. A
// query can contain thousands of constant expressions, and each may have a very long
// value.
const maxFoldedBytes = 64 << 20

// expr compiles an expression. constant reports whether its value is the same for every
// document.
func (c *compiler) expr(e syntax.Expr) (evaluator, bool) {
	if v, ok := constant(e, c.params); ok {
		return func(*frame) value.Value { return v }, true
	}
	if ev := c.overGroup(e); ev != nil {
		return ev, false
	}
	if binding, path, ok := boundPath(e, c.params); ok {
		if binding != syntax.Document {
			raw := c.raw(binding, path)
			return func(f *frame) value.Value { return f.read(raw(f)) }, false
		}
		slot := c.slot(path)
		return func(f *frame) value.Value { return f.read(f.slots[slot]) }, false
	}
	switch e := e.(type) {
	case *syntax.Member:
		return c.fold(c.member(e))
	case *syntax.Unary:
		return c.fold(c.unary(e))
	case *syntax.Binary:
		return c.fold(c.binary(e))
	case *syntax.Logical:
		return c.fold(c.logical(e))
	case *syntax.In:
		return c.fold(c.in(e))
	case *syntax.Between:
		return c.fold(c.between(e))
	case *syntax.Like:
		return c.fold(c.like(e))
	case *syntax.Subquery:
		return c.subquery(e)
	case *syntax.Conditional:
		return c.fold(c.conditional(e))
	case *syntax.Call:
		return c.fold(c.call(e))
	case *syntax.Array, *syntax.Object:
		return c.fold(c.constructed(e))
	}
	return func(*frame) value.Value { return value.Value{} }, true
}

// all compiles several expressions. constant reports whether the values of all are the
// same for every document.
func (c *compiler) all(list []syntax.Expr) (evs []evaluator, constant bool) {
	evs, constant = make([]evaluator, len(list)), true
	for i, e := range list {
		ev, same := c.expr(e)
		evs[i], constant = ev, constant && same
	}
	return evs, constant
}

// member compiles an access such as base[index] that is not a constant path: the index
// depends on the document, or the base is not a name.
func (c *compiler) member(e *syntax.Member) (evaluator, bool) {
	base, constBase := c.expr(e.Base)
	if e.Index == nil {
		name := value.OfString(e.Name)
		return func(f *frame) value.Value { return at(base(f), name) }, constBase
	}
	index, constIndex := c.expr(e.Index)
	return func(f *frame) value.Value { return at(base(f), index(f)) }, constBase && constIndex
}

func (c *compiler) conditional(e *syntax.Conditional) (evaluator, bool) {
	evs, constant := c.all([]syntax.Expr{e.Test, e.Then, e.Otherwise})
	return func(f *frame) value.Value {
		if evs[0](f).Kind == value.True {
			return evs[1](f)
		}
		return evs[2](f)
	}, constant
}

// constructed compiles an array or object that is written in the query.
func (c *compiler) constructed(e syntax.Expr) (evaluator, bool) {
	emit, constant := c.emit(e)
	return func(f *frame) value.Value {
		was := f.notFinite
		b, _ := emit(f, nil)
		f.notFinite = was // the value may never be in a row
		return f.read(b)
	}, constant
}

// emit compiles an expression to an emitter of its JSON and reports whether it is
// constant. The JSON of a path is copied as it is stored; see [value.AppendProjected].
func (c *compiler) emit(e syntax.Expr) (emitter, bool) {
	// If this array or object is itself an expression of GROUP BY, its value is read from
	// the group. Compiling its parts would read the last document of the group instead.
	if ev := c.overGroup(e); ev != nil {
		return emitValue(ev), false
	}
	switch e := e.(type) {
	case *syntax.Array:
		return c.emitList("[]", make([][]byte, len(e.Elements)), e.Elements)
	case *syntax.Object:
		return c.emitObject(e.Members)
	}
	if binding, path, ok := boundPath(e, c.params); ok && c.group == nil {
		raw := c.raw(binding, path)
		return func(f *frame, dst []byte) ([]byte, bool) {
			b := raw(f)
			return value.AppendProjected(dst, b), b != nil
		}, false
	}
	if sub, ok := e.(*syntax.Subquery); ok && c.group == nil {
		if emit := c.emitSubquery(sub); emit != nil {
			return emit, false
		}
	}
	ev, constant := c.expr(e)
	return emitValue(ev), constant
}

// emitValue returns an emitter of an evaluator's value.
func emitValue(ev evaluator) emitter {
	return func(f *frame, dst []byte) ([]byte, bool) {
		v := ev(f)
		f.notFinite = f.notFinite || v.NotFinite()
		return v.AppendJSON(dst), v.Kind != value.Undefined
	}
}

// emitObject compiles the members of an object.
func (c *compiler) emitObject(members []syntax.Item) (emitter, bool) {
	names, values := make([][]byte, len(members)), make([]syntax.Expr, len(members))
	for i, m := range members {
		names[i], values[i] = append(value.AppendString(nil, []byte(m.Name)), ':'), m.Expr
	}
	return c.emitList("{}", names, values)
}

// emitList compiles a list in brackets, each element with its name. It omits undefined
// elements and members, as the service does.
func (c *compiler) emitList(brackets string, names [][]byte, list []syntax.Expr) (emitter, bool) {
	values, constant := make([]emitter, len(list)), true
	for i, e := range list {
		emit, same := c.emit(e)
		values[i], constant = emit, constant && same
	}
	return func(f *frame, dst []byte) ([]byte, bool) {
		begin := len(dst)
		dst = append(dst, brackets[0])
		first := true
		for i, emit := range values {
			mark := len(dst)
			if !first {
				dst = append(dst, ',')
			}
			dst = append(dst, names[i]...)
			var ok bool
			if dst, ok = emit(f, dst); !ok {
				dst = dst[:mark]
				continue
			}
			if first = false; f.tooLarge(len(dst) - begin) {
				break
			}
		}
		return append(dst, brackets[1]), true
	}, constant
}
