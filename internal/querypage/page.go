// Package querypage reads the rows of queries page by page. It does not depend on HTTP.
//
// # From text to rows
//
//	Cache.Bind -> New -> Page.Read -> scan -> engine.Container.VisitItems
//	           -> query.Rows.Each -> Page.add
//
// [Cache.Bind] parses the text and binds its parameters. [New] reads the continuation. It
// also selects the documents that the engine reads, by the partition keys and IDs in the
// condition. [Page.Read] reads the documents in one of three orders: their own
// (page_documents.go), the order of ORDER BY, or the order of the keys of groups
// (page_groups.go).
//
// A page ends after a number of rows, a number of bytes or a time. Its continuation is a
// position among documents or sort keys, so it stays valid over writes, splits and
// merges.
package querypage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/storetype"
)

// These are the limits of a page.
const (
	defaultRows = 100
	// maxRows is the size of a page if [Request.MaxRows] is -1. maxRowBytes may end the
	// page earlier.
	maxRows = 10_000
	// maxRowBytes is the largest size of a page's rows, in bytes. As in the service, an
	// answer has at most 4 MiB, and a kilobyte is left for the text around the rows. Only
	// a single row may exceed the limit, because it is a page.
	maxRowBytes = 4<<20 - 1<<10
	// maxTime limits the time for reading a page. Clients wait a few seconds for a
	// response, so a page ends then even if it has no rows.
	maxTime = 3 * time.Second
	// maxLookahead limits the number of documents that are visited after a full page to
	// find one more row. If there is none, the page has no continuation. If maxLookahead
	// ends the search, the next page may be empty.
	maxLookahead = 1000
	// MaxSortMemory is the default of [Request.SortMemory] and its maximum, in bytes.
	MaxSortMemory = 32 << 20
)

// Request represents a request for a page of a query's rows.
type Request struct {
	Container *engine.Container
	Query     *query.Bound
	// Key, Range and Partition select documents as the same fields of
	// [storetype.ItemsRequest] do.
	Key       feed.PartitionKey
	Range     feed.Range
	Partition string
	// MaxRows is the size of the page in rows. If zero, 100 is used. If -1, the page has
	// as many rows as fit into a response.
	MaxRows int
	// Continuation is the continuation of the previous page. It is empty for the first
	// page.
	Continuation string
	// Resume is the resumeFilter of the request, or nil. See resume.go.
	Resume json.RawMessage
	// SortMemory limits the memory of rows that are sorted or grouped, in bytes. If zero,
	// MaxSortMemory is used.
	SortMemory int
	// Time limits the time for reading the page. If zero, 3 s is used.
	Time time.Duration
}

// Page is a page of a query's rows. It is not safe for concurrent use.
type Page struct {
	// Rows holds the rows as JSON with commas between them. Count is their number.
	Rows  []byte
	Count int
	// Continuation is the continuation of the next page. It is empty if this page is the
	// last.
	Continuation string
	// Charge is the cost in request units. It is set even if Read fails, unless Read was
	// throttled before it began.
	Charge float64
	// Served lists the partitions that were read.
	Served []engine.PartitionEnd
	// Of is the partition that has the rows. It is zero if the rows may be of several.
	Of engine.PartitionEnd
	// Documents is the number of documents that were read, and Bytes is their size.
	Documents, Bytes int

	c          *engine.Container
	query      *query.Bound
	eval       *query.Rows
	shape      query.Shape
	cost       query.Cost // of the query as it was asked
	items      engine.ItemsRequest
	start      position
	binding    binding
	progress   progress // of the pages before this one
	maxRows    int
	sortMemory int
	time       time.Duration

	// anyOrder is true if the scan must visit all documents, so that it may visit them in
	// the fastest order.
	anyOrder bool
	// dropped reports whether rows of this page were dropped because they took too much
	// memory.
	dropped bool
	// late is true after the time limit of the page has passed.
	late bool
	// more is true if there is another page, which begins at the position next.
	more bool
	next position
}

// Error is a mistake of the client. Its text is the message of the response.
type Error struct {
	message string
	// compiled reports whether the message is JSON in the form of the query compiler.
	compiled bool
}

// Compiled reports whether the text is JSON in the form of the service's query compiler:
// {"errors":[...]} or {"Errors":[...]}.
func (e *Error) Compiled() bool { return e.compiled }

