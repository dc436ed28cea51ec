package engine

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
)

// PageBuffer is memory for the pages of a feed. Whoever only passes a page on reads the next one into the same memory, which
// spares most of what a page costs. The zero value is ready. It serves one read at a time.
type PageBuffer struct {
	bytes   []byte
	changes []feed.Change
}

// Size is how much memory the buffer holds, in bytes: that of the largest page that was read into it.
func (b *PageBuffer) Size() int { return cap(b.bytes) }

// Text is the documents of the page in the buffer, in latest version mode: one behind the other, with a comma between each two. Like
// the page it is valid until the next read, and must not be changed.
func (b *PageBuffer) Text() []byte { return b.bytes }

// FeedInto is Feed, with the page's changes in the buffer: they, and the documents they are slices of, are valid until the
// next read into it.
func (c *Container) FeedInto(ctx context.Context, r feed.Request, into *PageBuffer) (FeedPage, error) {
	into.bytes, into.changes = into.bytes[:0], into.changes[:0]
	page, sp, err := c.readFeed(ctx, r, true, into)
	if err != nil {
		return FeedPage{}, err
	}
	return FeedPage{Page: page, Served: served(sp.members, sp.ends)}, nil
}

// comma stands between the documents in a PageBuffer.
var comma = []byte(",")

// begin makes the page in the memory that is used again, if there is some.
func (w *walk) begin() {
	if w.into == nil {
		return
	}
	w.buf, w.changes = w.into.bytes[:0], w.into.changes[:0]
}
