package query

import (
	"fmt"
	"strings"
)

// maxHeld bounds the arguments of the calls under way, in bytes: a text has room for
// thousands of calls, and each argument may be as long as an item.
const maxHeld = 64 << 20

// call compiles a call. Its evaluator leaves an *EvaluationError in the frame
// when the function can't be evaluated for a document.
func (c *compiler) call(e *call) (evaluator, bool) {
	name := strings.ToUpper(e.name)
	fn := functions[name]
	args, constant := make([]evaluator, len(e.args)), !fn.volatile
	s := site{constants: make([]*value, len(e.args)), now: c.now}
	for i, arg := range e.args {
		ev, same := c.expr(arg)
		args[i], constant = ev, constant && same
		if same {
			v := ev(&frame{})
			s.constants[i] = &v
		}
	}
	eval := fn.forCall(s)
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
		if reason, bad := v.problem(); bad {
			f.fail(name, reason)
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
