package query

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

// Where is what FROM and WHERE of a query say of a document, and nothing of
// what SELECT wants of it: a scan asks it of all documents, and evaluates the
// query for those that are left. It doesn't change and may be used by any number
// of goroutines; each takes a filter of its own.
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

// Random says whether the condition draws lots: then it is another one each time it
// is asked, and asked of a document twice it would hold less often than it says.
func (w *Where) Random() bool { return w.random }

// Filter returns a function that reports whether the condition is true of at least one row that
// FROM makes of a document. It ends with the error of check, as [Rows.While] does, or that of
// [Rows.Each]. It serves one goroutine at a time.
func (w *Where) Filter(check func() error) func(doc []byte) (bool, error) {
	rows := newRows(w.prog).While(check)
	found := false
	visit := func() bool {
		found = true
		return false
	}
	return func(doc []byte) (bool, error) {
		found = false
		err := rows.Each(doc, visit)
		return found, err
	}
}

// Sees says whether the condition may depend on a member of the document: it
// names it, or the document as a whole.
func (w *Where) Sees(member string) bool {
	root := w.prog.root
	return root.slot != noSlot || root.member([]byte(member)) != nil
}

// Filter is the condition of a patch. It is safe for concurrent use.
type Filter struct {
	b *Bound
}

// Condition reads the condition of a patch, "from c where c.v = 3": FROM and
// WHERE only. Errors are those of [Parse].
func Condition(text string) (*Filter, error) {
	q, err := syntax.ParseCondition(text)
	if err != nil {
		return nil, err
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

// errSlowCondition stops the evaluation of a condition at its limit.
var errSlowCondition = errors.New("slow condition")

// Match reports whether the condition is true of a document. It takes at most limit, in
// steps of some milliseconds. Errors: that of ctx; an *[EvaluationError], if the
// evaluation takes longer or cannot be done; another, if doc is not a JSON object.
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
