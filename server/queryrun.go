package server

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// Bounds of a page of a query.
const (
	defaultRows = 100
	// mostRows is the page that a client gets who leaves its size to the server (-1), as far as the bytes allow.
	mostRows = 10_000
	// maxRowBytes ends a page: no further row is taken in once it holds as much.
	maxRowBytes = 4 << 20
	// maxScan is how long a page is looked for. What was found until then is answered, with a
	// continuation, also if it is nothing: clients wait a few seconds for an answer.
	maxScan = 3 * time.Second
	// maxPeek is how many documents are looked at behind a full page for one more row. Without any, the page is
	// the last one and says so; if that stays open, the next page may be empty.
	maxPeek = 1000
)

// queryRun is one page of a query: what is asked for, and what has come of it.
type queryRun struct {
	c       *engine.Container
	b       *query.Bound
	rows    *query.Rows
	shape   query.Shape
	request engine.ItemsRequest
	// max is how many rows the page has at most.
	max int
	// unhurried tells that the scan can't be ended and resumed in the middle. shortened, that rows
	// which had a place on the page were dropped for their size.
	unhurried, shortened bool
	position             queryPosition
	// sortMemory bounds what the rows of a page, and the keys of rows that are skipped, may take while they are sorted or grouped, in bytes.
	sortMemory int
	metrics    queryMetrics
	// time is how long a page is looked for; late tells that it is over.
	time time.Duration
	late bool

	// page are the rows, with commas between them.
	page   []byte
	count  int
	charge float64
	served []engine.PartitionEnd
	// more tells that there is a next page, which begins at next.
	more bool
	next queryPosition
}

// maxRows is the page size that the request asks for.
func (x *exchange) maxRows() (int, error) {
	n, err := x.maxItems()
	switch {
	case err != nil:
		return 0, err
	case n > 0:
		return min(n, mostRows), nil
	case x.header(wire.HeaderMaxItemCount) != "":
		return mostRows, nil
	}
	return defaultRows, nil
}

// queryPosition is where the request begins: at its continuation, or with all that the query's clauses allow and
// skip.
func (x *exchange) queryPosition(c *engine.Container, shape query.Shape) (queryPosition, error) {
	ordered := byKey(shape)
	if text := x.header(wire.HeaderContinuation); text != "" {
		return parseQueryToken(text, c.Identity().ContainerRID, ordered)
	}
	return startOf(shape), nil
}

// byKey says whether the rows of a query come in the order of keys rather than of documents.
func byKey(shape query.Shape) bool { return len(shape.OrderBy) > 0 || shape.Grouped }

// startOf is where a query begins.
func startOf(shape query.Shape) queryPosition {
	p := queryPosition{ordered: byKey(shape), left: -1}
	if shape.Top != nil {
		p.left = *shape.Top
	}
	if shape.Limit != nil && (p.left < 0 || *shape.Limit < p.left) {
		p.left = *shape.Limit
	}
	if shape.Offset != nil {
		p.skip = *shape.Offset
	}
	return p
}

// allowed is how many rows the page may have yet, by its size and by TOP and LIMIT.
func (r *queryRun) allowed() int {
	n := r.max - r.count
	if r.position.left >= 0 {
		n = int(min(int64(n), r.position.left-int64(r.count)))
	}
	return n
}

// take puts a row on the page.
func (r *queryRun) take(row []byte) {
	if r.count > 0 {
		r.page = append(r.page, ',')
	}
	r.page = append(r.page, row...)
	r.count++
}

// left is what TOP and LIMIT allow behind the page.
func (r *queryRun) left() int64 {
	if r.position.left < 0 {
		return -1
	}
	return max(r.position.left-int64(r.count), 0)
}

// scan shows visit the documents of the request that the condition may be true of, in the order of (effective partition
// key, id), until it returns false, the time is up, or none is left. after is the position behind the last one, empty when
// none is left. An unhurried scan is in any order, and visit returns true always.
func (r *queryRun) scan(ctx context.Context, visit func(*engine.VisitedItem) (more bool, err error)) (after string, err error) {
	if r.shape.NoSource {
		_, err := visit(&engine.VisitedItem{Body: []byte("{}")})
		return "", err
	}
	request := r.request
	request.Continuation, request.Again = r.position.after, r.position.done > 0
	request.AnyOrder = r.unhurried
	deadline := time.Now().Add(r.time)
	for {
		stopped := false
		page, err := r.c.VisitItems(ctx, request, func(item *engine.VisitedItem) (bool, error) {
			if request.IndexOnly {
				item.Body = anyDocument
			}
			more, err := visit(item)
			stopped = !more
			return more, err
		})
		r.charge += page.Charge
		r.metrics.looked += page.Documents
		r.metrics.looking += page.Bytes
		if err != nil {
			return "", err
		}
		if r.served == nil {
			r.served = page.Served
		}
		if stopped || page.Continuation == "" || !r.unhurried && time.Now().After(deadline) {
			return page.Continuation, nil
		}
		request.Again = request.Again && page.Continuation == request.Continuation
		request.Continuation = page.Continuation
	}
}

// maxSortMemory is the most that queryRun.sortMemory can be.
const maxSortMemory = 32 << 20

// sorted answers a query with ORDER BY: a page costs a scan of the range. The rows that OFFSET skips are counted in a scan of their own,
// which keeps their keys only.
func (r *queryRun) sorted(ctx context.Context) error {
	r.unhurried = true
	last := r.position.last
	if r.position.skip > 0 && last == nil {
		skipped, err := r.sort(ctx, int(min(r.position.skip, math.MaxInt32)), nil, false)
		if err != nil || int64(len(skipped)) < r.position.skip {
			return err
		}
		last = &skipped[len(skipped)-1].Position
	}
	n := r.allowed()
	if n <= 0 {
		return nil
	}
	rows, err := r.sort(ctx, n+1, last, true)
	if err != nil {
		return err
	}
	for i := range rows {
		if i == n || len(r.page) >= maxRowBytes {
			r.more = true
			break
		}
		r.take(rows[i].Row)
		last = &rows[i].Position
	}
	r.more = (r.more || r.shortened) && r.left() != 0
	r.next = queryPosition{ordered: true, left: r.left(), last: last}
	return nil
}

// sort returns the first rows behind a position, or only their places.
func (r *queryRun) sort(ctx context.Context, keep int, last *query.Position, whole bool) ([]query.SortedRow, error) {
	s := r.b.NewSorter(keep, last)
	var key []byte
	var (
		at      query.Position
		tooMuch error
	)
	visit := func() bool {
		row, ok := r.rows.Row()
		if !ok {
			return true
		}
		key = r.rows.OrderKey(key[:0])
		if !whole {
			row = nil
		}
		at.Key = key
		s.Add(at, row)
		at.Row++
		if s.Size() <= r.sortMemory {
			return true
		}
		if !whole {
			tooMuch = badRequest("OFFSET %d skips rows whose sort keys take more than %d bytes of memory: go on from the continuation "+
				"of a page instead (x-ms-continuation)", r.position.skip, r.sortMemory)
			return false
		}
		s.Shrink(r.sortMemory / 2)
		r.shortened = true
		return true
	}
	_, err := r.scan(ctx, func(item *engine.VisitedItem) (bool, error) {
		at = query.Position{Tie: documentNumber(item.Body)}
		if err := r.rows.Each(item.Body, visit); err != nil {
			return false, err
		}
		return true, tooMuch
	})
	if err != nil {
		return nil, fmt.Errorf("sort: %w", err)
	}
	return s.Rows(), nil
}
