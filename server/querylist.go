package server

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Queries of databases, containers and offers: POST with a query where GET lists. SDKs find the throughput of a container
// by a query of offers, each with a text of its own.
//
// Supported: the language of server/query, with everything that a query within a partition key may have, since there
// is but one list.

func (s *Server) queryDatabases(x *exchange) error {
	all, err := s.allDatabases(x.r.Context())
	if err != nil {
		return err
	}
	return x.sendQueried("", "Databases", all)
}

func (s *Server) queryContainers(x *exchange) error {
	d, err := x.parent()
	if err != nil {
		return err
	}
	all, err := s.allContainers(x.r.Context(), d)
	if err != nil {
		return err
	}
	return x.sendQueried(d.RID, "DocumentCollections", all)
}

func (s *Server) queryOffers(x *exchange) error {
	all, err := s.offerList(x.r.Context())
	if err != nil {
		return err
	}
	return x.sendQueried("", "Offers", all)
}

// sendQueried answers with the rows of the query over a list.
func (x *exchange) sendQueried(rid, member string, all []resource) error {
	rows, err := x.queryList(all)
	if err != nil {
		return err
	}
	return x.sendList(rid, member, rows)
}

// listRowOverhead is what a row takes beside its bytes, roughly.
const listRowOverhead = 64

// queryList returns the query's rows over a list that is sorted by key. The rows are sorted by theirs, so that they can be
// given out in pages.
func (x *exchange) queryList(all []resource) ([]resource, error) {
	b, err := x.query()
	if err != nil {
		return nil, err
	}
	if err := x.enter(forSorts); err != nil {
		return nil, err
	}
	shape, eval, most := b.Shape(), b.Rows().Until(x.r.Context()), x.s.budget.sortRows()
	if shape.NoSource {
		all = []resource{{body: []byte("{}")}}
	}
	var rows []resource
	groups, held := eval.Groups(math.MaxInt32, nil), 0
	for _, r := range all {
		first := len(rows)
		err := eval.Each(r.body, func() bool {
			if shape.Grouped {
				groups.Add()
			} else if row, ok := eval.Row(); ok {
				key := string(eval.OrderKey(nil)) + r.key
				if shape.Several {
					key += fmt.Sprintf("/%08x", len(rows)-first)
				}
				rows = append(rows, resource{key: key, body: bytes.Clone(row)})
				held += len(key) + len(row) + listRowOverhead
			}
			return held+groups.Size() <= most
		})
		if err != nil {
			return nil, evaluationFailure(err)
		}
		if held+groups.Size() > most {
			return nil, badRequest("the rows of this query take more than %d bytes: join fewer arrays, or select less", most)
		}
	}
	if shape.Grouped {
		for _, row := range groups.Rows() {
			if row.Row != nil {
				rows = append(rows, resource{key: string(row.Key), body: row.Row})
			}
		}
		if err := groups.Err(); err != nil {
			return nil, evaluationFailure(err)
		}
	}
	if byKey(shape) {
		slices.SortFunc(rows, func(a, b resource) int { return strings.Compare(a.key, b.key) })
	}
	p := startOf(shape)
	rows = rows[min(p.skip, int64(len(rows))):]
	if p.left >= 0 {
		rows = rows[:min(p.left, int64(len(rows)))]
	}
	return rows, nil
}
