package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/internal/layout"
)

// Several goroutines read and filter the documents of a large chunk, each in one interval
// of the log. The filter costs more than the reads, so one goroutine would be bound by
// its processor.

const (
	// fewDocuments is the largest number of documents for which an iterator over the log
	// costs more than single reads.
	fewDocuments = 8
	// perReader is the number of documents that justifies another goroutine. maxReaders
	// limits the goroutines of a chunk.
	perReader  = 2048
	maxReaders = 4
	// fewSteps is the largest number of entries that an iterator steps over. A seek costs
	// about as much.
	fewSteps = 6
)

// chunkReader reads and filters a part of a chunk's documents in one goroutine, in the
// order of the log.
type chunkReader struct {
	b *chunkScan
	// judge is a function from ItemFilter.New. It reports whether a document passes the
	// filter. It is nil with AnyOrder or without a filter.
	judge func(body []byte) (bool, error)
	order []logAddress
	// room is the largest size of kept in bytes. kept has the documents in hits, one
	// after the other. hits are the items that passed the filter.
	room int
	kept []byte
	hits []hit
	key  []byte
	buf  []byte
	// guesses counts the times that the reader tried the next log entry although the
	// wanted LSN was far away. good counts the times that the try succeeded. If too few
	// succeed, the reader seeks instead.
	guesses, good int
	// err ends the visit. refused is the judge's error, which is returned unchanged.
	err, refused error
	// panicked is the text of the judge's panic, or "".
	panicked string
}

// reset clears the reader but keeps its memory for reuse.
func (r *chunkReader) reset() {
	clear(r.hits)
	*r = chunkReader{kept: r.kept[:0], hits: r.hits[:0], key: r.key, buf: r.buf}
}

// read reads the documents of the chunk and adds those that pass the filter to hits. With
// AnyOrder, it visits each document when it is read.
func (b *chunkScan) read(ctx context.Context) error {
	b.hits = b.hits[:0]
	n := 1
	if !b.w.r.AnyOrder {
		n = max(1, min(len(b.chunk)/perReader, maxReaders, runtime.GOMAXPROCS(0)))
	}
	b.prepare(n)
	switch {
	case len(b.chunk) <= fewDocuments:
		b.readers[0].readFew()
	case n == 1:
		b.sort()
		b.readers[0].order = b.order
		b.readers[0].readLog(ctx)
	default:
		b.sort()
		b.readTogether(ctx, n)
	}
	for _, r := range b.readers[:n] {
		if r.err != nil {
			b.w.stopped = cmp.Or(b.w.stopped, r.refused)
			return r.err
		}
		b.hits = append(b.hits, r.hits...)
	}
	slices.SortFunc(b.hits, func(x, y hit) int { return int(x.index) - int(y.index) })
	return nil
}

// prepare resets the readers. Unless AnyOrder is set, it also sets the judge function of
// the first n readers.
func (b *chunkScan) prepare(n int) {
	for len(b.readers) < n {
		b.readers = append(b.readers, &chunkReader{})
	}
	for _, r := range b.readers {
		judge := r.judge
		r.reset()
		r.b, r.room, r.judge = b, maxKept/n, judge
	}
	if b.w.r.AnyOrder || b.w.r.Filter == nil {
		return
	}
	for _, r := range b.readers[:n] {
		if r.judge == nil {
			r.judge = b.w.r.Filter.New()
		}
	}
}

// readTogether reads the chunk with n readers, each in its own goroutine.
func (b *chunkScan) readTogether(ctx context.Context, n int) {
	var readers sync.WaitGroup
	for i, r := range b.readers[:n] {
		r.order = b.order[i*len(b.order)/n : (i+1)*len(b.order)/n]
		readers.Go(func() {
			// Without this recover, a panic of r.judge would end the process.
			// readTogether repeats the panic in the goroutine of the request.
			defer func() {
				if v := recover(); v != nil {
					r.panicked = fmt.Sprintf("%v\n%s", v, debug.Stack())
				}
			}()
			r.readLog(ctx)
		})
	}
	readers.Wait()
	for _, r := range b.readers[:n] {
		if r.panicked != "" {
			panic(r.panicked)
		}
	}
}

