package engine

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

// The index is sorted by hashed keys, and the log by time. Without chunks, a scan would
// read documents in the order of the index. Each document is then in another block of the
// log, and the block is read and decompressed for that document alone. So a scan with a
// filter works in chunks. It collects index entries and reads their documents in the
// order of the log. It keeps the documents that pass the filter and visits them in the
// order of the index.

// Bounds of a chunk.
const (
	// firstChunk is the size of the first chunk in documents. maxChunk limits every
	// chunk. Chunks grow while few documents pass the filter. A page that is full after a
	// hundred rows needs no larger chunk. An entry takes about 100 bytes.
	firstChunk = 128
	maxChunk   = 128 << 10
	chunkGrows = 8
	// secondChunk is the largest size of the second chunk. Its duration limits the size
	// of the next one.
	secondChunk = 2048
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
	// spare is memory for that sort.
	order, spare []logAddress
	// names has the points and ids of the chunk, one after the other.
	names []byte
	// readers read the documents of a chunk, one in each goroutine. hits are the
	// documents that passed the filter, in the order of the index.
	readers []*chunkReader
	hits    []hit
	// pace is the time per document, in nanoseconds, that the fastest chunk took. Slower
	// chunks may have been delayed by other work on the machine.
	pace float64
	// judged is the number of documents that the filter evaluated. passed is the number
	// that passed.
	judged, passed int
	// after is the position of the last entry that was read. again reports whether the
	// next chunk begins with that entry itself. more reports whether there are entries
	// after the chunk.
	after       []byte
	again, more bool
	late        bool // reports whether the page's MaxTime has passed
}

// collected is the index entry of an item in a chunk, before its document is read.
type collected struct {
	entry
	rest, end uint32 // the offsets of the point and id in chunkScan.names
}

// hit is an item of a chunk whose document passed the filter. index is its index in the
// chunk.
type hit struct {
	index uint32
	body  []byte // nil if the document was not kept and must be read again
}

// newChunkScan returns a chunkScan that starts after the given position. It reuses the
// large memory of a finished scan if possible. The store itself keeps that memory for one
// scan, because a sync.Pool often lost it between two pages.
func (w *itemScan) newChunkScan(after []byte) *chunkScan {
	b := w.c.db.scan.Swap(nil)
	if b == nil {
		b = &chunkScan{}
	}
	b.w, b.after, b.again, b.pace = w, bytes.Clone(after), w.r.Again, math.Inf(1)
	return b
}

// free stores the scan's memory in the store, for the next scan.
func (b *chunkScan) free() {
	for _, r := range b.readers {
		r.reset()
	}
	clear(b.hits)
	db := b.w.c.db
	*b = chunkScan{chunk: b.chunk[:0], order: b.order[:0], spare: b.spare[:0], names: b.names[:0], hits: b.hits[:0], readers: b.readers}
	db.scan.Store(b)
}

