package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// Limits of a page of items.
const (
	// maxVisitBytes bounds the documents that one VisitItems reads, in bytes.
	maxVisitBytes = 256 << 20
	// maxItemsTime bounds the time for one page, because a view stays open for that time.
	maxItemsTime = time.Second
	// clockEvery is the number of index entries between two reads of the clock.
	clockEvery = 64
)

// ItemsRequest selects the items of a page and the size of the page. The zero value
// selects all items of the container.
type ItemsRequest struct {
	storetype.ItemsRequest
	// Sets selects the items of any of these sets. If every set has a key, only the index
	// entries in the sets are read, with one seek for each set. If nil, all items are
	// selected. An empty list selects none.
	Sets []ItemSet
	// IndexOnly makes VisitItems read no documents. The items then have no Body. A page
	// costs as much as its index entries.
	IndexOnly bool
	// Filter selects the documents that VisitItems visits. That is much faster than a
	// visit to all documents. Documents after an early stop are not charged.
	Filter *ItemFilter
	// AnyOrder makes VisitItems visit the items of a page in the order that is fastest. A
	// page may then span partitions. Filter is ignored. When visit returns false, the page
	// ends without a continuation. All pages of a request must have the same value.
	AnyOrder bool
	// Again makes the page begin with the item at Continuation, if it still exists.
	// Otherwise the page begins after it. Here Continuation may also be that of an item.
	Again bool
}

// ItemsPage is a page of a container's items, with what the server tells of it.
type ItemsPage struct {
	storetype.ItemsPage
	// PartitionEnd reports whether the page ended because its partition has no more items.
	PartitionEnd bool
	// Documents is the number of documents that were charged. Bytes is their total size.
	Documents, Bytes int
	// Served has the physical partitions that the request covers, sorted by range.
	Served []PartitionEnd
	// Of is the partition that has the page's items, or the last one that was read if there are
	// none. It is zero with AnyOrder.
	Of PartitionEnd
}

// VisitedItem is an item during a visit. The item and all of its slices are valid only
// during the call.
type VisitedItem struct {
	// Body is the document with its system properties _rid, _self, _etag, _attachments
	// and _ts. It must not be changed. It is nil if the request is IndexOnly.
	Body []byte
	// ID is the id of the item, in UTF-8.
	ID []byte
	// LSN is the position of the write in the partition's feed.
	LSN int64

	c     *Container
	stamp layout.Stamp
	// part and point give the item's position.
	part  *itemPart
	point []byte
}

// Item returns a copy of the item that remains valid after the visit.
func (v *VisitedItem) Item() storetype.Item {
	return storetype.Item{Body: bytes.Clone(v.Body), ETag: v.c.tail.ETag(v.stamp), Modified: unixTime(v.stamp.TS), LSN: v.LSN}
}

// Continuation returns the position after the item, where a later request resumes. It is
// empty with AnyOrder.
func (v *VisitedItem) Continuation() string {
	if v.part == nil {
		return ""
	}
	return v.part.after(v.point, v.stamp.Number).encode()
}

// Items implements store.Container.Items, which documents it.
func (c *Container) Items(ctx context.Context, r ItemsRequest) (ItemsPage, error) {
	if r.MaxItems <= 0 {
		r.MaxItems = defaultMaxItems
	}
	if r.MaxBytes <= 0 {
		r.MaxBytes = maxPageBytes
	}
	var items []storetype.Item
	page, err := c.readItems(ctx, r, true, func(v *VisitedItem) (bool, error) {
		items = append(items, v.Item())
		return true, nil
	})
	page.Items = items
	return page, err
}

// VisitItems implements store.Container.VisitItems, which documents it.
func (c *Container) VisitItems(ctx context.Context, r ItemsRequest, visit func(*VisitedItem) (more bool, err error)) (ItemsPage, error) {
	if r.MaxBytes <= 0 {
		r.MaxBytes = maxVisitBytes
	}
	return c.readItems(ctx, r, false, visit)
}

