package query

import (
	"fmt"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// maxHeld limits the total size of the arguments of calls that are being evaluated, in
// bytes. A query can contain thousands of nested calls, and each argument may be as long
// as an item.
const maxHeld = 64 << 20

// call compiles the call of a function. If the function fails for a document, the
// evaluator stores an *EvaluationError in the frame.
func (c *compiler) call(e *syntax.Call) (evaluator, bool) {
	name := strings.ToUpper(e.Name)
	fn := value.Functions[name]
	args, constant := c.all(e.Args)
	eval := fn.Prepare(c.now)
	return func(f *frame) value.Value {
		base, held := len(f.args), f.held
		for _, arg := range args {
			v := arg(f)
			f.args = append(f.args, v)
			if f.held += len(v.Bytes); f.held > maxHeld {
				f.fail(name, fmt.Sprintf("its arguments take more than %d bytes", maxHeld))
				break
			}
		}
		v := value.Value{}
		if f.err == nil && f.Spend(f.held-held) {
			v = eval(f, f.args[base:])
		}
		f.args, f.held = f.args[:base], held
		if reason, bad := v.Problem(); bad {
			f.fail(name, reason)
			return value.Value{}
		}
		return v
	}, constant && !fn.Volatile
}