// visitInChunks visits the items of a page in chunks: it collects index entries, reads
// and filters their documents, and visits the hits.
func (w *itemScan) visitInChunks(ctx context.Context, sc *keyFilter, after []byte) error {
	b := w.newChunkScan(after)
	defer b.free()
	for size := b.firstSize(); ; {
		if w.r.MaxItems > 0 {
			size = min(size, w.r.MaxItems-w.items)
		}
		began := time.Now()
		if err := b.collect(ctx, sc, size); err != nil {
			return err
		}
		if err := b.read(ctx); err != nil {
			return err
		}
		took := time.Since(began)
		if ended, err := b.show(); err != nil || ended {
			return err
		}
		left := w.r.MaxTime - time.Since(w.start)
		switch {
		case !b.more:
			return nil
		case b.late || w.r.MaxItems > 0 && w.items >= w.r.MaxItems || w.bytes >= w.r.MaxBytes || left <= 0:
			w.page.Continuation = encodePosition(b.after)
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

// firstSize returns the size of the first chunk in documents.
func (b *chunkScan) firstSize() int {
	if b.w.r.AnyOrder {
		return maxChunk // each document is visited when it is read, so none is kept
	}
	return firstChunk
}

// nextSize returns the number of documents for the next chunk. It depends on the share of
// documents that passed the filter so far.
func (b *chunkScan) nextSize(size int) int {
	if b.w.r.AnyOrder {
		return maxChunk
	}
	kept := 0
	for _, r := range b.readers {
		kept += len(r.kept)
	}
	if enough := b.w.r.Filter.Enough; enough > 0 {
		// The chunk should have the missing hits and a quarter more, unless too many
		// bytes would be kept.
		need := max(enough-b.passed, 1)
		size = min(int(min(int64(need)*int64(b.judged+1)/int64(b.passed+1)*5/4, maxChunk)), maxChunk)
		if b.judged <= firstChunk {
			size = min(size, secondChunk)
		}
		if kept > 0 {
			size = min(size, int(int64(len(b.chunk))*maxKept/int64(kept)))
		}
		return max(size, firstChunk)
	}
	if kept < maxKept/chunkGrows && len(b.hits)*chunkGrows < len(b.chunk) {
		size = min(size*chunkGrows, maxChunk)
	}
	return size
}

// collect reads index entries for the next chunk, at most size of them, until the page
// must end.
func (b *chunkScan) collect(ctx context.Context, sc *keyFilter, size int) error {
	w := b.w
	b.chunk, b.names = b.chunk[:0], b.names[:0]
	b.more = false
	from, stored := firstFrom(b.after, b.again), 0
	return w.c.scanIndex(ctx, w.v, sc, w.sets.intervals(), from, func(i *indexed) (bool, error) {
		if w.looked++; w.looked%clockEvery == 0 && time.Since(w.start) > w.r.MaxTime {
			b.more, b.late = true, true
			return false, nil
		}
		if w.matches(i) {
			if n := len(b.chunk); n >= size || n > 0 && (w.bytes+stored >= w.r.MaxBytes || len(b.names) >= maxChunkNames) {
				b.more = true
				return false, nil
			}
			stored += int(i.size)
			name := len(b.names)
			b.names = append(b.names, i.rest...)
			b.chunk = append(b.chunk, collected{entry: i.entry, rest: uint32(name), end: uint32(len(b.names))}) //nolint:gosec // maxChunkNames
		}
		b.after, b.again = append(b.after[:0], i.rest...), false
		return true, nil
	})
}

// sort sorts the addresses of the chunk into the order of the log.
func (b *chunkScan) sort() {
	b.order = slices.Grow(b.order[:0], len(b.chunk))
	for n := range b.chunk {
		x := &b.chunk[n]
		b.order = append(b.order, logAddress{lsn: x.lsn, segment: x.segment, ordinal: x.ordinal, at: uint32(n)}) //nolint:gosec // maxChunk
	}
	b.order, b.spare = sortAddresses(b.order, b.spare)
}

// point returns the point of an item of the chunk.
func (b *chunkScan) point(x *collected) []byte { return b.names[x.rest : x.rest+uint32(x.point)] }

// appendKey appends the log key of an item's document.
func (b *chunkScan) appendKey(dst []byte, x *collected) []byte {
	dst = appendLogKey(dst, spaceLog, b.w.c.number, x.segment, x.lsn, x.ordinal)
	return append(dst, b.point(x)...)
}

// shown returns the size in bytes of the item's document as a visitor receives it,
// without _lsn.
func (x *collected) shown() int { return int(x.size) - len(tailLSN) - digitCount(x.lsn) }

// visit calls the visitor with an item of the chunk and its document. It returns the
// visitor's results.
func (b *chunkScan) visit(x *collected, body []byte) (more bool, err error) {
	i := indexed{entry: x.entry, rest: b.names[x.rest:x.end], at: int(x.point)}
	more, err = b.w.show(&i, body)
	if b.w.stopped != nil {
		err = b.w.stopped
	}
	return more, err
}

// show passes the hits of the chunk to the visitor, in the order of the index. ended
// reports whether the visitor ended the visit. If so, only documents up to the last
// visited one are counted. Otherwise all documents are counted.
func (b *chunkScan) show() (ended bool, err error) {
	w := b.w
	if w.r.AnyOrder {
		return false, nil
	}
	counted := 0
	count := func(upTo int) {
		for n := counted; n < upTo; n++ {
			w.bytes += b.chunk[n].shown()
		}
		w.items += upTo - counted
		counted = upTo
	}
	b.judged += len(b.chunk)
	b.passed += len(b.hits)
	for _, h := range b.hits {
		x, body := &b.chunk[h.index], h.body
		count(int(h.index) + 1)
		if body == nil {
			w.key = b.appendKey(w.key[:0], x)
			if w.buf, err = w.c.fetchKey(w.v.snap, w.buf[:0], w.key); err != nil {
				return true, err
			}
			if body, err = appendPublic(w.buf[:0], w.buf); err != nil {
				return true, w.c.db.fault(err)
			}
		}
		more, err := b.visit(x, body)
		if err != nil {
			return true, err
		}
		if !more {
			w.page.Continuation = encodePosition(b.names[x.rest:x.end])
			return true, nil
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
