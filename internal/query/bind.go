package query

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// bind gives a checked query its parameters.
func bind(q *selectQuery, given map[string]json.RawMessage) (*Bound, error) {
	b := &Bound{q: q, params: map[string]value{}, now: time.Now()}
	var err error
	walkQuery(q, func(e expr) {
		if err == nil {
			err = b.take(e, given)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := b.describe(given); err != nil {
		return nil, err
	}
	b.prog = compile(q, b.params, b.now)
	return b, nil
}

// take decodes the parameters in an expression.
func (b *Bound) take(e expr, given map[string]json.RawMessage) error {
	if p, ok := e.(*param); ok {
		if _, have := b.params[p.name]; have {
			return nil
		}
		v, err := parameter(p.name, given)
		if err != nil {
			return err
		}
		b.params[p.name] = v
	}
	if sub, ok := e.(*subquery); ok {
		var err error
		walkQuery(sub.q, func(e expr) {
			if err == nil {
				err = b.take(e, given)
			}
		})
		return err
	}
	for _, child := range children(e) {
		if err := b.take(child, given); err != nil {
			return err
		}
	}
	return nil
}

func parameter(name string, given map[string]json.RawMessage) (value, error) {
	raw, ok := given[name]
	if !ok {
		return value{}, &ParameterError{Name: name, Reason: "is not among the request's parameters"}
	}
	raw = bytes.TrimSpace(raw)
	if !jsontext.Value(raw).IsValid() {
		return value{}, &ParameterError{Name: name, Reason: "is no JSON value"}
	}
	return decode(bytes.Clone(raw)), nil
}

// describe makes the query's shape.
func (b *Bound) describe(given map[string]json.RawMessage) error {
	q, s := b.q, &b.shape
	s.SelectAll, s.SelectValue = q.star, q.value != nil
	s.NoSource, s.Several = !q.reads, len(sourcesOf(q)) > 0
	for _, n := range []struct {
		count *count
		to    **int64
		what  string
	}{{q.top, &s.Top, "TOP"}, {q.offset, &s.Offset, "OFFSET"}, {q.limit, &s.Limit, "LIMIT"}} {
		if n.count == nil {
			continue
		}
		c := n.count.n
		if name := n.count.param; name != "" {
			v, err := parameter(name, given)
			if err != nil {
				return err
			}
			if v.kind != kindNumber || v.num != math.Trunc(v.num) || v.num < 0 || v.num > math.MaxInt32 {
				return &ParameterError{Name: name, Reason: fmt.Sprintf(
					"is the count of %s and has to be an integer from 0 to %d", n.what, math.MaxInt32)}
			}
			c = int64(v.num)
		}
		*n.to = &c
	}
	for _, o := range q.orderBy {
		s.OrderBy = append(s.OrderBy, SortKey{Path: printExpr(o.e), Descending: o.desc})
	}
	s.Distinct, s.GroupBy = q.distinct, len(q.groupBy) > 0
	s.Aggregates = aggregateNames(nil, selectList(q))
	s.Grouped = q.distinct || isGrouped(q)
	return nil
}
