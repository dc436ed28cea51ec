package server

import (
	"context"
	"fmt"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/query"
)

// Rows that several documents make together: GROUP BY, aggregates, DISTINCT. They come in the order of their keys, and a page costs a scan
// of what is asked for, however long that takes: the last document may be of the first group. The continuation is the key of the page's last row.
//
// Aggregates without GROUP BY are one row on one page, also where there are no documents: clients that merge the rows of several
// partitions expect one from each.

// maxPageGroups is how many groups are collected by one scan. More that OFFSET skips are skipped by several.
const maxPageGroups = 2 * mostRows

// grouped answers a query of such rows.
func (r *queryRun) grouped(ctx context.Context) error {
	r.unhurried = true
	if r.allowed() <= 0 {
		return nil
	}
	r.next = queryPosition{ordered: true, skip: r.position.skip, last: r.position.last}
	for {
		rows, more, err := r.groups(ctx)
		if err != nil {
			return err
		}
		if r.more = r.takeGroups(rows) || more; r.left() == 0 {
			r.more = false
		}
		// Rows that are skipped, or have no value, make no page.
		if r.count > 0 || !r.more {
			r.next.left = r.left()
			return nil
		}
	}
}

// takeGroups puts rows on the page, until it is full: then there are more.
func (r *queryRun) takeGroups(rows []query.SortedRow) (more bool) {
	for i := range rows {
		switch {
		case rows[i].Row == nil:
		case r.next.skip > 0:
			r.next.skip--
		case r.allowed() <= 0 || len(r.page) >= maxRowBytes:
			return true
		default:
			r.take(rows[i].Row)
		}
		r.next.last = &rows[i].Position
	}
	return false
}

// groups returns the first rows behind the position.
func (r *queryRun) groups(ctx context.Context) (rows []query.SortedRow, more bool, err error) {
	var after []byte
	if r.next.last != nil {
		after = r.next.last.Key
	}
	groups := r.rows.Groups(int(min(r.next.skip+int64(r.allowed())+1, maxPageGroups)), after)
	_, err = r.scan(ctx, func(item *engine.VisitedItem) (bool, error) {
		err := r.rows.Each(item.Body, func() bool {
			groups.Add()
			if groups.Size() > r.sortMemory {
				groups.Shrink(r.sortMemory / 2)
			}
			return groups.Size() <= r.sortMemory
		})
		if err == nil && groups.Size() > r.sortMemory {
			err = badRequest("one row of this query takes more than %d bytes of memory before it is done: "+
				"use fewer aggregates in one query, MIN and MAX of something shorter, or count fewer different values", r.sortMemory)
		}
		return true, err
	})
	if err != nil {
		return nil, false, fmt.Errorf("group: %w", err)
	}
	rows = groups.Rows()
	return rows, groups.Full(), groups.Err()
}
