package protocol

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// End is a partition's range, and the LSN of the last write to it, which is -1 if the source cannot
// report it.
type End struct {
	feed.Range
	LSN int64
}

// Ends returns the ends of all partitions of a source. If one is split or merged before its end is
// read, Ends begins again, up to nine times.
func Ends(ctx context.Context, source feed.Source, mode feed.Mode) (ends []End, err error) {
	const attempts, delay = 10, 500 * time.Millisecond
	for range attempts {
		ends, err = readEnds(ctx, source, mode)
		if _, gone := errors.AsType[*feed.GoneError](err); !gone {
			break
		}
		if err := follow.Sleep(ctx, delay); err != nil {
			return nil, err
		}
	}
	return ends, err
}

func readEnds(ctx context.Context, source feed.Source, mode feed.Mode) ([]End, error) {
	partitions, err := source.Partitions(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the partitions: %w", err)
	}
	ends := make([]End, 0, len(partitions))
	for _, p := range partitions {
		page, err := source.Read(ctx, feed.Request{Range: p.Range, Mode: mode, From: feed.Now(), MaxItems: 1})
		if err != nil {
			return nil, fmt.Errorf("find the end of partition %s: %w", p.ID, err)
		}
		ends = append(ends, End{p.Range, page.End})
	}
	return ends, nil
}
