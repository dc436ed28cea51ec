package querypage

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
)

// documentPage is the state of reading a page whose rows come in the order of the
// documents.
type documentPage struct {
	*Page
	// full is the position after the last row, once the page is full. hasNext is true if
	// another row follows it.
	full    *position
	hasNext bool
	// lookahead is the number of documents that may still be visited, after the page is
	// full, to find another row. offset is the number of rows that OFFSET still skips.
	lookahead int
	offset    int64
	// If a document makes several rows, a page may begin and end among them. resume is
	// the number of rows of the first document that earlier pages returned. It is 0 after
	// that document. before is the position before the current document. passed reports
	// whether this page visited documents before the current one.
	before string
	resume uint64
	passed bool

	// item is the current document, and number is its number. row counts its rows so far.
	// answered counts its rows that earlier pages returned. ended reports whether the
	// page became full within the document. more reports whether the scan continues.
	item                  *engine.VisitedItem
	number, row, answered uint64
	ended, more           bool
}

// readDocuments reads a page whose rows come in the order of the documents. When the page
// is full, it looks for one more row. If there is none, the page is the last and has no
// continuation.
func (p *Page) readDocuments(ctx context.Context) error {
	if p.room() <= 0 {
		return nil
	}
	d := &documentPage{Page: p, lookahead: maxLookahead, offset: p.start.offset, before: p.start.after, resume: p.start.rows}
	if p.items.Filter != nil && !p.shape.Several {
		// Each document makes one row. One more means that there is a next page.
		p.items.Filter.Enough = int(min(int64(p.room())+d.offset+1, math.MaxInt32))
	}
	d.limitTime(ctx)
	visit := d.visitRow
	after, err := p.scan(ctx, func(item *engine.VisitedItem) (bool, error) { return d.visitDocument(item, visit) })
	if err != nil || after == "" && !d.hasNext || p.limitLeft() == 0 {
		return err
	}
	p.more, p.next = true, position{after: after}
	if d.hasNext {
		p.next = *d.full
	}
	if p.start.within && p.next.after == p.start.after && p.Documents == 0 {
		p.next.within, p.next.document, p.next.rows = true, p.start.document, p.start.rows // no document was visited
	}
	p.next.limit, p.next.offset = p.limitLeft(), d.offset
	return nil
}

// errPageTime ends the evaluation of a document when the time limit of the page has
// passed.
var errPageTime = errors.New("the page's time is up")

// limitTime ends the page when its time has passed. Between two documents that is always
// possible. Within a document it is possible if the next page can continue there: after a
// row, or before the document if the page has visited others. Otherwise the evaluation
// continues, as long as package query permits. So no page ends where it began, however
// long the joins of a document take.
func (d *documentPage) limitTime(ctx context.Context) {
	end := time.Now().Add(d.time)
	d.eval.While(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if d.late = d.late || !time.Now().Before(end); d.late && d.canEndWithin() {
			return errPageTime
		}
		return nil
	})
}

// canEndWithin reports whether the page can end within the current document and still
// make progress: the next page must begin after the position at which this one began.
func (d *documentPage) canEndWithin() bool {
	// If the page is full, the scan only looks for another row, so it can end anywhere.
	return d.full != nil || d.shape.Several && (d.row > d.answered || d.passed)
}

// visitRow handles one row of the current document: it skips it, adds it, or ends the
// page. It returns false to end the document.
func (d *documentPage) visitRow() (more bool) {
	row, ok := d.eval.Row()
	if !ok {
		return true
	}
	d.row++
	switch {
	case d.row <= d.answered:
		return true
	case d.full != nil:
		d.hasNext, d.more = true, false
		return false
	case d.offset > 0:
		d.offset--
		return true
	}
	if !d.fits(row) {
		d.row--
		d.full, d.hasNext, d.more = d.within(), true, false
		return false
	}
	d.add(row)
	if d.limitLeft() == 0 {
		d.more = false
		return false
	}
	if d.isFull() {
		d.full, d.ended = d.within(), true
	}
	return true
}

// visitDocument evaluates the next document of the scan. visit is d.visitRow. It returns
// false to end the scan.
func (d *documentPage) visitDocument(item *engine.VisitedItem, visit func() bool) (more bool, err error) {
	d.item, d.row, d.answered, d.ended, d.more = item, 0, 0, false, true
	if d.shape.Several {
		if d.number = documentNumber(item.Body); d.number == d.start.document {
			d.answered = d.resume
		}
		d.resume = 0
	}
	switch err := d.eval.Each(item.Body, visit); {
	case errors.Is(err, errPageTime):
		d.endWithin()
		return false, nil
	case err != nil || !d.more:
		return false, err
	}
	switch {
	case d.ended || d.full == nil && d.isFull():
		d.full = &position{after: item.Continuation()} // the document has no more rows
	case d.full != nil:
		d.lookahead--
	case d.shape.Several:
		d.before, d.passed = item.Continuation(), true
	}
	return d.lookahead > 0 && !d.late, nil
}

// within returns the position after the last row so far of the current document.
func (d *documentPage) within() *position {
	return &position{after: d.item.Continuation(), within: true, document: documentNumber(d.item.Body), rows: d.row}
}

// endWithin ends the page at the current row of the current document.
func (d *documentPage) endWithin() {
	d.hasNext = true
	switch {
	case d.full != nil:
	case d.row > 0:
		d.full = d.within()
	default:
		d.full = &position{after: d.before}
	}
}
