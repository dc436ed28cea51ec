package query

import (
	"crypto/sha256"
)

// countDistinct is what a query makes that counts different rows and does nothing
// else: SELECT COUNT(1) FROM (SELECT DISTINCT ...). It is run as the inner
// query, whose rows a client over several ranges gets and counts itself.
type countDistinct struct {
	// name is the member that the count is in; empty for SELECT VALUE.
	name string
	// outer is the whole query, as it was written.
	outer *selectQuery
}

// distinctCounted returns the query whose rows are counted; nil: q is another.
func distinctCounted(q *selectQuery) (inner *selectQuery, count *countDistinct) {
	list := selectList(q)
	if q.from == nil || q.from.subquery == nil || q.from.in || len(q.from.joins) > 0 || len(list) != 1 ||
		q.distinct || q.top != nil || q.limit != nil || q.where != nil || len(q.groupBy) > 0 || len(q.orderBy) > 0 {
		return nil, nil
	}
	inner = q.from.subquery
	if !inner.distinct || inner.from == nil || isGrouped(inner) || inner.top != nil || inner.limit != nil || len(inner.orderBy) > 0 {
		return nil, nil
	}
	c, kind := aggregateCall(list[0])
	if kind != aggregateCount || len(c.args) != 1 {
		return nil, nil
	}
	switch arg := c.args[0].(type) {
	case *literal:
		if arg.v.kind == kindUndefined {
			return nil, nil
		}
	case *ident:
		if arg.name != q.from.alias {
			return nil, nil
		}
	default:
		return nil, nil
	}
	count = &countDistinct{outer: q}
	if q.value == nil {
		count.name = outputNames(q.items)[0]
	}
	return inner, count
}

// differentRow is what is kept of a row that is only counted: its hash.
type differentRow [16]byte

// differentRowSize is what one takes in a set, roughly, in bytes.
const differentRowSize = 40

// count takes a row into the set of those that were seen.
func (s *Groups) count(key []byte) {
	sum := sha256.Sum256(key)
	row := differentRow(sum[:])
	if _, have := s.seen[row]; !have {
		s.seen[row] = struct{}{}
		s.size += differentRowSize
	}
}

// counted is the row of a query that counts different rows.
func (s *Groups) counted(c *countDistinct) []SortedRow {
	n := appendNumber(nil, float64(len(s.seen)))
	if c.name == "" {
		return []SortedRow{{Row: n}}
	}
	row := append(appendString([]byte{'{'}, []byte(c.name)), ':')
	return []SortedRow{{Row: append(append(row, n...), '}')}}
}
