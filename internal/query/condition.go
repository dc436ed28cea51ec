package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

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
