package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// FeedPage is a page of the feed of any part of a container.
type FeedPage struct {
	// Page is as a feed.Source returns it. End is the highest last LSN of the partitions that
	// served the read; SessionToken has a part for each, joined by commas.
	feed.Page
	// Served are the physical partitions that served the read, in the order of their ranges.
	Served []PartitionEnd
}

// PartitionEnd is a physical partition and how far its feed went when it was read: what a session token
// is made of.
type PartitionEnd struct {
	// ID is the partition's.
	ID string
	// End is its last LSN.
	End int64
}

// Feed reads one page of the feed of any part of the container. It is the Read of [DB.Source], but a
// Range or a Key of r may lie in several live partitions, and with none of Partition.ID, Range and Key
// it is the whole container: then the page has the changes of all of them, in the order of their LSNs,
// as of one moment, and transactions whole. Its continuation is right for the whole range: no
// change up to it is returned later, none behind it is left out, also through splits and merges.
// Continuations may be carried from one part of the container to another, and between Feed and Read.
//
// Errors are those of Read; *feed.GoneError only for a Partition.ID that isn't live. Of a range that lies in
// n partitions a page may cost n seeks; those in which nothing has changed since the continuation
// cost none.
func (c *Container) Feed(ctx context.Context, r feed.Request) (FeedPage, error) {
	page, sp, err := c.readFeed(ctx, r, true, nil)
	if err != nil {
		return FeedPage{}, err
	}
	return FeedPage{Page: page, Served: served(sp.members, sp.ends)}, nil
}

// FeedBefore returns an empty page of the same part of the container as Feed would read, whose
// continuation is the last position before the second of t: all changes behind it in latest version mode are
// those with a `_ts` of t's second or later. Without any it is the end of the feed. Of r, only Partition.ID,
// Range and Key are looked at, and Mode, which is latest version (else feed.ErrUnsupported).
func (c *Container) FeedBefore(ctx context.Context, r feed.Request, t time.Time) (FeedPage, error) {
	if r.Mode != feed.LatestVersion {
		return FeedPage{}, fmt.Errorf("a position by time in all versions and deletes mode is %w", feed.ErrUnsupported)
	}
	start := time.Now()
	if err := c.admit(ctx); err != nil {
		return FeedPage{}, err
	}
	sc, err := c.newScope(r.Range, r.Key)
	if err != nil {
		return FeedPage{}, err
	}
	v, s, err := c.open()
	if err != nil {
		return FeedPage{}, err
	}
	defer v.release()
	sp, err := sc.spanIn(s, r.Partition.ID, true)
	if err != nil {
		return FeedPage{}, err
	}
	lsn, err := c.before(v, spaceLog, s.meta, sp.part, t.Unix(), sp.end)
	if err != nil {
		return FeedPage{}, err
	}
	page := FeedPage{Page: sp.page(lsn), Served: served(sp.members, sp.ends)}
	page.Charge = pageCharge(0)
	c.bucket.spend(page.Charge)
	page.Diagnostics.Elapsed = time.Since(start)
	return page, nil
}
