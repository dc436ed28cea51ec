package protocol

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/lease"
)

// ReadOf returns the request for a page of a lease's feed. A PK-range lease reads its
// partition. An EPK lease reads its range in whichever partition holds it.
func ReadOf(l lease.Lease, mode feed.Mode, from feed.Start) feed.Request {
	if l.PartitionID != "" {
		return feed.Request{Partition: feed.Partition{ID: l.PartitionID, Range: l.Range}, Mode: mode, From: from}
	}
	return feed.Request{Range: l.Range, Mode: mode, From: from}
}

// FirstPage returns the first page with changes after the start of r, and its charge with
// that of all reads. At the end of the feed it returns a page without changes. read is the
// source's Read.
//
// A change after the end that the first page showed was written later than the call began,
// so FirstPage does not look for it.
func FirstPage(ctx context.Context, read func(context.Context, feed.Request) (feed.Page, error), r feed.Request) (feed.Page, error) {
	var tail follow.Tail
	for charge := 0.0; ; {
		page, err := read(ctx, r)
		charge += page.Charge
		page.Charge = charge
		next := feed.After(page.Continuation)
		moved := page.Continuation != "" && next != r.From
		if err != nil || len(page.Changes) > 0 || tail.Empty(page.LSN, page.End, moved) {
			return page, err
		}
		r.From = next
	}
}
