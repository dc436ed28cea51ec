package query

import (
	"fmt"
	"time"
)

// Filter is the condition of a patch. It doesn't change and may be used by any
// number of goroutines.
type Filter struct {
	b *Bound
}

// Condition reads the condition of a patch, "from c where c.v = 3": FROM and
// WHERE only. Errors are those of [Parse].
func Condition(text string) (*Filter, error) {
	q, err := parseCondition(text)
	if err != nil {
		return nil, refused(text, err)
	}
	if err := check(text, q); err != nil {
		return nil, err
	}
	if len(sourcesOf(q)) > 0 {
		return nil, &UnsupportedError{What: "a condition on anything but the item itself (FROM x IN, a path in FROM)"}
	}
	b, err := bind(q, nil)
	if err != nil {
		return nil, err
	}
	return &Filter{b: b}, nil
}

// maxCondition is how long the condition of a patch is evaluated: the container's
// other writes wait for it.
const maxCondition = time.Second

// Match says whether the condition is true of a document. The error says that
// doc is no JSON object, or, as an *[EvaluationError], why the condition can't be evaluated: it takes more
// than a second, for example.
func (f *Filter) Match(doc []byte) (bool, error) {
	var began time.Time
	_, ok, err := f.b.Rows().While(func() error {
		switch now := time.Now(); {
		case began.IsZero():
			began = now
		case now.Sub(began) > maxCondition:
			return &EvaluationError{Message: fmt.Sprintf("The condition takes more than %v to evaluate.", maxCondition)}
		}
		return nil
	}).Eval(doc)
	return ok, err
}
