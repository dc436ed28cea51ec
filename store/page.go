package store

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/changefeed-go/changefeed/feed"
)

// A page has one buffer, which its changes are slices of and which the reader may keep. How
// large it will be is not known before, so it is guessed from the mean change of
// the container, and made anew when the guess was wrong.

// slack is how much of a buffer may stay unused: a reader that keeps a page should
// not keep much more than the page.
const slack = 4 // a fourth

// minBuffer is the smallest buffer worth to be cut down.
const minBuffer = 4 << 10

// expect guesses how many changes a page will have: never more than were asked for, than there are
// LSNs, or than fit into its bytes. The number asked for may be anything, and LSNs
// without a change are what updates leave behind.
func (w *walk) expect(end int64) int {
	mean := max(w.c.change.Load(), int64(w.c.tail.fixedSize()))
	return int(min(int64(w.max), end-w.position, maxPageBytes/mean+1))
}

// append copies b to the page's buffer.
func (w *walk) append(b []byte) {
	if len(w.buf)+len(b) > cap(w.buf) {
		w.grow(len(b))
	}
	w.buf = append(w.buf, b...)
}

// grow makes room for n bytes more at least, and moves what is there.
func (w *walk) grow(n int) {
	size := 2 * cap(w.buf)
	if w.buf == nil {
		mean := int(w.c.change.Load())
		size = (mean + mean/16) * w.room
		w.changes = slices.Grow(w.changes, w.room)
	}
	// The page ends behind maxPageBytes, but for a transaction that reaches beyond it.
	size = max(min(size, maxPageBytes+n), len(w.buf)+n)
	w.move(uncleared(size))
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

// fit ends the page: a buffer that is mostly empty is replaced, unless it is used again.
func (w *walk) fit() {
	if w.into != nil {
		w.into.bytes, w.into.changes = w.buf, w.changes
		return
	}
	if len(w.changes) == 0 {
		w.buf = nil
		return
	}
	w.c.change.Store(int64(len(w.buf) / len(w.changes)))
	if unused := cap(w.changes) - len(w.changes); unused > defaultMaxItems && unused > cap(w.changes)/slack {
		w.changes = append(make([]feed.Change, 0, len(w.changes)), w.changes...)
	}
	if unused := cap(w.buf) - len(w.buf); cap(w.buf) > minBuffer && unused > cap(w.buf)/slack {
		w.move(uncleared(len(w.buf)))
	}
}

// move copies the page to another buffer.
func (w *walk) move(buf []byte) {
	w.buf = append(buf, w.buf...)
	at := 0
	take := func(n int) []byte {
		b := w.buf[at : at+n : at+n]
		at += n
		return b
	}
	for i := range w.changes {
		if i > 0 {
			at += w.gap
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