// readItems visits the items of a page. If strict is true, their documents take at most
// MaxBytes. Otherwise, the page ends after the document that reaches MaxBytes.
func (c *Container) readItems(ctx context.Context, r ItemsRequest, strict bool, visit func(*VisitedItem) (bool, error)) (ItemsPage, error) {
	if err := c.admit(ctx); err != nil {
		return ItemsPage{}, err
	}
	if r.MaxTime <= 0 {
		r.MaxTime = maxItemsTime
	}
	sc, err := c.newKeyFilter(r.Range, r.Key)
	if err != nil {
		return ItemsPage{}, err
	}
	at, after, err := r.readPosition()
	if err != nil {
		return ItemsPage{}, err
	}
	if r.IDPrefix != "" && r.Sets == nil && sc.point != nil {
		r.Sets = []ItemSet{{Key: r.Key, From: r.IDPrefix, To: string(layout.Successor([]byte(r.IDPrefix)))}}
	}
	sets, err := c.newItemSets(r.Sets)
	if err != nil {
		return ItemsPage{}, err
	}
	v, s, err := c.open(ctx)
	if err != nil {
		return ItemsPage{}, err
	}
	defer v.release()
	first, last, err := sc.partitionsIn(s.meta, r.Partition)
	if err != nil {
		return ItemsPage{}, err
	}
	if r.Partition != "" {
		sc.narrow(s.meta.partitions[first])
	}
	w := itemScan{
		c: c, v: v, m: s.meta, sc: &sc, r: r, strict: strict, visit: visit, prefix: []byte(r.IDPrefix), sets: sets,
		ttl: int32(s.meta.props.DefaultTTL), now: c.db.clock.seconds(), start: time.Now(),
	}
	w.item.c = c
	switch {
	case !r.AnyOrder:
		err = w.visitInOrder(ctx, at)
	case r.IndexOnly:
		err = c.scanIndex(ctx, v, &sc, sets.intervals(), nextFrom(after), w.visitEntry)
	default:
		err = w.visitInAnyOrder(ctx, after)
	}
	w.page.Charge = readCharge(w.bytes)
	if !r.IndexOnly {
		w.page.Documents, w.page.Bytes = w.items, w.bytes
	}
	c.spend(w.page.Charge)
	switch {
	case w.stopped != nil:
		return ItemsPage{}, w.stopped
	case errors.Is(err, errStopped): // the visitor ended the visit
	case err != nil:
		return ItemsPage{}, fmt.Errorf("read items: %w", err)
	}
	w.page.Served = s.served(first, last)
	for i, p := range s.meta.partitions[first : last+1] {
		if p == w.of || first == last {
			w.page.Of = w.page.Served[i]
		}
	}
	return w.page, nil
}

// itemScan reads one page of items.
type itemScan struct {
	c      *Container
	v      *view
	m      *meta
	sc     *keyFilter
	r      ItemsRequest
	strict bool
	prefix []byte
	sets   *itemSets
	ttl    int32 // the container's default time to live
	now    int64
	start  time.Time

	visit func(*VisitedItem) (bool, error)
	// of is the partition whose items the page has, once it is known.
	of *partition
	// stopped is the error that visit returned.
	stopped error
	// item is the argument of visit. buf has the memory of its Body.
	item VisitedItem
	buf  []byte
	key  []byte // memory for the log key of a document

	page ItemsPage
	// looked is the number of index entries that the page has read. items is the number
	// of its documents, and bytes their size.
	looked, items, bytes int
	// last is the position, a point and an id, of the last entry that visitEntry got. In
	// readNames it is only the point.
	last []byte
}

// isLate counts one more entry that was read. It reports whether the page's MaxTime has
// passed.
func (w *itemScan) isLate() bool {
	w.looked++
	return w.looked%clockEvery == 0 && time.Since(w.start) > w.r.MaxTime
}

// isFull reports whether the page ends before a document of size bytes. Before that one,
// the page has items documents of the given number of bytes.
func (w *itemScan) isFull(items, bytes, size int) bool {
	switch {
	case items == 0:
		return false
	case w.strict:
		return bytes+items*len(comma)+size > w.r.MaxBytes
	}
	return bytes >= w.r.MaxBytes
}

// selects reports whether the request selects the item with a point and an id, unless it
// has expired.
func (w *itemScan) selects(rest []byte, at int) bool {
	return bytes.HasPrefix(rest[at:], w.prefix) && w.sets.contains(rest, at)
}

func (w *itemScan) isExpired(e *layout.Entry) bool { return layout.Expired(e.TS, w.ttl, e.TTL, w.now) }

// visitEntry visits an item in the order of the index, without its document. more is
// false if the page has ended.
func (w *itemScan) visitEntry(i *indexed) (more bool, err error) {
	late := w.isLate()
	wanted := !late && w.selects(i.rest, i.at) && !w.isExpired(&i.Entry)
	if late || wanted && (w.r.MaxItems > 0 && w.items >= w.r.MaxItems || w.isFull(w.items, w.bytes, 0)) {
		w.page.Continuation = encodeIndexPosition(w.last)
		return false, nil
	}
	w.last = append(w.last[:0], i.rest...)
	if !wanted {
		return true, nil
	}
	w.items++
	w.bytes += len(i.key) + layout.EntrySize
	return w.show(nil, &i.Entry, i.pointBytes(), i.id(), nil)
}

// show calls the visitor with an item of a part, or of none with AnyOrder. more is false
// if the visitor returned false or an error.
func (w *itemScan) show(part *itemPart, e *layout.Entry, point, id, body []byte) (more bool, err error) {
	w.item.Body, w.item.ID, w.item.LSN = body, id, e.LSN
	w.item.stamp, w.item.part, w.item.point = e.Stamp, part, point
	more, w.stopped = w.visit(&w.item)
	return more && w.stopped == nil, nil
}

// nextFrom returns the lowest position in the index after the given one.
func nextFrom(after []byte) []byte {
	if len(after) == 0 {
		return nil
	}
	return append(bytes.Clone(after), 0)
}