// readFew reads the documents of a small chunk with one lookup each.
func (r *chunkReader) readFew() {
	c := r.b.w.c
	for n := range r.b.chunk {
		r.key = r.b.appendKey(r.key[:0], &r.b.chunk[n])
		if r.buf, r.err = c.fetchKey(r.b.w.v.snap, r.buf[:0], r.key); r.err != nil {
			return
		}
		if r.err = r.take(uint32(n), r.buf); r.err != nil { //nolint:gosec // fewDocuments
			return
		}
	}
}

// readLog reads the reader's part of the chunk with one iterator over the log.
func (r *chunkReader) readLog(ctx context.Context) {
	c := r.b.w.c
	prefix := layout.AppendContainerKey(nil, layout.SpaceLog, c.number)
	it, err := r.b.w.v.snap.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.Successor(prefix)})
	if err != nil {
		r.err = c.db.fault(err)
		return
	}
	defer func() {
		if err := it.Close(); r.err == nil && err != nil {
			r.err = c.db.fault(err)
		}
	}()
	var from *logAddress // the position of the iterator
	for n := range r.order {
		if n%checkEvery == 0 && ctx.Err() != nil {
			r.err = ctx.Err()
			return
		}
		to := &r.order[n]
		if !r.reach(it, from, to) {
			err := it.Error()
			if err == nil {
				err = layout.Corrupt("container %s: document %x at LSN %d is in the index but not in the log", c.name, r.key, to.lsn)
			}
			r.err = c.db.fault(err)
			return
		}
		from = to
		value, err := it.ValueAndErr()
		if err != nil {
			r.err = c.db.fault(err)
			return
		}
		if r.err = r.take(to.at, value[layout.LogHeaderSize:]); r.err != nil {
			return
		}
	}
}

// reach moves the iterator it to the log entry at address to, and reports whether that
// entry exists. from is the address of its current entry, or nil.
func (r *chunkReader) reach(it *pebble.Iterator, from, to *logAddress) bool {
	if from != nil && from.segment == to.segment {
		// A transaction has one LSN, so there are rarely more entries between from and to
		// than LSNs. There may be fewer. The log has no entries for LSNs whose items were
		// written again or are in other partitions.
		steps, guess := max(to.lsn-from.lsn, 1), false
		if steps > fewSteps {
			if guess = r.guesses <= 2*r.good+fewSteps; !guess {
				return r.search(it, to)
			}
			steps = 1
			r.guesses++
		}
		for range steps {
			if !it.Next() {
				break
			}
			order := to.compareKey(it.Key())
			if order > 0 {
				continue
			}
			if order == 0 {
				if guess {
					r.good++
				}
				return true
			}
			break
		}
	}
	return r.search(it, to)
}

// search seeks to the log entry at an address, and reports whether that entry exists.
func (r *chunkReader) search(it *pebble.Iterator, to *logAddress) bool {
	r.key = r.b.appendKey(r.key[:0], &r.b.chunk[to.at])
	return it.SeekGE(r.key) && bytes.Equal(it.Key(), r.key)
}

