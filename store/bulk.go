package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Reading many documents at once. The index is in the order of hashed keys, and the log in that of the writes: whoever reads documents one
// by one in the order of the index finds each in another block of the log, which is read from the disk and decompressed for that one. So index
// entries are collected, their documents are read in the order of the log, and the few that the filter lets through are kept until
// they can be shown in the order of the index. A scan with a filter takes a fifth of the time.

// Bounds of a batch.
const (
	// firstBatch and maxBatch are how many documents the first batch has, and any. Batches grow while few documents are kept: a
	// page that is full with its first hundred rows needs no more.
	firstBatch = 128
	maxBatch   = 64 << 10
	batchGrows = 8
	// maxKept bounds the documents of a batch that are kept, in bytes. Those beyond are read once more.
	maxKept = 4 << 20
	// fewDocuments is up to how many an iterator over the log isn't worth its making.
	fewDocuments = 8
)

// bulk reads documents for a walk in batches.
type bulk struct {
	w     *itemsWalk
	batch []collected
	// order are the places of batch in the order of the log.
	order []int32
	// rests are points and ids, and kept documents, one behind the other.
	rests, kept []byte
	// after is behind the last entry that was looked at; more tells that there are others.
	after []byte
	more  bool
	late  bool // the time is up
}

// collected is an item of a batch.
type collected struct {
	entry
	rest, end int // in rests
	// shown is the document's size as it is shown. from and to are where it is kept, if it is wanted; from is -1 if there was no room.
	shown, from, to int
	wanted          bool
}

// visitInBulk visits items as itemsWalk.look does, in batches.
func (w *itemsWalk) visitInBulk(ctx context.Context, sc *scope, after []byte) error {
	b := &bulk{w: w, after: after}
	for size := firstBatch; ; {
		if w.r.MaxItems > 0 {
			size = min(size, w.r.MaxItems-w.items)
		}
		if err := b.collect(ctx, sc, size); err != nil {
			return err
		}
		read := b.readDocuments
		if len(b.batch) <= fewDocuments {
			read = b.readFew
		}
		if err := read(ctx); err != nil {
			return err
		}
		if ended, err := b.show(); err != nil || ended {
			return err
		}
		switch {
		case !b.more:
			return nil
		case b.late || w.r.MaxItems > 0 && w.items >= w.r.MaxItems || w.bytes >= w.r.MaxBytes || time.Since(w.start) > w.r.MaxTime:
			w.page.Continuation = encodePosition(b.after)
			return nil
		}
		if len(b.kept) < maxKept/batchGrows && b.hits()*batchGrows < len(b.batch) {
			size = min(size*batchGrows, maxBatch)
		}
	}
}

// hits is how many of the batch had to be kept.
func (b *bulk) hits() (n int) {
	if b.w.r.AnyOrder {
		return 0
	}
	for i := range b.batch {
		if b.batch[i].wanted {
			n++
		}
	}
	return n
}

// collect takes the entries of the next batch.
func (b *bulk) collect(ctx context.Context, sc *scope, size int) error {
	w := b.w
	b.batch, b.rests, b.kept = b.batch[:0], b.rests[:0], b.kept[:0]
	b.more = false
	after, stored := bytes.Clone(b.after), 0
	return w.c.walkIndex(ctx, w.v, sc, w.sets.stretches(), after, func(i *indexed) (bool, error) {
		if w.looked++; w.looked%clockEvery == 0 && time.Since(w.start) > w.r.MaxTime {
			b.more, b.late = true, true
			return false, nil
		}
		if w.asked(i) {
			if len(b.batch) >= size || len(b.batch) > 0 && w.bytes+stored >= w.r.MaxBytes {
				b.more = true
				return false, nil
			}
			stored += int(i.size)
			b.batch = append(b.batch, collected{entry: i.entry, rest: len(b.rests), end: len(b.rests) + len(i.rest)})
			b.rests = append(b.rests, i.rest...)
		}
		b.after = append(b.after[:0], i.rest...)
		return true, nil
	})
}

// point and id are those of an item of the batch.
func (b *bulk) point(x *collected) []byte { return b.rests[x.rest : x.rest+int(x.point)] }

// logKey makes the key of an item's document, in w.key.
func (b *bulk) logKey(x *collected) []byte {
	w := b.w
	w.key = appendLogKey(w.key[:0], spaceLog, w.c.number, x.segment, x.lsn, x.ordinal)
	w.key = append(w.key, b.point(x)...)
	return w.key
}

