package query

import (
	"errors"
	"time"
)

// frame is what expressions are evaluated in: one document.
type frame struct {
	extractor
	inner []extractor // of the bindings other than the document
	steps int         // of work, since somebody was asked whether to go on; see spend
	// stopped returns the reason for which nobody wants the result any more; nil: nobody tells.
	stopped func() error
	// began is when it was first asked about the document.
	began time.Time
	args  []value // a stack of arguments of the calls under way
	held  int     // what they take, in bytes
	err   error   // why the document can't be evaluated: an *EvaluationError, or what stopped returned
	// group is what expressions over groups see.
	group *group
}

// evaluator computes an expression's value for the document of a frame.
type evaluator func(f *frame) value

// emitter appends an expression's JSON; false, and dst as it was, for undefined.
type emitter func(f *frame, dst []byte) ([]byte, bool)

// program is a bound query as functions.
type program struct {
	root  *node
	slots int
	star  bool
	where evaluator // nil without a condition
	from  *from     // with loops, and then instead of where
	inner []*inner
	// value is what SELECT * is of when it isn't the document.
	value func(f *frame) []byte
	// With byID, the condition can only be true of documents of these ids, and is
	// true when one of the id's evaluators is.
	byID map[string][]evaluator
	id   evaluator

	row   emitter // nil for SELECT * and for groups
	keys  []evaluator
	desc  []bool
	group *grouping // of a SELECT of groups, instead of row
	count *countDistinct
}

// compiler makes a program.
type compiler struct {
	params map[string]value
	now    time.Time
	folded int    // bytes of constants that were computed
	alias  string // what stands for the document
	root   *node
	slots  int
	inner  []*inner
	group  *grouping // whose select list is being compiled
}

func compile(q *selectQuery, params map[string]value, now time.Time) *program {
	c, p := compileCondition(q, params, now)
	if p.from != nil && q.star {
		p.value = c.raw(sourcesOf(q)[0].binding, nil)
	}
	p.star = q.star
	for _, o := range q.orderBy {
		key, _ := c.expr(o.e)
		p.keys, p.desc = append(p.keys, key), append(p.desc, o.desc)
	}
	c.selection(p, q)
	p.slots, p.inner = c.slots, c.inner
	return p
}

// compileCondition compiles FROM and WHERE.
func compileCondition(q *selectQuery, params map[string]value, now time.Time) (*compiler, *program) {
	c := &compiler{params: params, now: now, alias: documentAlias(q), root: newNode()}
	p := &program{root: c.root}
	if len(sourcesOf(q)) > 0 {
		p.from = c.from(q, q.where)
	} else if q.where != nil {
		c.condition(p, q.where)
	}
	p.slots, p.inner = c.slots, c.inner
	return c, p
}

// longList is the length of a list from which a map is made of it.
const longList = 8

// condition compiles WHERE. SDKs read many items by one long chain of
// (c.id = @id AND c.pk = @pk), of which a document then needs only its own terms.
func (c *compiler) condition(p *program, where expr) {
	p.where, _ = c.expr(where)
	terms := []expr{where}
	if l, ok := where.(*logical); ok && l.op == "OR" {
		terms = l.terms
	}
	byID := map[string][]evaluator{}
	for _, t := range terms {
		ids, ok := idsIn(t, c.alias, c.params)
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
		p.id, _ = c.expr(&member{base: &ident{name: c.alias}, name: idPath[0]})
	}
}

// selection compiles what SELECT says.
func (c *compiler) selection(p *program, q *selectQuery) {
	switch {
	case isGrouped(q):
		p.group = c.grouping(q)
	case !q.star:
		p.row = c.projection(q)
	}
}

// projection compiles the row of a SELECT.
func (c *compiler) projection(q *selectQuery) emitter {
	if q.value != nil {
		row, _ := c.emit(q.value)
		return row
	}
	names := outputNames(q.items)
	members := make([]selected, len(names))
	for i, it := range q.items {
		members[i] = selected{e: it.e, name: names[i]}
	}
	row, _ := c.emitObject(members)
	return row
}

// slot returns the slot of a path, and marks it as wanted.
func (c *compiler) slot(path []step) int {
	n := c.root.place(path)
	if n.slot == noSlot {
		n.slot = c.slots
		c.slots++
	}
	return n.slot
}

// fold makes an expression of constants a constant. One that can't be evaluated
// fails when a document is looked at, and not before; and what would make the
// constants of the query too large is computed for each document.
func (c *compiler) fold(e evaluator, constant bool) (evaluator, bool) {
	if !constant || c.folded > maxFoldedBytes {
		return e, false
	}
	// What takes long is computed for a document, where somebody can stop it.
	f := frame{stopped: func() error { return errLongConstant }}
	v := e(&f)
	if c.folded += len(v.b); f.err != nil || c.folded > maxFoldedBytes {
		return e, false
	}
	return func(*frame) value { return v }, true
}

// errLongConstant stops the evaluation of constants that takes long.
var errLongConstant = errors.New("the constant takes long to compute")

// maxFoldedBytes bounds the constants that a query keeps: a text has room for
// thousands of expressions, each of which may make a value as long as an item of a
// parameter.
const maxFoldedBytes = 64 << 20