// take handles one document. With AnyOrder it visits the document. Otherwise it adds the
// document to hits if it passes the filter. at is its index in the chunk.
func (r *chunkReader) take(at uint32, stored []byte) (err error) {
	w := r.b.w
	body, whole := stored, w.r.AnyOrder || w.r.Filter != nil && !w.r.Filter.AsStored
	if whole {
		if r.buf, err = layout.AppendPublic(r.buf[:0], stored); err != nil { // source and destination may be the same memory
			return w.c.db.fault(err)
		}
		body = r.buf
	}
	if w.r.AnyOrder {
		w.items++
		w.bytes += len(body)
		more, err := r.b.visit(&r.b.chunk[at], body)
		if err == nil && !more {
			err = errStopped
		}
		return err
	}
	if r.judge != nil {
		var wanted bool
		if wanted, r.refused = r.judge(body); !wanted || r.refused != nil {
			return r.refused
		}
	}
	h := hit{index: at}
	if from := len(r.kept); from+len(body) <= r.room {
		if whole {
			r.kept = append(r.kept, body...)
		} else if r.kept, err = layout.AppendPublic(r.kept, body); err != nil {
			return w.c.db.fault(err)
		}
		h.body = r.kept[from:len(r.kept):len(r.kept)]
	}
	r.hits = append(r.hits, h)
	return nil
}

// Sorting a chunk by comparison took a tenth of the time of a scan. So large chunks are
// sorted by a radix sort. Only a few digits of the LSNs differ within a container.

const (
	// digitBits is the size of a digit. fewAddresses is the largest number of addresses
	// that are sorted by comparison.
	digitBits    = 11
	fewAddresses = 512
)

// logAddress is the position of an item's document in the log.
type logAddress struct {
	lsn     int64
	segment uint32
	ordinal uint16
	at      uint32 // the index of the item in the chunk
}

// compare compares two addresses in the order of the log.
func (p *logAddress) compare(q *logAddress) int {
	return cmp.Or(cmp.Compare(p.segment, q.segment), cmp.Compare(p.lsn, q.lsn), cmp.Compare(p.ordinal, q.ordinal))
}

// compareKey compares an address with a key of the container's log. It ignores the point,
// because no two entries agree in the rest of the key.
func (p *logAddress) compareKey(key []byte) int {
	if len(key) < layout.LogKeySize {
		return 1
	}
	k := logAddress{lsn: layout.LogLSN(key), segment: binary.BigEndian.Uint32(key[layout.ContainerKeySize:]), ordinal: layout.LogOrdinal(key)}
	return p.compare(&k)
}

// sortAddresses sorts addresses into the order of the log. It returns the sorted slice,
// and memory for the next call.
func sortAddresses(indexes, spare []logAddress) (sorted, rest []logAddress) {
	if len(indexes) <= fewAddresses {
		slices.SortFunc(indexes, func(p, q logAddress) int { return p.compare(&q) })
		return indexes, spare
	}
	spare = slices.Grow(spare[:0], len(indexes))[:len(indexes)]
	var lsns int64
	var segments, ordinals uint64 // the bits in which any two addresses differ
	for i := range indexes {
		p := &indexes[i]
		lsns |= p.lsn ^ indexes[0].lsn
		segments |= uint64(p.segment ^ indexes[0].segment)
		ordinals |= uint64(p.ordinal ^ indexes[0].ordinal)
	}
	// Each pass is stable, from the last digit to the first.
	by := func(differ uint64, number func(*logAddress) uint64) {
		for shift := 0; differ>>shift != 0; shift += digitBits {
			if differ>>shift&(1<<digitBits-1) == 0 {
				continue
			}
			var ends [1 << digitBits]int
			for i := range indexes {
				ends[number(&indexes[i])>>shift&(1<<digitBits-1)]++
			}
			sum := 0
			for d := range ends {
				sum, ends[d] = sum+ends[d], sum
			}
			for i := range indexes {
				d := number(&indexes[i]) >> shift & (1<<digitBits - 1)
				spare[ends[d]] = indexes[i]
				ends[d]++
			}
			indexes, spare = spare, indexes
		}
	}
	by(ordinals, func(p *logAddress) uint64 { return uint64(p.ordinal) })
	by(uint64(lsns), func(p *logAddress) uint64 { return uint64(p.lsn) }) //nolint:gosec // LSNs are positive
	by(segments, func(p *logAddress) uint64 { return uint64(p.segment) })
	return indexes, spare
}
