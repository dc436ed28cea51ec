package querypage

import (
	"context"
	"fmt"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/query"
)

// This file reads rows of several documents: GROUP BY, aggregates and DISTINCT. They come
// in the order of their keys. A page scans all selected documents, because the last one
// may belong to the first group. The continuation is the key of the page's last row.
//
// Aggregates without GROUP BY are one row on one page, even without documents. Clients
// that merge the rows of several partitions expect one row of each.

// maxPageGroups limits the number of groups that one scan collects. If OFFSET skips more,
// there are several scans.
const maxPageGroups = 2 * maxRows

// readGroups reads a page of a query with GROUP BY, aggregates or DISTINCT.
func (p *Page) readGroups(ctx context.Context) error {
	p.anyOrder = true
	if p.room() <= 0 {
		return nil
	}
	p.next = position{ordered: true, offset: p.start.offset, last: p.start.last}
	for {
		rows, more, err := p.collectGroups(ctx)
		if err != nil {
			return err
		}
		p.more = (p.addGroups(rows) || more) && p.limitLeft() != 0
		// OFFSET may have skipped all of these rows, or their values are undefined. Then
		// the page is still empty, and another scan follows.
		if p.Count > 0 || !p.more {
			p.next.limit = p.limitLeft()
			return nil
		}
	}
}

// addGroups adds rows until the page is full or the rows end. more reports whether some
// were not added.
func (p *Page) addGroups(rows []query.SortedRow) (more bool) {
	for i := range rows {
		switch {
		case rows[i].Row == nil:
		case p.next.offset > 0:
			p.next.offset--
		case p.isFull() || !p.fits(rows[i].Row):
			return true
		default:
			p.add(rows[i].Row)
		}
		p.next.last = &rows[i].Position
	}
	return false
}

// collectGroups scans the documents and returns the first rows after the position of the
// next page. more reports whether further rows exist.
func (p *Page) collectGroups(ctx context.Context) (rows []query.SortedRow, more bool, err error) {
	var after []byte
	if p.next.last != nil {
		after = p.next.last.Key
	}
	groups := p.eval.Groups(int(min(p.next.offset+int64(p.room())+1, maxPageGroups)), after)
	_, err = p.scan(ctx, func(item *engine.VisitedItem) (bool, error) {
		err := p.eval.Each(item.Body, func() bool {
			groups.Add()
			if groups.Size() > p.sortMemory {
				groups.Shrink(p.sortMemory / 2)
			}
			return groups.Size() <= p.sortMemory
		})
		if err == nil && groups.Size() > p.sortMemory {
			err = badRequest("one row of this query takes more than %d bytes of memory; "+
				"use fewer aggregates in one query, MIN and MAX of shorter values, or count fewer distinct values", p.sortMemory)
		}
		return true, err
	})
	if err != nil {
		return nil, false, fmt.Errorf("group: %w", err)
	}
	rows = groups.Rows()
	return rows, groups.Full(), groups.Err()
}
