package query

import (
	"fmt"
	"strings"
	"time"
)

// site is one call in a query, as far as it is known before any document.
type site struct {
	args []fixed
	// now is when the query was bound.
	now time.Time
}

// fixed is an argument that is the same for every document; of others constant
// is false.
type fixed struct {
	constant bool
	v        value
}

// Bounds of what calls make. The service bounds an answer by 4 MB and an item by
// 2 MB.
const (
	// maxMade is the longest string or array that a function makes, in bytes.
	maxMade = 4 << 20
	// maxHeld is what the arguments of the calls under way may take together, in
	// bytes: a text has room for thousands of calls, and each argument may be as
	// long as an item.
	maxHeld = 64 << 20
)

// problem is what an eval returns when the query can't go on: undefined with a
// reason. No value of an expression is one.
func problem(reason string) value { return value{b: []byte(reason)} }

// tooLong is the problem of a result beyond maxMade.
func tooLong() value { return problem(fmt.Sprintf("its result takes more than %d bytes", maxMade)) }

// call compiles a call. Its evaluator leaves an *EvaluationError in the frame
// when the function can't be evaluated for a document.
func (c *compiler) call(e *call) (evaluator, bool) {
	name := strings.ToUpper(e.name)
	fn := functions[name]
	args, constant := make([]evaluator, len(e.args)), !fn.volatile
	s := site{args: make([]fixed, len(e.args)), now: c.now}
	for i, arg := range e.args {
		ev, same := c.expr(arg)
		args[i], constant = ev, constant && same
		if same {
			s.args[i] = fixed{constant: true, v: ev(&frame{})}
		}
	}
	eval := func(_ *frame, args []value) value { return fn.eval(args) }
	if fn.prepare != nil {
		eval = fn.prepare(s)
	}
	return func(f *frame) value {
		base, held := len(f.args), f.held
		for _, arg := range args {
			v := arg(f)
			f.args = append(f.args, v)
			if f.held += len(v.b); f.held > maxHeld {
				f.fail(name, fmt.Sprintf("its arguments take more than %d bytes", maxHeld))
				break
			}
		}
		v := value{}
		if f.err == nil && f.spend(f.held-held) {
			v = eval(f, f.args[base:])
		}
		f.args, f.held = f.args[:base], held
		if v.kind == kindUndefined && v.b != nil {
			f.fail(name, string(v.b))
			return value{}
		}
		return v
	}, constant
}

// fail keeps the first error of a document.
func (f *frame) fail(function, reason string) {
	if f.err == nil {
		f.err = &EvaluationError{Message: fmt.Sprintf("The function %s can't be evaluated: %s.", function, reason)}
	}
}
