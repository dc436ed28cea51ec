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
	// maxVisitBytes bounds the documents that one VisitItems reads.
	maxVisitBytes = 256 << 20
	// maxItemsTime bounds how long one page is worked on: a view of the store is held for as long.
	maxItemsTime = time.Second
	// clockEvery is how many index entries are looked at between two looks at the clock.
	clockEvery = 64
)

// ItemsRequest asks for a page of a container's items.
type ItemsRequest struct {
	// Key narrows to one logical partition key, or to a prefix of a hierarchical one.
	Key feed.PartitionKey
	// Range narrows to a range of effective partition keys, Partition to a
	// physical partition (*feed.GoneError: it is retired).
	Range     feed.Range
	Partition string
	// IDPrefix narrows to the items whose id begins with it. With a full Key only the index entries of
	// those are looked at; else the index entries, some 100 bytes each, of all items that the other
	// fields leave. No other item's document is read.
	IDPrefix string
	// Sets narrows to the items of any of these sets, in the same way: where all of them have a key, only the index entries
	// in them are looked at, one seek for each. Default: all items; an empty list is none.
	Sets []ItemSet
	// IndexOnly, of VisitItems: no document is read, and the items have no Body. A page costs what its index entries do.
	IndexOnly bool
	// Filter, of VisitItems, says which documents are visited at all: that is a lot faster than to visit all.
	// Who stops a visit pays for no document behind it.
	Filter *ItemFilter
	// AnyOrder, of VisitItems: a page's items are visited in the order in which they were written, and not in that of (effective
	// partition key, id), which is faster. Filter isn't asked. When visit returns false, the page ends, and has no continuation.
	AnyOrder bool
	// Continuation is that of the page before, or of an item on it; empty: from the start.
	Continuation string
	// Again has the page begin with the item that Continuation is behind, if it is still there.
	Again bool
	// MaxItems is how many items to return at most. Default: 100; of VisitItems: unbounded.
	MaxItems int
	// MaxBytes is after how many bytes of documents the page ends, at the earliest after one item.
	// Default: 4 MiB, and for VisitItems 256 MiB.
	MaxBytes int
	// MaxTime is after how much time the page ends. Default: 1 s.
	MaxTime time.Duration
}

// ItemsPage is a page of a container's items, in the order of (effective
// partition key, id).
type ItemsPage struct {
	// Items are empty on the page of VisitItems.
	Items []Item
	// Continuation is empty when there are no more items. A page that ended for its time may have one and no items.
	Continuation string
	// Charge is what the page cost, see [Result].
	Charge float64
	// Documents is how many documents it cost, and Bytes what they have in all.
	Documents, Bytes int
	// Served are the physical partitions that the request lies in, in the order of their ranges.
	Served []PartitionEnd
}

// VisitedItem is an item during a visit. It, and all slices of it, are valid during the call only.
type VisitedItem struct {
	// Body is the document with its system properties _rid, _self, _etag,
	// _attachments and _ts. It must not be changed. It is nil where the request is IndexOnly.
	Body []byte
	// ID is the item's, in UTF-8.
	ID []byte
	// LSN is the position of the write in the partition's feed.
	LSN int64

	c        *Container
	stamp    stamp
	position []byte
}

// Item is a copy to be kept.
func (v *VisitedItem) Item() Item {
	return Item{Body: bytes.Clone(v.Body), ETag: v.c.tail.etag(v.stamp), Modified: unixTime(v.stamp.ts), LSN: v.LSN}
}

// Continuation returns the position after the item, where a later request resumes.
func (v *VisitedItem) Continuation() string { return encodePosition(v.position) }

// Items returns a page of the items of a container. An item that exists from the first page
// to the last is returned exactly once, despite writes, splits and merges meanwhile. A page
// is read from one snapshot. Items returns a *feed.GoneError if Partition is not live, a
// *[BadRequestError], and a *feed.ThrottledError.
func (c *Container) Items(ctx context.Context, r ItemsRequest) (ItemsPage, error) {
	if r.MaxItems <= 0 {
		r.MaxItems = defaultMaxItems
	}
	if r.MaxBytes <= 0 {
		r.MaxBytes = maxPageBytes
	}
	return c.readItems(ctx, r, nil)
}