func (e *Error) Error() string { return e.message }

func badRequest(format string, args ...any) error {
	return &Error{message: fmt.Sprintf(format, args...)}
}

// New returns a page to be read with [Page.Read]. It returns an *[Error] if the request
// is invalid. ctx also limits [Page.Read].
func New(ctx context.Context, r Request) (*Page, error) {
	p := &Page{
		c: r.Container, query: r.Query, eval: r.Query.Rows().While(ctx.Err), shape: r.Query.Shape(), cost: r.Query.Cost(),
		items:   engine.ItemsRequest{ItemsRequest: storetype.ItemsRequest{Key: r.Key, Range: r.Range, Partition: r.Partition}},
		maxRows: r.MaxRows, sortMemory: r.SortMemory, time: r.Time,
	}
	switch {
	case p.maxRows == 0:
		p.maxRows = defaultRows
	case p.maxRows < 0 || p.maxRows > maxRows:
		p.maxRows = maxRows
	}
	if p.sortMemory == 0 {
		p.sortMemory = MaxSortMemory
	}
	if p.time == 0 {
		p.time = maxTime
	}
	if p.shape.GroupBy && len(p.shape.OrderBy) > 0 {
		// The service has plans for such queries, but nobody knows what it does with them.
		return nil, Refused(&syntax.UnsupportedError{What: "ORDER BY together with GROUP BY"})
	}
	if r.Key != nil && ConditionKey(r.Container, r.Query) == nil {
		p.cost.Lookups++ // the service filters by the key of the request as by a condition
	}
	p.selectItems(ctx)
	var err error
	p.start = startOf(p.shape)
	p.binding = bindingOf(ctx, p.c, &p.items, r.Query, p.start.ordered)
	if r.Continuation != "" && !p.binding.gone {
		if p.start, p.progress, err = p.binding.parse(r.Continuation); err != nil {
			return nil, err
		}
	}
	return p, p.resumeAt(r.Resume)
}

func (p *Page) rid() string { return p.c.Identity().ContainerRID }

// Sorts reports whether a query's rows come in the order of keys. Each page then needs a
// scan of all documents, and memory for the rows.
func Sorts(shape query.Shape) bool { return len(shape.OrderBy) > 0 || shape.Grouped }

// Descending reports whether the rows are sorted in descending order of their first key.
func (p *Page) Descending() bool { return len(p.shape.OrderBy) > 0 && p.shape.OrderBy[0].Descending }

// Read reads the page. Its errors are *[Error] and those of
// [engine.Container.VisitItems].
func (p *Page) Read(ctx context.Context) error {
	var err error
	switch {
	case p.shape.Grouped:
		err = p.readGroups(ctx)
	case len(p.shape.OrderBy) > 0:
		err = p.readSorted(ctx)
	default:
		err = p.readDocuments(ctx)
	}
	if errors.As(err, new(*feed.ThrottledError)) {
		p.Charge = 0 // the caller knows what such a query costs
		return err
	}
	if late := p.settle(); err == nil {
		err = late
	}
	if err == nil && p.more {
		p.Continuation, err = p.binding.token(p.next, progress{p.progress.pages + 1, p.progress.rows + int64(p.Count)})
	}
	if err == errLongSortKey { //nolint:errorlint // token returns the error unwrapped
		advice := "the page has the maximum size; return less of each item, limit the rows by a condition or LIMIT, or sort by a shorter value"
		if p.Count >= p.maxRows && p.maxRows < maxRows {
			advice = "read all rows in one page (x-ms-max-item-count: -1), or sort by a shorter value"
		}
		return badRequest("the sort key of the rows has more than %d bytes, which is too large for a continuation; %s", maxSortKey, advice)
	}
	return Refused(err)
}

// Charges of queries, in request units, as recorded of the service for pages of small rows:
//
//   - chargePage for a page
//   - chargeIndex for the first lookup in the index, and chargeLookup for each further one
//   - chargeRow for a row that is found without the index, and chargeFound for one that is found
//     by it. A row of aggregates costs nothing, because the index has what it needs.
//   - chargeStar for a row that is a whole document, and chargeMember for each member of the
//     select list after the first
//
// So of documents with small members, a condition on an ID costs 2.80 RU, and 2.82 with its row.
// A second value of IN makes it 2.92. COUNT of a range costs 2.89 and that of one key, which is a
// condition, 2.99.
const (
	chargePage   = 2.247
	chargeIndex  = 0.549
	chargeLookup = 0.0985
	chargeRow    = 0.01299
	chargeFound  = 0.0228
	chargeStar   = 0.001367
	chargeMember = 0.001923
)

