package engine

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/internal/layout"
)

// A page's order says which items come next, but their index entries and their documents
// are elsewhere: the index is sorted by hashed keys and ids, and the log by time. If a scan
// looked them up one by one, each would be in another block, which would be read and
// decompressed for that item alone. So a scan works in chunks. It collects names (points
// and ids) in the order of the page, looks up their entries in the order of the index, and
// reads the documents in the order of the log. It keeps the documents that pass the filter
// and visits them in the order of the page.

// Bounds of a chunk.
const (
	// firstChunk is the size of the first chunk in documents. maxChunk limits every
	// chunk. Chunks grow while few documents pass the filter. A page that is full after a
	// hundred rows needs no larger chunk. An entry takes about 100 bytes.
	firstChunk = 128
	maxChunk   = 128 << 10
	chunkGrows = 8
	// secondChunk is the largest size of the second chunk. Its duration limits the size
	// of the next one. Small chunks look up each of their items in the index, which costs
	// several times as much for an item as in a large chunk.
	secondChunk = 1024
	// maxChunkNames bounds the points and ids of a chunk, in bytes. The chunk ends after
	// the entry that reaches it.
	maxChunkNames = 8 << 20
	// maxKept is the largest total size in bytes of the documents that a chunk keeps in
	// memory after the filter. Documents beyond it are read again when they are visited.
	maxKept = 4 << 20
)

// chunkScan reads the documents of a scan in chunks.
type chunkScan struct {
	w     *itemScan
	chunk []collected
	// order has the positions of the chunk's documents, sorted in the order of the log.
	// spare is memory for that sort. sorted has items of the chunk, sorted by their names,
	// and numbers is memory for sorted numbers.
	order, spare []logAddress
	sorted       []sortedName
	numbers      []uint32
	// names has the points and ids of the chunk, one after the other.
	names []byte
	// readers read the documents of a chunk, one in each goroutine. hits are the
	// documents that passed the filter, in the order of the chunk.
	readers []*chunkReader
	hits    []hit
	// pace is the time per document, in nanoseconds, that the fastest chunk took. Slower
	// chunks may have been delayed by other work on the machine.
	pace float64
	// judged is the number of documents that the filter evaluated. passed is the number
	// that passed.
	judged, passed int
	// part is the part of the order that the chunk belongs to, and at the position after
	// the last name that was read. With AnyOrder, after has the latter.
	part  itemPart
	at    itemPosition
	after []byte
	// more reports whether there are items after the chunk. ended reports whether they are
	// in another partition, late whether the page's MaxTime has passed, and full whether
	// their documents do not fit on the page.
	more, ended, late, full bool
	// again reports whether the page begins with the item that at follows.
	again bool
	// set has the items of the request's sets in this part, unless they are too many.
	set *sortedSet
}

// collected is the index entry of an item in a chunk, before its document is read.
type collected struct {
	layout.Entry
	rest, end uint32 // the offsets of the point and id in chunkScan.names
}

// hit is an item of a chunk whose document passed the filter. index is its index in the
// chunk.
type hit struct {
	index uint32
	body  []byte // nil if the document was not kept and must be read again
}

// newChunkScan returns a chunkScan. It reuses the large memory of a finished scan if
// possible. The store itself keeps that memory for one scan, because a sync.Pool often
// lost it between two pages.
func (w *itemScan) newChunkScan() *chunkScan {
	b := w.c.db.scan.Swap(nil)
	if b == nil {
		b = &chunkScan{}
	}
	b.w, b.pace = w, math.Inf(1)
	return b
}

// free stores the scan's memory in the store, for the next scan.
func (b *chunkScan) free() {
	for _, r := range b.readers {
		r.reset()
	}
	clear(b.hits)
	db := b.w.c.db
	*b = chunkScan{
		chunk: b.chunk[:0], order: b.order[:0], spare: b.spare[:0], sorted: b.sorted[:0],
		numbers: b.numbers[:0], names: b.names[:0], hits: b.hits[:0], readers: b.readers,
	}
	db.scan.Store(b)
}