// VisitItems calls visit for the items of a container, in the order of Items, until it returns false or an error, or
// the page has its size; the next call goes on behind the last item visited. It allocates nothing for an item,
// and so is made for filters. What visit gets is valid during the call only. It must not call the store
// for long: a view is held open meanwhile. Its error is returned as it is.
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
		return ItemsPage{}, badRequest(BadContinuation, "%.60q is no position among items", r.Continuation)
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
		err = c.scanIndex(ctx, v, &sc, sets.intervals(), firstFrom(after, r.Again), w.look)
	}
	w.page.Charge = readCharge(w.bytes)
	if !r.IndexOnly {
		w.page.Documents, w.page.Bytes = w.items, w.bytes
	}
	c.bucket.spend(w.page.Charge)
	switch {
	case w.stopped != nil:
		return ItemsPage{}, w.stopped
	case errors.Is(err, errStopped): // as asked for
	case err != nil:
		return ItemsPage{}, fmt.Errorf("read items: %w", err)
	}
	w.page.Served = s.served(first, last)
	return w.page, nil
}

// itemScan makes one page of items.
type itemScan struct {
	c      *Container
	v      *view
	r      ItemsRequest
	prefix []byte
	sets   *itemSets
	ttl    int32 // the container's
	now    int64
	start  time.Time

	visit func(*VisitedItem) (bool, error)
	// stopped is visit's error.
	stopped error
	// item and buf are what visit gets.
	item VisitedItem
	buf  []byte
	key  []byte // of the log

	page ItemsPage
	// looked counts index entries, and items and bytes documents.
	looked, items, bytes int
	// last is the position of the last entry that was looked at.
	last []byte
}

// look takes one item into the page, unless it isn't asked for; more is false when the page is full.
func (w *itemScan) look(i *indexed) (more bool, err error) {
	if w.looked++; w.looked%clockEvery == 0 && time.Since(w.start) > w.r.MaxTime {
		return w.end()
	}
	if w.asked(i) {
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

// asked says whether an item is asked for.
func (w *itemScan) asked(i *indexed) bool {
	return bytes.HasPrefix(i.id(), w.prefix) && w.sets.hold(i) && !expired(i.ts, w.ttl, i.ttl, w.now)
}

// end ends the page behind the last entry looked at.
func (w *itemScan) end() (more bool, err error) {
	w.page.Continuation = encodePosition(w.last)
	return false, nil
}

// take reads an item's document, for the page or the visit.
func (w *itemScan) take(i *indexed) (more bool, err error) {
	if w.r.IndexOnly && w.visit != nil {
		w.bytes += len(i.key) + entrySize
		return w.show(i, nil)
	}
	if w.visit == nil {
		w.buf = make([]byte, 0, i.size) // it goes to the caller
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
	body, err := appendPublic(w.buf[:0], w.buf) // onto itself
	if err != nil {
		return false, w.c.db.fault(err)
	}
	w.bytes += len(body)
	return w.show(i, body)
}

// show lets visit see an item.
func (w *itemScan) show(i *indexed, body []byte) (more bool, err error) {
	w.item.Body, w.item.ID, w.item.LSN = body, i.id(), i.lsn
	w.item.stamp, w.item.position = i.stamp, i.rest
	more, w.stopped = w.visit(&w.item)
	return more && w.stopped == nil, nil
}

// firstFrom is the position that items are looked at from: at the one that they are behind, or right behind it.
func firstFrom(after []byte, again bool) []byte {
	if len(after) == 0 || again {
		return bytes.Clone(after)
	}
	return append(bytes.Clone(after), 0)
}

// encodePosition writes a position among items, a point and an id, as a text.
func encodePosition(rest []byte) string { return base64.RawURLEncoding.EncodeToString(rest) }
