package server

import (
	"context"
	"errors"
	"math"

	"github.com/changefeed-go/changefeed/internal/engine"
)

// A page whose rows come in the order of the documents.

// place is where the page after this one may begin: after a document, or, where done isn't 0, behind so many rows of that one, whose number is of.
type place struct {
	after    string
	of, done uint64
}

// scanned is such a page while the documents are gone through.
type scanned struct {
	*queryRun
	// full is the place behind a full page's last row; next tells that there is a row behind it.
	full *place
	next bool
	// peek is how many documents are looked at yet behind a full page; skip, how many rows OFFSET skips yet.
	peek int
	skip int64
	// Where a document makes several rows, a page may begin and end among them. The one that it begins in is the first that is looked at, if it is
	// still there and asked for: resume, the rows of it that earlier pages had, is 0 behind the first.
	// before is the place behind the document before the one that is looked at, if passed tells that there was one on this page.
	before string
	resume uint64
	passed bool

	// Of the document that is looked at: its place, its number, the rows that it made so far, how many of them earlier pages had, whether the page
	// ended with one, and whether to go on.
	item                  *engine.VisitedItem
	number, row, answered uint64
	ended, more           bool
}

// inOrder answers a query whose rows come in the order of the documents. When the page is full it looks for one more row:
// without any, this page is the last, and clients need not ask for an empty one.
func (r *queryRun) inOrder(ctx context.Context) error {
	if r.allowed() <= 0 {
		return nil
	}
	p := &scanned{queryRun: r, peek: maxPeek, skip: r.position.skip, before: r.position.after, resume: r.position.done}
	if r.request.Filter != nil && !r.shape.Several {
		// A document makes a row. One more tells that there is a next page.
		r.request.Filter.Enough = int(min(int64(r.allowed())+p.skip+1, math.MaxInt32))
	}
	r.hurry(ctx, p.canEndWithin)
	visit := p.visitRow
	after, err := r.scan(ctx, func(item *engine.VisitedItem) (bool, error) { return p.visitDocument(item, visit) })
	if err != nil || after == "" && !p.next || r.left() == 0 {
		return err
	}
	at := place{after: after}
	if p.next {
		at = *p.full
	}
	if p.resume > 0 && at.after == r.position.after && r.metrics.looked == 0 {
		at.of, at.done = r.position.of, p.resume // no item was looked at yet
	}
	r.more = true
	r.next = queryPosition{left: r.left(), skip: p.skip, after: at.after, of: at.of, done: at.done}
	return nil
}

func (p *scanned) isFull() bool { return p.allowed() <= 0 || len(p.page) >= maxRowBytes }

// visitRow looks at the row that the document has just made.
func (p *scanned) visitRow() (more bool) {
	raw, ok := p.rows.Row()
	if !ok {
		return true
	}
	p.row++
	switch {
	case p.row <= p.answered:
		return true
	case p.full != nil:
		p.next, p.more = true, false
		return false
	case p.skip > 0:
		p.skip--
		return true
	}
	p.take(raw)
	if p.left() == 0 {
		p.more = false
		return false
	}
	if p.isFull() {
		p.full, p.ended = p.within(), true
	}
	return true
}

// visitDocument looks at the next document; visit is visitRow.
func (p *scanned) visitDocument(item *engine.VisitedItem, visit func() bool) (more bool, err error) {
	p.item, p.row, p.answered, p.ended, p.more = item, 0, 0, false, true
	if p.shape.Several {
		if p.number = documentNumber(item.Body); p.number == p.position.of {
			p.answered = p.resume
		}
		p.resume = 0
	}
	switch err := p.rows.Each(item.Body, visit); {
	case errors.Is(err, errPageTime):
		p.endWithin()
		return false, nil
	case err != nil || !p.more:
		return false, err
	}
	switch {
	case p.ended || p.full == nil && p.isFull():
		p.full = &place{after: item.Continuation()} // it had no more rows
	case p.full != nil:
		p.peek--
	case p.shape.Several:
		p.before, p.passed = item.Continuation(), true
	}
	return p.peek > 0 && !p.late, nil
}

// canEndWithin says whether the page can end within the document that is looked at, so that the next one begins behind
// the place where this one did.
func (p *scanned) canEndWithin() bool {
	switch {
	case p.full != nil: // what is open is only whether there is another row
		return true
	case !p.shape.Several:
		return false
	}
	return p.row > p.answered || p.passed
}

// within is the place behind the last row of the document that is looked at.
func (p *scanned) within() *place {
	return &place{after: p.item.Continuation(), of: p.number, done: p.row}
}

// endWithin ends the page within the document that is looked at.
func (p *scanned) endWithin() {
	p.next = true
	switch {
	case p.full != nil:
	case p.row > 0:
		p.full = p.within()
	default:
		p.full = &place{after: p.before}
	}
}