// visitInOrder visits the items of a page after a position, in the order of the page.
func (w *itemScan) visitInOrder(ctx context.Context, at itemPosition) error {
	b := w.newChunkScan()
	defer b.free()
	b.at, b.again = at, w.r.Again && at.last() > 0
	for size := firstChunk; ; {
		if w.r.MaxItems > 0 {
			size = min(size, w.r.MaxItems-w.items)
		}
		began := time.Now()
		if err := b.collect(ctx, size); err != nil {
			return err
		}
		if p := b.part.partition; p != nil && (w.of == nil || w.items == 0) {
			w.of = p
		}
		if !w.r.IndexOnly {
			if err := b.read(ctx); err != nil {
				return err
			}
		}
		took := time.Since(began)
		if stopped, err := b.show(); err != nil || stopped {
			return err
		}
		left := w.r.MaxTime - time.Since(w.start)
		switch {
		case !b.more:
			return nil
		case b.ended || b.late || b.full || w.r.MaxItems > 0 && w.items >= w.r.MaxItems || w.bytes >= w.r.MaxBytes || left <= 0:
			w.page.Continuation, w.page.PartitionEnd = b.at.encode(), b.ended
			return nil
		}
		size = b.nextSize(size)
		if n := len(b.chunk); n > 0 && took > 0 {
			// A chunk is never interrupted, so its size is limited to the remaining time.
			b.pace = min(b.pace, float64(took)/float64(n))
			size = min(size, max(int(float64(left)/b.pace), 1))
		}
	}
}

// visitInAnyOrder visits the items of a page after an index position, in the order of the
// log within each chunk.
func (w *itemScan) visitInAnyOrder(ctx context.Context, after []byte) error {
	b := w.newChunkScan()
	defer b.free()
	b.after = bytes.Clone(after)
	for {
		if err := b.collectAny(ctx); err != nil {
			return err
		}
		if err := b.read(ctx); err != nil || !b.more {
			return err
		}
		if b.late || w.bytes >= w.r.MaxBytes || time.Since(w.start) > w.r.MaxTime {
			w.page.Continuation = encodeIndexPosition(b.after)
			return nil
		}
	}
}

// nextSize returns the number of documents for the next chunk. It depends on the share of
// documents that passed the filter so far.
func (b *chunkScan) nextSize(size int) int {
	kept := 0
	for _, r := range b.readers {
		kept += len(r.kept)
	}
	f := b.w.r.Filter
	if f != nil && f.Enough > 0 {
		// The chunk should have the missing hits and a quarter more, unless too many
		// bytes would be kept.
		need := max(f.Enough-b.passed, 1)
		size = min(int(min(int64(need)*int64(b.judged+1)/int64(b.passed+1)*5/4, maxChunk)), maxChunk)
		if b.judged <= firstChunk {
			size = min(size, secondChunk)
		}
		if kept > 0 {
			size = min(size, int(int64(len(b.chunk))*maxKept/int64(kept)))
		}
		return max(size, firstChunk)
	}
	if kept < maxKept/chunkGrows && (f == nil || len(b.hits)*chunkGrows < len(b.chunk)) {
		size = min(size*chunkGrows, maxChunk)
	}
	return size
}

// collectAny reads index entries for the next chunk with AnyOrder, until the page must
// end.
func (b *chunkScan) collectAny(ctx context.Context) error {
	w := b.w
	b.chunk, b.names, b.more = b.chunk[:0], b.names[:0], false
	stored := 0
	return w.c.scanIndex(ctx, w.v, w.sc, w.sets.intervals(), nextFrom(b.after), func(i *indexed) (bool, error) {
		if w.isLate() {
			b.more, b.late = true, true
			return false, nil
		}
		if w.selects(i.rest, i.at) && !w.isExpired(&i.Entry) {
			if n := len(b.chunk); n >= maxChunk || w.isFull(n, w.bytes+stored, 0) || len(b.names) >= maxChunkNames {
				b.more = true
				return false, nil
			}
			stored += int(i.Size)
			b.add(&i.Entry, i.pointBytes(), i.id())
		}
		b.after = append(b.after[:0], i.rest...)
		return true, nil
	})
}

// add adds an item to the chunk.
func (b *chunkScan) add(e *layout.Entry, point, id []byte) {
	from := len(b.names)
	b.names = append(append(b.names, point...), id...)
	b.chunk = append(b.chunk, collected{Entry: *e, rest: uint32(from), end: uint32(len(b.names))}) //nolint:gosec // maxChunkNames
}

