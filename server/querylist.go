package server

import (
	"bytes"
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

// queryList returns the query's rows over a list that is sorted by key. The rows are sorted by theirs, so that they can be
// given out in pages.
func (x *exchange) queryList(all []resource) ([]resource, error) {
	b, err := x.query()
	if err != nil {
		return nil, err
	}
	shape, eval := b.Shape(), b.Rows()
	var rows []resource
	for _, r := range all {
		row, ok, err := eval.Eval(r.body)
		if err != nil {
			return nil, err
		}
		if ok {
			rows = append(rows, resource{key: string(eval.OrderKey(nil)) + r.key, body: bytes.Clone(row)})
		}
	}
	if total, ok := eval.Total(); ok {
		rows = []resource{{key: "total", body: total}}
	}
	if len(shape.OrderBy) > 0 {
		slices.SortFunc(rows, func(a, b resource) int { return strings.Compare(a.key, b.key) })
	}
	p := startOf(shape)
	rows = rows[min(p.skip, int64(len(rows))):]
	if p.left >= 0 {
		rows = rows[:min(p.left, int64(len(rows)))]
	}
	return rows, nil
}
