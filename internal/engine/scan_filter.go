package engine

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

// The index is sorted by hashed keys, and the log by time. A scan that reads documents one by
// one in the order of the index finds each in another block of the log, which is read and
// decompressed for that document alone. So a scan with a filter works in chunks: it collects
// index entries, reads their documents in the order of the log, and keeps those that pass the
// filter until they are visited in the order of the index.

// Bounds of a chunk.
const (
	// firstChunk and maxChunk are how many documents the first chunk has, and any. Batches grow while few documents are kept: a
	// page that is full with its first hundred rows needs no more. An entry takes some 100 bytes.
	firstChunk = 128
	maxChunk   = 128 << 10
	chunkGrows = 8
	// secondChunk is how many the second chunk has at most: its time tells how large the next one may be.
	secondChunk = 2048
	// maxChunkNames bounds the points and ids of a chunk, in bytes: it ends behind the entry that reaches it.
	maxChunkNames = 8 << 20
	// maxKept bounds the documents of a chunk that are kept, in bytes. Those beyond are read once more.
	maxKept = 4 << 20
)

// chunkScan reads the documents of a scan in chunks.
type chunkScan struct {
	w     *itemScan
	chunk []collected
	// order are the entries of chunk in the order of the log, and spare is memory for sorting them.
	order, spare []logAddress
	// names are points and ids, one behind the other.
	names []byte
	// readers read the documents of a chunk, and have what is wanted of it: hits, in the order of the index.
	readers []*chunkReader
	hits    []hit
	// pace is the time that a document took in the fastest chunk: other work on the machine may have held up others.
	pace float64
	// judged and let are how many documents were judged, and let through.
	judged, let int
	// after is behind the last entry that was looked at; again tells that it is to be looked at once more, and more that there are others.
	after       []byte
	again, more bool
	late        bool // the time is up
}

// collected is an item of a chunk.
type collected struct {
	entry
	rest, end uint32 // in names
}

// hit is an item of a chunk that is wanted.
type hit struct {
	index uint32
	body  []byte // nil: there was no room
}

// newChunkScan returns a chunkScan, with the memory of one that is done with, if there is one. It is large, and each page of a scan needs it
// anew; a sync.Pool has it for the next page less than half the time. So a store keeps that of one scan.
func (w *itemScan) newChunkScan(after []byte) *chunkScan {
	b := w.c.db.scan.Swap(nil)
	if b == nil {
		b = &chunkScan{}
	}
	b.w, b.after, b.again, b.pace = w, bytes.Clone(after), w.r.Again, math.Inf(1)
	return b
}

// free gives the memory back.
func (b *chunkScan) free() {
	for _, r := range b.readers {
		r.reset()
	}
	clear(b.hits)
	db := b.w.c.db
	*b = chunkScan{chunk: b.chunk[:0], order: b.order[:0], spare: b.spare[:0], names: b.names[:0], hits: b.hits[:0], readers: b.readers}
	db.scan.Store(b)
}

// visitInChunks visits items as itemScan.look does, in chunks.
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
			// No chunk is ended in the middle, so it is made as small as the time that is left.
			b.pace = min(b.pace, float64(took)/float64(n))
			size = min(size, max(int(float64(left)/b.pace), 1))
		}
	}
}

// firstSize is how many documents the first chunk has.
func (b *chunkScan) firstSize() int {
	if b.w.r.AnyOrder {
		return maxChunk // all are shown, and none is kept
	}
	return firstChunk
}

// nextSize is how many documents the next chunk has, by what came of the ones before.
func (b *chunkScan) nextSize(size int) int {
	if b.w.r.AnyOrder {
		return maxChunk
	}
	kept := 0
	for _, r := range b.readers {
		kept += len(r.kept)
	}
	if enough := b.w.r.Filter.Enough; enough > 0 {
		// As many as have what is wanting, and some, unless they were too much to be kept.
		need := max(enough-b.let, 1)
		size = min(int(min(int64(need)*int64(b.judged+1)/int64(b.let+1)*5/4, maxChunk)), maxChunk)
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

// collect takes the entries of the next chunk.
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
		if w.asked(i) {
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

// sort puts the chunk into the order of the log.
func (b *chunkScan) sort() {
	b.order = slices.Grow(b.order[:0], len(b.chunk))
	for n := range b.chunk {
		x := &b.chunk[n]
		b.order = append(b.order, logAddress{lsn: x.lsn, segment: x.segment, ordinal: x.ordinal, at: uint32(n)}) //nolint:gosec // maxChunk
	}
	b.order, b.spare = sortAddresses(b.order, b.spare)
}

// point is that of an item of the chunk.
func (b *chunkScan) point(x *collected) []byte { return b.names[x.rest : x.rest+uint32(x.point)] }

// appendKey appends the key of an item's document.
func (b *chunkScan) appendKey(dst []byte, x *collected) []byte {
	dst = appendLogKey(dst, spaceLog, b.w.c.number, x.segment, x.lsn, x.ordinal)
	return append(dst, b.point(x)...)
}

// shown is how many bytes an item's document has as it is shown.
func (x *collected) shown() int { return int(x.size) - len(tailLSN) - digitCount(x.lsn) }

// visit shows an item of the chunk.
func (b *chunkScan) visit(x *collected, body []byte) (more bool, err error) {
	i := indexed{entry: x.entry, rest: b.names[x.rest:x.end], at: int(x.point)}
	more, err = b.w.show(&i, body)
	if b.w.stopped != nil {
		err = b.w.stopped
	}
	return more, err
}

// show shows what is wanted of the chunk, in the order of the index; ended tells that the visitor has enough. It counts the documents
// up to the last one that was shown then, and otherwise all.
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
	b.let += len(b.hits)
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

// errStopped says that the visitor of items in any order has enough: there is no place to go on from.
var errStopped = errors.New("the visit was ended")

// ItemFilter says which documents a visit shows.
type ItemFilter struct {
	// New makes a function that says of documents whether to show them. It is called once for every goroutine that the store reads a chunk of
	// documents with, and documents are judged in the order in which they were written, ahead of the visits. A judge has no more than one document
	// at a time, valid during the call only, which it must not change. Its error is returned as it is.
	New func() (judge func(body []byte) (bool, error))
	// AsStored says that judges may be given documents with one member more than VisitedItem.Body has, _lsn, behind all others. That saves
	// a copy of each.
	AsStored bool
	// Enough is after how many documents the visitor is likely to have enough. It says how many are worth judging ahead; default: it isn't known.
	Enough int
}