// LeastCharge is the least charge of a page, in request units.
const LeastCharge = chargePage

// settle sets the charge of the page. It is the charge of the recorded formula. The documents
// that an unindexed condition reads and drops, and the size of large ones, are an estimate: they
// cost what it costs to read them. The scan has spent its own charge already. settle returns a
// *feed.ThrottledError if other requests have used up the throughput meanwhile.
func (p *Page) settle() error {
	charge := chargePage + p.rowCharge()*float64(p.chargedRows())
	if n := p.cost.Lookups; n > 0 && !p.shape.NoSource {
		charge += chargeIndex + chargeLookup*float64(n-1)
	}
	const kbOfReads = 11 // as many KB of documents cost a request unit
	kb, read := float64(p.Bytes)/(1<<10), float64(max(p.Documents, 1))
	returned := min(float64(p.Count), read)
	if p.cost.Unindexed {
		const freeKB = 4 // as much is left out, so that few small documents make no difference
		charge += max(0, kb*(read-returned)/read-freeKB) / kbOfReads
	} else {
		kb, read = kb*returned/read, returned // the service reads no others
	}
	if kb > read { // large documents
		charge = max(charge, kb/kbOfReads)
	}
	taken := p.Charge
	p.Charge = charge
	err := p.c.Settle(taken, charge)
	if err != nil {
		p.Charge = engine.ThrottledShare * charge
	}
	return err
}

// chargedRows returns the number of rows that cost something. Rows that a join makes of one
// document cost as much as one.
func (p *Page) chargedRows() int {
	switch {
	case p.shape.NoSource, len(p.shape.Aggregates) > 0 && !p.shape.GroupBy:
		return 0
	case p.shape.Several:
		return min(p.Count, p.Documents)
	}
	return p.Count
}

// rowCharge returns the charge of one row.
func (p *Page) rowCharge() float64 {
	row := chargeRow
	if p.cost.Lookups > 0 {
		row = chargeFound
	}
	if p.shape.SelectAll {
		row += chargeStar
	}
	return row + chargeMember*float64(max(p.cost.Members-1, 0))
}

// room returns the number of rows that can still be added to the page, considering its
// size, TOP and LIMIT.
func (p *Page) room() int {
	n := p.maxRows - p.Count
	if p.start.limit >= 0 {
		n = int(min(int64(n), p.start.limit-int64(p.Count)))
	}
	return n
}

func (p *Page) isFull() bool { return p.room() <= 0 || len(p.Rows) >= maxRowBytes }

// fits reports whether the page, with the row added, has at most the size of a page.
func (p *Page) fits(row []byte) bool {
	return p.Count == 0 || len(p.Rows)+len(",")+len(row) <= maxRowBytes
}

// add appends the JSON of a row to the page.
func (p *Page) add(row []byte) {
	const small = 256 // append alone would get there in several steps
	switch {
	case p.Count > 0:
		p.Rows = append(p.Rows, ',')
	case len(row) < small:
		p.Rows = make([]byte, 0, small)
	}
	p.Rows = append(p.Rows, row...)
	p.Count++
}

// limitLeft returns the number of rows that TOP and LIMIT allow for the following pages.
// It returns -1 if the query has neither.
func (p *Page) limitLeft() int64 {
	if p.start.limit < 0 {
		return -1
	}
	return max(p.start.limit-int64(p.Count), 0)
}

// emptyDocument is evaluated in place of each document if the rows of the query do not
// depend on the documents.
var emptyDocument = []byte(`{}`)

