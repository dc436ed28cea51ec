package engine

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
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
	// Key selects the items of a logical partition key, or of a prefix of a hierarchical
	// key.
	Key feed.PartitionKey
	// Range selects a range of effective partition keys. Partition is the ID of a live
	// physical partition and selects its items.
	Range     feed.Range
	Partition string
	// IDPrefix selects the items whose id begins with it. With a full Key, only the index
	// entries of those items are read. Otherwise the index entries of all items in the
	// selection are read, about 100 bytes each. Documents of other items are not read.
	IDPrefix string
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
	// AnyOrder makes VisitItems visit the items of a page in the order in which they were
	// written. That is faster than the order of effective partition key and id. Filter is
	// ignored. When visit returns false, the page ends without a continuation.
	AnyOrder bool
	// Continuation is the Continuation of the previous page, or of an item on it. If
	// empty, the first page is read.
	Continuation string
	// Again makes the page begin with the item at Continuation, if it still exists.
	// Otherwise the page begins after it.
	Again bool
	// MaxItems is the largest number of items to return. If zero, Items uses 100, and
	// VisitItems sets no limit.
	MaxItems int
	// MaxBytes is the size of documents, in bytes, after which the page ends. A page has
	// at least one item. If zero, Items uses 4 MiB, and VisitItems uses 256 MiB.
	MaxBytes int
	// MaxTime is the time after which the page ends. If zero, 1 s is used.
	MaxTime time.Duration
}

// ItemsPage is a page of a container's items, sorted by effective partition key and id.
type ItemsPage struct {
	// Items is empty on a page of VisitItems.
	Items []Item
	// Continuation is empty on the last page. A page that ended at MaxTime may have a
	// continuation and no items.
	Continuation string
	// Charge is the cost of the page in request units. See [Result].
	Charge float64
	// Documents is the number of documents that were charged. Bytes is their total size.
	Documents, Bytes int
	// Served has the physical partitions that the request covers, sorted by range.
	Served []PartitionEnd
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

	c        *Container
	stamp    stamp
	position []byte
}

// Item returns a copy of the item that remains valid after the visit.
func (v *VisitedItem) Item() Item {
	return Item{Body: bytes.Clone(v.Body), ETag: v.c.tail.etag(v.stamp), Modified: unixTime(v.stamp.ts), LSN: v.LSN}
}

// Continuation returns the position after the item, where a later request resumes.
func (v *VisitedItem) Continuation() string { return encodePosition(v.position) }

// Items returns a page of the items of a container, read from one snapshot. An item that
// exists from the first page to the last is returned exactly once. Writes, splits and
// merges between the pages do not change that.
//
// Items returns a *feed.GoneError if Partition is not live, a *[BadRequestError] if the
// request is not valid, and a *feed.ThrottledError if the provisioned throughput is used
// up.
func (c *Container) Items(ctx context.Context, r ItemsRequest) (ItemsPage, error) {
	if r.MaxItems <= 0 {
		r.MaxItems = defaultMaxItems
	}
	if r.MaxBytes <= 0 {
		r.MaxBytes = maxPageBytes
	}
	return c.readItems(ctx, r, nil)
}

// VisitItems calls visit for the items of a page, in the order of Items, until visit
// returns false or an error. It allocates nothing per item, so it suits filters. The
// argument of visit is valid only during the call. A snapshot stays open during the
// visit, so visit must return soon. An error of visit is returned unchanged. The returned
// page has no Items. Its Continuation is the position after the last visited item.
func (c *Container) VisitItems(ctx context.Context, r ItemsRequest, visit func(*VisitedItem) (more bool, err error)) (ItemsPage, error) {
	if r.MaxBytes <= 0 {
		r.MaxBytes = maxVisitBytes
	}
	return c.readItems(ctx, r, visit)
}