// sort sorts the addresses of the chunk into the order of the log.
func (b *chunkScan) sort() {
	b.order = slices.Grow(b.order[:0], len(b.chunk))
	for n := range b.chunk {
		x := &b.chunk[n]
		b.order = append(b.order, logAddress{lsn: x.LSN, segment: x.Segment, ordinal: x.Ordinal, at: uint32(n)}) //nolint:gosec // maxChunk
	}
	b.order, b.spare = sortAddresses(b.order, b.spare)
}

// name returns the point and the id of an item of the chunk.
func (b *chunkScan) name(x *collected) []byte { return b.names[x.rest:x.end] }

// point returns the point of an item of the chunk.
func (b *chunkScan) point(x *collected) []byte { return b.names[x.rest : x.rest+uint32(x.Point)] }

// appendKey appends the log key of an item's document.
func (b *chunkScan) appendKey(dst []byte, x *collected) []byte {
	dst = layout.AppendLogKey(dst, layout.SpaceLog, b.w.c.number, x.Segment, x.LSN, x.Ordinal)
	return append(dst, b.point(x)...)
}

// shown returns the size in bytes of the item's document as a visitor receives it,
// without _lsn. If the scan reads no documents, it returns the size of the index entry.
func (b *chunkScan) shown(x *collected) int {
	if b.w.r.IndexOnly {
		return layout.ContainerKeySize + int(x.end-x.rest) + layout.EntrySize
	}
	return int(x.Size) - len(layout.TailLSN) - layout.DigitCount(x.LSN)
}

// visit calls the visitor with an item of the chunk and its document. It returns the
// visitor's results.
func (b *chunkScan) visit(x *collected, body []byte) (more bool, err error) {
	part := &b.part
	if b.w.r.AnyOrder {
		part = nil
	}
	more, err = b.w.show(part, &x.Entry, b.point(x), b.names[x.rest+uint32(x.Point):x.end], body)
	if b.w.stopped != nil {
		err = b.w.stopped
	}
	return more, err
}

// show passes the hits of the chunk to the visitor, in the order of the chunk. stopped
// reports whether the visitor ended the visit. If so, only documents up to the last
// visited one are counted. Otherwise all documents are counted.
func (b *chunkScan) show() (stopped bool, err error) {
	w := b.w
	counted := 0
	count := func(upTo int) {
		for n := counted; n < upTo; n++ {
			w.bytes += b.shown(&b.chunk[n])
		}
		w.items += upTo - counted
		counted = upTo
	}
	b.judged += len(b.chunk)
	b.passed += len(b.hits)
	show := func(index int, body []byte) (bool, error) {
		x := &b.chunk[index]
		count(index + 1)
		if body == nil && !w.r.IndexOnly {
			w.key = b.appendKey(w.key[:0], x)
			if w.buf, err = w.c.fetchKey(w.v.snap, w.buf[:0], w.key); err != nil {
				return false, err
			}
			if body, err = layout.AppendPublic(w.buf[:0], w.buf); err != nil {
				return false, w.c.db.fault(err)
			}
		}
		more, err := b.visit(x, body)
		if err == nil && !more {
			w.page.Continuation = b.part.after(b.point(x), x.Number).encode()
		}
		return more, err
	}
	if w.r.IndexOnly {
		for n := range b.chunk {
			if more, err := show(n, nil); err != nil || !more {
				return true, err
			}
		}
		return false, nil
	}
	for _, h := range b.hits {
		if more, err := show(int(h.index), h.body); err != nil || !more {
			return true, err
		}
	}
	count(len(b.chunk))
	return false, nil
}

// errStopped ends a scan with AnyOrder because the visitor returned false. Such a scan
// cannot resume.
var errStopped = errors.New("the visit was ended")

// ItemFilter selects the documents of a visit.
type ItemFilter struct {
	// New returns a judge: a function that reports whether a document is visited. New is
	// called once for each goroutine that reads documents. Documents are evaluated before
	// the visits, in the order in which they were written. A judge receives one document
	// at a time, which is valid only during the call and must not be changed. An error of
	// the judge is returned unchanged.
	New func() (judge func(body []byte) (bool, error))
	// AsStored allows judges to receive documents with one additional member, _lsn, at
	// the end. That saves a copy of each document.
	AsStored bool
	// Enough is the number of documents after which the visitor probably ends the visit.
	// It limits how many documents are evaluated ahead. If zero, the number is unknown.
	Enough int
}
