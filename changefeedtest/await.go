package changefeedtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// The time between two looks at the leases is a tenth of the time since the call, within
// these bounds. So a test waits for at most a tenth longer than it must, and a bubble that
// waits for an hour of fake time does not look thousands of times.
const (
	awaitShortest = 10 * time.Millisecond
	awaitLongest  = time.Second
)

// Await waits until a processor has handled every change that its container has now, so that a
// test may look at the result without sleeping. cfg is the processor's configuration, and its
// hosts run already or start soon. Changes that are written during the wait are not waited for.
//
// Await looks at the leases and returns once every stored position has passed the changes. So it
// waits for checkpoints, too: with Checkpoint.Interval or Checkpoint.Manual that may take longer
// than the handler. Changes that Config.Filter hides, or that are older than the leases' start,
// count as handled. Await works over any engine and across splits, and in a [testing/synctest]
// bubble it takes fake time.
//
// If ctx ends first, Await returns an error that names a lease, its position and what it
// waits for. If the handler has stopped a lease ([changefeed.Stop]), Await returns an error at
// once, because nothing but an operator would make it go on.
func Await(ctx context.Context, cfg changefeed.Config) error {
	cfg.Metrics = nil
	if _, err := changefeed.New(cfg); err != nil {
		return fmt.Errorf("await: %w", err)
	}
	const timeout = 10 * time.Second // for one request
	store, _, err := protocol.Open(ctx, cfg.Source, cfg.Leases, lease.Key{Processor: cfg.Processor, Mode: cfg.Mode}, timeout)
	if err != nil {
		return fmt.Errorf("await: %w", err)
	}
	a, began := await{cfg: cfg, store: store}, time.Now()
	if err := a.find(ctx); err != nil {
		return fmt.Errorf("await: %w", err)
	}
	for {
		waits, err := a.look(ctx)
		switch {
		case ctx.Err() != nil:
			if a.waits == nil { // the last look may have been cut short, so the one before says more
				a.waits = errors.Join(waits, err)
			}
			return fmt.Errorf("await: %w: %w", context.Cause(ctx), a.waits)
		case err != nil:
			return fmt.Errorf("await: %w", err)
		case waits == nil:
			return nil
		}
		a.waits = waits
		select {
		case <-time.After(min(max(time.Since(began)/10, awaitShortest), awaitLongest)):
		case <-ctx.Done():
		}
	}
}

// await is one call of Await.
type await struct {
	cfg   changefeed.Config
	store lease.Store
	// ends has the ends of the ranges of cfg when the call began.
	ends []protocol.End
	// waits says what the last look has found undone.
	waits error
}

// find finds the ends of the feeds.
func (a *await) find(ctx context.Context) (err error) {
	a.ends, err = protocol.Ends(ctx, a.cfg.Source, a.cfg.Mode)
	for i, e := range a.ends {
		if e.LSN < 0 {
			return fmt.Errorf("the source does not report the LSN of its end: %w", feed.ErrUnsupported)
		}
		a.ends[i].Range = e.Intersect(a.cfg.Range.OrFull())
	}
	return err
}

// look looks at the leases once. It returns in waits what is undone, or nil.
func (a *await) look(ctx context.Context) (waits, err error) {
	partitions, err := a.cfg.Source.Partitions(ctx)
	if err != nil {
		return fmt.Errorf("the partitions cannot be listed: %w", err), nil
	}
	listing, err := a.store.List(ctx)
	if err != nil {
		return fmt.Errorf("the leases cannot be listed: %w", err), nil
	}
	leases := protocol.WithRanges(listing, partitions).Leases
	for _, l := range leases {
		if stop := protocol.StopOf(l); !stop.IsZero() {
			return nil, fmt.Errorf("lease %s is stopped: %s", l.Token, stop.Reason)
		}
	}
	for _, e := range a.ends {
		over, at := follow.Over(e.Range, leases, func(l lease.Lease) feed.Range { return l.Range })
		if !e.IsEmpty() && at != e.Max {
			return fmt.Errorf("the leases do not cover the keys %s: no host has created them, or a split is under way", e.Range), nil
		}
		for _, l := range over {
			if waits := a.unread(ctx, l, e.LSN); waits != nil {
				return waits, nil
			}
		}
	}
	return nil, nil
}

// unread returns an error if a lease has not passed the changes up to an LSN yet.
func (a *await) unread(ctx context.Context, l lease.Lease, lsn int64) error {
	from := l.Start(a.cfg.Start)
	if from.Kind() == feed.StartNow {
		return fmt.Errorf("lease %s has no position yet", l.Token)
	}
	r := protocol.ReadOf(l, a.cfg.Mode, from)
	r.MaxItems = 1
	page, err := protocol.FirstPage(ctx, a.cfg.Source.Read, r)
	switch {
	case err != nil:
		return fmt.Errorf("lease %s cannot be read from %s: %w", l.Token, from, err)
	case len(page.Changes) > 0 && page.Changes[0].LSN <= lsn:
		return fmt.Errorf("lease %s has not handled the change at LSN %d; it waits for LSN %d", l.Token, page.Changes[0].LSN, lsn)
	}
	return nil
}