// expr compiles an expression and says whether its value is the same for every
// document.
func (c *compiler) expr(e expr) (evaluator, bool) {
	if v, ok := constant(e, c.params); ok {
		return func(*frame) value { return v }, true
	}
	if ev := c.overGroup(e); ev != nil {
		return ev, false
	}
	if binding, path, ok := boundPath(e, c.params); ok {
		if binding != document {
			raw := c.raw(binding, path)
			return func(f *frame) value { return f.read(raw(f)) }, false
		}
		slot := c.slot(path)
		return func(f *frame) value { return f.read(f.slots[slot]) }, false
	}
	switch e := e.(type) {
	case *member:
		return c.fold(c.member(e))
	case *unary:
		return c.fold(c.unary(e))
	case *binaryOp:
		return c.fold(c.binary(e))
	case *logical:
		return c.fold(c.logical(e))
	case *inList:
		return c.fold(c.in(e))
	case *between:
		return c.fold(c.between(e))
	case *like:
		return c.fold(c.like(e))
	case *subquery:
		return c.subquery(e)
	case *conditional:
		return c.fold(c.conditional(e))
	case *call:
		return c.fold(c.call(e))
	case *array, *object:
		return c.fold(c.constructed(e))
	}
	return func(*frame) value { return value{} }, true
}

// all compiles several expressions.
func (c *compiler) all(list []expr) (evs []evaluator, constant bool) {
	evs, constant = make([]evaluator, len(list)), true
	for i, e := range list {
		ev, same := c.expr(e)
		evs[i], constant = ev, constant && same
	}
	return evs, constant
}

// member is a path that isn't the same for every document, or doesn't begin at
// the document.
func (c *compiler) member(e *member) (evaluator, bool) {
	base, constBase := c.expr(e.base)
	if e.index == nil {
		s := step{name: []byte(e.name)}
		return func(f *frame) value { return at(base(f), s) }, constBase
	}
	index, constIndex := c.expr(e.index)
	return func(f *frame) value {
		s, ok := stepOf(index(f))
		if !ok {
			return value{}
		}
		return at(base(f), s)
	}, constBase && constIndex
}

func (c *compiler) conditional(e *conditional) (evaluator, bool) {
	evs, constant := c.all([]expr{e.test, e.then, e.otherwise})
	return func(f *frame) value {
		if evs[0](f).kind == kindTrue {
			return evs[1](f)
		}
		return evs[2](f)
	}, constant
}

// constructed is an array or object written in the query.
func (c *compiler) constructed(e expr) (evaluator, bool) {
	emit, constant := c.emit(e)
	return func(f *frame) value {
		b, _ := emit(f, nil)
		return f.read(b)
	}, constant
}

// emit compiles an expression to an emitter of its JSON, and reports whether it is
// constant. The JSON of a path is copied as it is stored: a number keeps its digits.
func (c *compiler) emit(e expr) (emitter, bool) {
	// An array or object can be an expression of GROUP BY itself. Its parts must not be
	// compiled then: they would read the last document instead of the group.
	if ev := c.overGroup(e); ev != nil {
		return emitValue(ev), false
	}
	switch e := e.(type) {
	case *array:
		return c.emitArray(e)
	case *object:
		return c.emitObject(e.members)
	}
	if binding, path, ok := boundPath(e, c.params); ok && c.group == nil {
		raw := c.raw(binding, path)
		return func(f *frame, dst []byte) ([]byte, bool) {
			b := raw(f)
			return append(dst, b...), b != nil
		}, false
	}
	if sub, ok := e.(*subquery); ok && c.group == nil {
		if emit := c.emitSubquery(sub); emit != nil {
			return emit, false
		}
	}
	ev, constant := c.expr(e)
	return emitValue(ev), constant
}

// emitValue returns the emitter of an evaluator's value.
func emitValue(ev evaluator) emitter {
	return func(f *frame, dst []byte) ([]byte, bool) {
		v := ev(f)
		return v.appendJSON(dst), v.kind != kindUndefined
	}
}

// emitArray leaves undefined elements out, as the service does.
func (c *compiler) emitArray(e *array) (emitter, bool) {
	elements, constant := make([]emitter, len(e.elements)), true
	for i, x := range e.elements {
		emit, same := c.emit(x)
		elements[i], constant = emit, constant && same
	}
	return func(f *frame, dst []byte) ([]byte, bool) {
		begin := len(dst)
		dst = append(dst, '[')
		first := true
		for _, emit := range elements {
			mark := len(dst)
			if !first {
				dst = append(dst, ',')
			}
			var ok bool
			if dst, ok = emit(f, dst); !ok {
				dst = dst[:mark]
				continue
			}
			if first = false; f.tooLarge(len(dst) - begin) {
				break
			}
		}
		return append(dst, ']'), true
	}, constant
}

// emitObject leaves undefined members out.
func (c *compiler) emitObject(members []selected) (emitter, bool) {
	names := make([][]byte, len(members))
	values, constant := make([]emitter, len(members)), true
	for i, m := range members {
		emit, same := c.emit(m.e)
		names[i] = append(appendString(nil, []byte(m.name)), ':')
		values[i], constant = emit, constant && same
	}
	return func(f *frame, dst []byte) ([]byte, bool) {
		begin := len(dst)
		dst = append(dst, '{')
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
		return append(dst, '}'), true
	}, constant
}