func (c *Container) readItems(ctx context.Context, r ItemsRequest, visit func(*VisitedItem) (bool, error)) (ItemsPage, error) {
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
	after, err := base64.RawURLEncoding.DecodeString(r.Continuation)
	if err != nil {
		return ItemsPage{}, badRequest(BadContinuation, "%.60q is not a position among items", r.Continuation)
	}
	if r.IDPrefix != "" && r.Sets == nil && sc.point != nil {
		r.Sets = []ItemSet{{Key: r.Key, From: r.IDPrefix, To: string(successor([]byte(r.IDPrefix)))}}
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
		c: c, v: v, r: r, visit: visit, prefix: []byte(r.IDPrefix), sets: sets,
		ttl: int32(s.meta.props.DefaultTTL), now: c.db.clock.seconds(), start: time.Now(),
	}
	w.item.c = c
	if visit != nil && !r.IndexOnly && (r.AnyOrder || r.Filter != nil) {
		err = w.visitInChunks(ctx, &sc, after)
	} else {
		err = c.scanIndex(ctx, v, &sc, sets.intervals(), firstFrom(after, r.Again), w.visitEntry)
	}
	w.page.Charge = readCharge(w.bytes)
	if !r.IndexOnly {
		w.page.Documents, w.page.Bytes = w.items, w.bytes
	}
	c.bucket.spend(w.page.Charge)
	switch {
	case w.stopped != nil:
		return ItemsPage{}, w.stopped
	case errors.Is(err, errStopped): // the visitor ended the visit
	case err != nil:
		return ItemsPage{}, fmt.Errorf("read items: %w", err)
	}
	w.page.Served = s.served(first, last)
	return w.page, nil
}

// itemScan reads one page of items.
type itemScan struct {
	c      *Container
	v      *view
	r      ItemsRequest
	prefix []byte
	sets   *itemSets
	ttl    int32 // the container's default time to live
	now    int64
	start  time.Time

	visit func(*VisitedItem) (bool, error)
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
	// last is the position, a point and an id, of the last index entry that was read.
	last []byte
}

// visitEntry handles one index entry. If the request selects the item, it adds the item
// to the page. more is false if the page has ended.
func (w *itemScan) visitEntry(i *indexed) (more bool, err error) {
	if w.looked++; w.looked%clockEvery == 0 && time.Since(w.start) > w.r.MaxTime {
		return w.end()
	}
	if w.matches(i) {
		if w.r.MaxItems > 0 && w.items >= w.r.MaxItems || w.items > 0 && w.bytes >= w.r.MaxBytes {
			return w.end()
		}
		w.items++
		more, err = w.take(i)
		w.last = append(w.last[:0], i.rest...)
		if err == nil && !more {
			return w.end()
		}
		return more, err
	}
	w.last = append(w.last[:0], i.rest...)
	return true, nil
}

// matches reports whether the request selects the item with index entry i. Expired items
// are not selected.
func (w *itemScan) matches(i *indexed) bool {
	return bytes.HasPrefix(i.id(), w.prefix) && w.sets.contains(i) && !expired(i.ts, w.ttl, i.ttl, w.now)
}

// end sets the page's continuation to the position of the last index entry that was read.
// Its result more is always false, which ends the scan.
func (w *itemScan) end() (more bool, err error) {
	w.page.Continuation = encodePosition(w.last)
	return false, nil
}

// take reads the document of index entry i. It adds the item to the page, or visits it if
// there is a visitor. more is false if the visitor wants no more items.
func (w *itemScan) take(i *indexed) (more bool, err error) {
	if w.r.IndexOnly && w.visit != nil {
		w.bytes += len(i.key) + entrySize
		return w.show(i, nil)
	}
	if w.visit == nil {
		w.buf = make([]byte, 0, i.size) // the caller keeps it
	}
	w.key = appendLogKey(w.key[:0], spaceLog, w.c.number, i.segment, i.lsn, i.ordinal)
	w.key = append(w.key, i.pointBytes()...)
	if w.buf, err = w.c.fetchKey(w.v.snap, w.buf[:0], w.key); err != nil {
		return false, err
	}
	if w.visit == nil {
		item, err := w.c.item(w.buf, i.stamp)
		if err != nil {
			return false, err
		}
		w.bytes += len(item.Body)
		w.page.Items = append(w.page.Items, item)
		return true, nil
	}
	body, err := appendPublic(w.buf[:0], w.buf) // in place
	if err != nil {
		return false, w.c.db.fault(err)
	}
	w.bytes += len(body)
	return w.show(i, body)
}

// show calls the visitor with an item. more is false if the visitor returned false or an
// error.
func (w *itemScan) show(i *indexed, body []byte) (more bool, err error) {
	w.item.Body, w.item.ID, w.item.LSN = body, i.id(), i.lsn
	w.item.stamp, w.item.position = i.stamp, i.rest
	more, w.stopped = w.visit(&w.item)
	return more && w.stopped == nil, nil
}

// firstFrom returns the lowest position at which a page may begin. If again is true, that
// is the position after itself. Otherwise it is the next higher one.
func firstFrom(after []byte, again bool) []byte {
	if len(after) == 0 || again {
		return bytes.Clone(after)
	}
	return append(bytes.Clone(after), 0)
}

// encodePosition encodes a position among items, which is a point and an id, as text.
func encodePosition(rest []byte) string { return base64.RawURLEncoding.EncodeToString(rest) }
