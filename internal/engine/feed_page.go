package engine

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/changefeed-go/changefeed/feed"
)

// The memory of a page is pieces, which its changes are slices of and which the reader may keep. A page in one piece of a
// megabyte was measured to cost a tenth more: in a small heap such pieces never find the room of an old one, so that
// it grows and shrinks all the time, and every page of memory is asked of the system again. Only a [PageBuffer] is one piece, with the text of
// the whole page. How large a page will be is not known before, so it is guessed from the mean change of the container.

// pieceSize is how much memory a page takes at a time, in bytes; a change that is larger has a piece of its own.
const pieceSize = 64 << 10

// slack is how much of a page's memory may stay unused: a reader that keeps a page should
// not keep much more than the page.
const slack = 4 // a fourth

// minBuffer is the smallest piece worth to be cut down.
const minBuffer = 4 << 10

// expect guesses how many changes a page will have: never more than were asked for, than there are
// LSNs, or than fit into its bytes. The number asked for may be anything, and LSNs
// without a change are what updates leave behind.
func (w *walk) expect(end int64) int {
	mean := max(w.c.change.Load(), int64(w.c.tail.fixedSize()))
	return int(min(int64(w.max), end-w.position, maxPageBytes/mean+1))
}

// keep copies what belongs to one change to the page's memory, and returns the copy.
func (w *walk) keep(b []byte) []byte {
	gap := comma
	if w.into == nil || len(w.changes) == 0 {
		gap = nil
	}
	if len(w.buf)+len(gap)+len(b) > cap(w.buf) {
		w.grow(len(gap) + len(b))
	}
	w.buf = append(w.buf, gap...)
	n := len(w.buf)
	w.buf = append(w.buf, b...)
	w.bytes += len(b)
	return w.buf[n:len(w.buf):len(w.buf)]
}

// grow makes room for n bytes more at least: in a new piece, or in a larger buffer for all that is there.
func (w *walk) grow(n int) {
	mean := int(w.c.change.Load())
	rest := (mean + mean/16) * (w.room - len(w.changes)) // what is expected to come
	if w.buf == nil {
		w.changes = slices.Grow(w.changes, w.room)
	}
	if w.into == nil {
		w.buf, w.piece = uncleared(max(min(rest, pieceSize), n)), len(w.changes)
		return
	}
	size := rest
	if w.buf != nil {
		size = 2 * cap(w.buf)
	}
	// The page ends behind maxPageBytes, but for a transaction that reaches beyond it.
	w.move(uncleared(max(min(size, maxPageBytes+n), len(w.buf)+n)))
}

// uncleared returns an empty slice with room for n bytes at least, which were not set to zero, as make does: that is a tenth
// of what a large page costs, and all that is shown of the memory is written first. Of the standard library only
// strings.Builder gives such memory out, and its text is nobody else's here.
func uncleared(n int) []byte {
	var b strings.Builder
	b.Grow(max(n, 1))
	b.WriteByte(0) // an empty text has no address
	return unsafe.Slice(unsafe.StringData(b.String()), b.Cap())[:0]
}

// fit ends the page: memory that is mostly empty is replaced, unless it is used again.
func (w *walk) fit() {
	if w.into != nil {
		w.into.bytes, w.into.changes = w.buf, w.changes
		return
	}
	if len(w.changes) == 0 {
		w.buf = nil
		return
	}
	w.c.change.Store(int64(w.bytes / len(w.changes)))
	if unused := cap(w.changes) - len(w.changes); unused > defaultMaxItems && unused > cap(w.changes)/slack {
		w.changes = append(make([]feed.Change, 0, len(w.changes)), w.changes...)
	}
	if unused := cap(w.buf) - len(w.buf); cap(w.buf) > minBuffer && unused > (w.bytes+unused)/slack {
		w.move(uncleared(len(w.buf)))
	}
}

// move copies the last piece of the page, or all of its buffer, to other memory.
func (w *walk) move(buf []byte) {
	w.buf = append(buf, w.buf...)
	at := 0
	take := func(n int) []byte {
		b := w.buf[at : at+n : at+n]
		at += n
		return b
	}
	for i := w.piece; i < len(w.changes); i++ {
		if w.into != nil && i > 0 {
			at += len(comma)
		}
		c := &w.changes[i]
		if c.Current != nil {
			c.Current = take(len(c.Current))
		}
		if c.Previous != nil {
			c.Previous = take(len(c.Previous))
		}
	}
}