// readFew reads the documents of a small batch.
func (b *bulk) readFew(context.Context) (err error) {
	w := b.w
	for n := range b.batch {
		x := &b.batch[n]
		if w.buf, err = w.c.fetchKey(w.v.snap, w.buf[:0], b.logKey(x)); err != nil {
			return err
		}
		if err := b.judge(x, w.buf); err != nil {
			return err
		}
	}
	return nil
}

// readDocuments reads the documents of the batch in the order of the log.
func (b *bulk) readDocuments(ctx context.Context) (err error) {
	w := b.w
	b.order = b.order[:0]
	for n := range b.batch {
		b.order = append(b.order, int32(n)) //nolint:gosec // maxBatch
	}
	slices.SortFunc(b.order, func(m, n int32) int {
		x, y := &b.batch[m], &b.batch[n]
		return cmp.Or(cmp.Compare(x.segment, y.segment), cmp.Compare(x.lsn, y.lsn), cmp.Compare(x.ordinal, y.ordinal))
	})
	prefix := appendContainerKey(nil, spaceLog, w.c.number)
	it, err := w.v.snap.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: successor(prefix)})
	if err != nil {
		return w.c.db.fault(err)
	}
	defer func() {
		if cerr := it.Close(); err == nil && cerr != nil {
			err = w.c.db.fault(cerr)
		}
	}()
	var last *collected // where the iterator stands
	for n, place := range b.order {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		x := &b.batch[place]
		key := b.logKey(x)
		if !b.reach(it, last, x, key) {
			if err := it.Error(); err != nil {
				return w.c.db.fault(err)
			}
			return w.c.db.fault(corrupt("container %s: the index names the document %x at LSN %d, and it is not in the log", w.c.name, key, x.lsn))
		}
		last = x
		value, err := it.ValueAndErr()
		if err != nil {
			return w.c.db.fault(err)
		}
		if err := b.judge(x, append(w.buf[:0], value[logHeaderSize:]...)); err != nil {
			return err
		}
	}
	return nil
}

// fewSteps is up to how many entries of the log are passed one by one: a search costs as much.
const fewSteps = 6

// reach moves an iterator from an item's entry of the log, if it stands on any, to that of another, which has the key.
func (b *bulk) reach(it *pebble.Iterator, from, to *collected, key []byte) bool {
	if from != nil && from.segment == to.segment {
		// A transaction takes one LSN, so that there are hardly more entries between them.
		for range max(to.lsn-from.lsn, 1) {
			if to.lsn-from.lsn > fewSteps || !it.Next() {
				break
			}
			if order := bytes.Compare(it.Key(), key); order >= 0 {
				if order == 0 {
					return true
				}
				break
			}
		}
	}
	return it.SeekGE(key) && bytes.Equal(it.Key(), key)
}

// judge shows a document, or asks the filter whether it is to be shown in its turn. stored becomes w.buf.
func (b *bulk) judge(x *collected, stored []byte) (err error) {
	w := b.w
	body, err := appendPublic(stored[:0], stored) // onto itself
	if err != nil {
		return w.c.db.fault(err)
	}
	w.buf = body
	x.shown = len(body)
	if w.r.AnyOrder {
		w.items++
		w.bytes += x.shown
		more, err := b.visit(x, body)
		if err == nil && !more {
			err = errStopped
		}
		return err
	}
	if x.wanted, w.stopped = w.r.Filter(body); w.stopped != nil {
		return w.stopped
	}
	x.from = -1
	if x.wanted && len(b.kept)+len(body) <= maxKept {
		x.from = len(b.kept)
		b.kept = append(b.kept, body...)
		x.to = len(b.kept)
	}
	return nil
}

// visit shows an item of the batch.
func (b *bulk) visit(x *collected, body []byte) (more bool, err error) {
	i := indexed{entry: x.entry, rest: b.rests[x.rest:x.end], at: int(x.point)}
	more, err = b.w.show(&i, body)
	if b.w.stopped != nil {
		err = b.w.stopped
	}
	return more, err
}

// show shows what is wanted of the batch, in the order of the index; ended tells that the visitor has enough.
func (b *bulk) show() (ended bool, err error) {
	w := b.w
	if w.r.AnyOrder {
		return false, nil
	}
	for n := range b.batch {
		x := &b.batch[n]
		w.items++
		w.bytes += x.shown
		if !x.wanted {
			continue
		}
		var body []byte
		if x.from >= 0 {
			body = b.kept[x.from:x.to]
		} else {
			if w.buf, err = w.c.fetchKey(w.v.snap, w.buf[:0], b.logKey(x)); err != nil {
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
			w.page.Continuation = encodePosition(b.rests[x.rest:x.end])
			return true, nil
		}
	}
	return false, nil
}

// errStopped says that the visitor of items in any order has enough: there is no place to go on from.
var errStopped = errors.New("the visit was ended")
