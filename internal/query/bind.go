package query

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/canonical"
	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// bind returns the checked query q with the given parameter values.
func bind(q *syntax.Select, given map[string]json.RawMessage) (*Bound, error) {
	b := &Bound{q: q, params: map[string]value.Value{}, now: time.Now()}
	for e := range syntax.All(q.Exprs()...) {
		if p, ok := e.(*syntax.Param); ok && b.params[p.Name].Kind == value.Undefined {
			v, err := parameter(p.Name, given)
			if err != nil {
				return nil, err
			}
			b.params[p.Name] = v
		}
	}
	if err := b.describe(given); err != nil {
		return nil, err
	}
	b.prog = compile(q, b.params, b.now)
	return b, nil
}

func parameter(name string, given map[string]json.RawMessage) (value.Value, error) {
	raw, ok := given[name]
	if !ok {
		return value.Value{}, nil // undefined, as in the service
	}
	raw, err := canonical.Tolerant(raw)
	if err != nil {
		return value.Value{}, &ParameterError{Name: name, Reason: "cannot be read: " + err.Error()}
	}
	if !jsontext.Value(raw).IsValid() {
		return value.Value{}, &ParameterError{Name: name, Reason: "is not a JSON value"}
	}
	return value.Decode(bytes.Clone(raw)), nil
}

// describe sets b.shape: the clauses that concern several documents, with the values of
// their parameters.
func (b *Bound) describe(given map[string]json.RawMessage) error {
	q, s := b.q, &b.shape
	s.SelectAll, s.SelectValue = q.Star, q.Value != nil
	s.NoSource, s.Several = !q.Reads, len(sourcesOf(q)) > 0
	for _, n := range []struct {
		count *syntax.Count
		to    **int64
		what  string
	}{{q.Top, &s.Top, "TOP"}, {q.Offset, &s.Offset, "OFFSET"}, {q.Limit, &s.Limit, "LIMIT"}} {
		if n.count == nil {
			continue
		}
		c := n.count.N
		if name := n.count.Param; name != "" {
			v, err := parameter(name, given)
			if err != nil {
				return err
			}
			var ok bool
			if c, ok = v.Int(); !ok || c < 0 || c > math.MaxInt32 {
				return &ParameterError{Name: name, Reason: fmt.Sprintf(
					"is the count of %s and must be an integer from 0 to %d", n.what, math.MaxInt32)}
			}
		}
		*n.to = &c
	}
	for _, o := range q.OrderBy {
		s.OrderBy = append(s.OrderBy, SortKey{Path: syntax.Format(o.Expr), Descending: o.Desc})
	}
	s.Distinct, s.GroupBy = q.Distinct, len(q.GroupBy) > 0
	s.Aggregates = aggregateNames(syntax.SelectList(q))
	s.Grouped = q.Distinct || isGrouped(q)
	return nil
}
