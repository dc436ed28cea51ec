package query

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

// Where is the FROM and WHERE of a query, without its SELECT. A scan applies it to all
// documents, and evaluates the whole query only for those that satisfy it. It is
// immutable and safe for concurrent use, but each goroutine needs its own filter.
type Where struct {
	prog   *program
	random bool
}

// Where returns the condition of the query.
func (b *Bound) Where() *Where {
	_, p := compileCondition(b.q, b.params, b.now)
	w := &Where{prog: p}
	for e := range syntax.All((&syntax.Select{From: b.q.From, Where: b.q.Where}).Exprs()...) {
		call, ok := e.(*syntax.Call)
		w.random = w.random || ok && strings.EqualFold(call.Name, "RAND")
	}
	return w
}

// Random reports whether the condition calls RAND, so that its result changes with every
// evaluation. The caller must evaluate such a condition only once for each document.
// Otherwise too few documents would satisfy it both times.
func (w *Where) Random() bool { return w.random }

// Filter returns a function that reports whether a document satisfies the condition. With
// a JOIN, one row that satisfies it is enough. The function returns the error of check,
// as [Rows.While] does, or an error as [Rows.Each] does. It is not safe for concurrent
// use.
func (w *Where) Filter(check func() error) func(doc []byte) (bool, error) {
	return newRows(w.prog).While(check).matches
}

// Sees reports whether the result of the condition may depend on the given member of the
// document. This is the case if the condition names the member or uses the document as a
// whole.
func (w *Where) Sees(member string) bool {
	root := w.prog.root
	return root.slot != noSlot || root.member([]byte(member)) != nil
}

// Filter is the condition of a patch. It is safe for concurrent use.
type Filter struct {
	b *Bound
}

// Condition parses the condition of a patch, such as "from c where c.v = 3". A condition
// consists only of FROM and WHERE. It returns the same errors as [Parse].
func Condition(text string) (*Filter, error) {
	q, err := syntax.ParseCondition(text)
	if err != nil {
		return nil, err
	}
	for e := range syntax.All(q.Exprs()...) {
		if p, ok := e.(*syntax.Param); ok {
			return nil, &ParameterError{Name: p.Name, Reason: "has no value in a condition"}
		}
	}
	if err := check(text, q); err != nil {
		return nil, err
	}
	if len(sourcesOf(q)) > 0 {
		return nil, &syntax.UnsupportedError{What: "a condition on anything but the item itself (FROM x IN, a path in FROM)"}
	}
	b, err := bind(q, nil)
	if err != nil {
		return nil, err
	}
	return &Filter{b: b}, nil
}

// errSlowCondition ends the evaluation of a condition that exceeds its time limit.
var errSlowCondition = errors.New("slow condition")

// Match reports whether a document satisfies the condition. It takes at most limit, which
// it checks every few milliseconds. It returns the error of ctx, or an *[EvaluationError]
// if the evaluation fails or takes longer. It returns another error if doc is not a JSON
// object.
func (f *Filter) Match(ctx context.Context, doc []byte, limit time.Duration) (bool, error) {
	began := time.Now()
	_, ok, err := f.b.Rows().While(func() error {
		if time.Since(began) > limit {
			return errSlowCondition
		}
		return ctx.Err()
	}).Eval(doc)
	if errors.Is(err, errSlowCondition) {
		err = &EvaluationError{Message: fmt.Sprintf("The condition takes more than %v to evaluate.", limit.Round(time.Millisecond))}
	}
	return ok, err
}