// scan calls visit for the selected documents in the order of [storetype.ItemsPage]. It stops
// when visit returns false, when the time of the page has passed, and at the end of a
// physical partition if the page has rows, because a page never spans two. But if the page
// is full, the scan goes on to find out whether there are more rows. after is the position
// after the last visited document, or empty if no documents remain. With p.anyOrder the
// order is undefined, neither time nor a partition ends the scan, and visit must always
// return true.
func (p *Page) scan(ctx context.Context, visit func(*engine.VisitedItem) (more bool, err error)) (after string, err error) {
	if p.shape.NoSource {
		if err := p.locate(ctx); err != nil {
			return "", err
		}
		_, err := visit(&engine.VisitedItem{Body: emptyDocument})
		return "", err
	}
	items := p.items
	items.Continuation, items.Again, items.AnyOrder = p.start.after, p.start.within, p.anyOrder
	deadline := time.Now().Add(p.time)
	for {
		stopped, first := false, p.Count == 0
		part, err := p.c.VisitItems(ctx, items, func(item *engine.VisitedItem) (bool, error) {
			if items.IndexOnly {
				item.Body = emptyDocument
			}
			items.Again = false // the next part begins after this document
			more, err := visit(item)
			stopped = !more
			return more, err
		})
		p.Charge += part.Charge
		p.Documents += part.Documents
		p.Bytes += part.Bytes
		if err != nil {
			return "", err
		}
		if p.Served == nil {
			p.Served = part.Served
		}
		if first { // rows from before this part are of the partition before, if another has begun
			p.Of = part.Of
		}
		ends := part.PartitionEnd && p.Count > 0 && !p.isFull()
		if stopped || part.Continuation == "" || !p.anyOrder && (ends || time.Now().After(deadline)) {
			return part.Continuation, nil
		}
		items.Continuation = part.Continuation
	}
}

// locate finds the partition for a query that reads no documents. It fails if the selected one
// does not exist.
func (p *Page) locate(ctx context.Context) error {
	items := p.items
	items.Sets = []engine.ItemSet{} // none
	none, err := p.c.VisitItems(ctx, items, func(*engine.VisitedItem) (bool, error) { return false, nil })
	if err != nil {
		return fmt.Errorf("locate: %w", err)
	}
	p.Served = none.Served[:1]
	p.Of = p.Served[0]
	return nil
}

// readSorted reads a page of a query with ORDER BY. It scans all selected documents and
// keeps the first rows after the position. If OFFSET skips rows, a first scan finds the
// last skipped row, and keeps only sort keys.
func (p *Page) readSorted(ctx context.Context) error {
	p.anyOrder = true
	last := p.start.last
	if p.start.offset > 0 && last == nil {
		skipped, err := p.sort(ctx, int(min(p.start.offset, math.MaxInt32)), nil, false)
		if err != nil || int64(len(skipped)) < p.start.offset {
			return err
		}
		last = &skipped[len(skipped)-1].Position
	}
	n := p.room()
	if n <= 0 {
		return nil
	}
	rows, err := p.sort(ctx, n+1, last, true)
	if err != nil {
		return err
	}
	for i := range rows {
		if i == n || !p.fits(rows[i].Row) {
			p.more = true
			break
		}
		p.add(rows[i].Row)
		last = &rows[i].Position
	}
	p.more = (p.more || p.dropped) && p.limitLeft() != 0
	p.next = position{ordered: true, limit: p.limitLeft(), last: last}
	return nil
}

// sort scans the documents and returns the first keep rows after the position last. If
// whole is false, it returns only their positions.
func (p *Page) sort(ctx context.Context, keep int, last *query.Position, whole bool) ([]query.SortedRow, error) {
	s := p.query.NewSorter(keep, last)
	var (
		at      query.Position
		key     []byte
		tooMuch error
	)
	visit := func() bool {
		row, ok := p.eval.Row()
		if !ok {
			return true
		}
		key = p.eval.OrderKey(key[:0])
		if !whole {
			row = nil
		}
		at.Key = key
		s.Add(at, row)
		at.Row++
		if s.Size() <= p.sortMemory {
			return true
		}
		if !whole {
			tooMuch = badRequest("OFFSET %d skips rows whose sort keys take more than %d bytes of memory; continue from the continuation "+
				"of a page instead (x-ms-continuation)", p.start.offset, p.sortMemory)
			return false
		}
		s.Shrink(p.sortMemory / 2)
		p.dropped = true
		return true
	}
	_, err := p.scan(ctx, func(item *engine.VisitedItem) (bool, error) {
		at = query.Position{Tie: documentNumber(item.Body)}
		if err := p.eval.Each(item.Body, visit); err != nil {
			return false, err
		}
		return true, tooMuch
	})
	if err != nil {
		return nil, fmt.Errorf("sort: %w", err)
	}
	return s.Rows(), nil
}
