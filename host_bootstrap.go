package changefeed

import (
	"context"
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Bootstrap needs no lock. Lease IDs follow from the partitions, documents are created on
// condition that they do not exist, and the marker comes last. Bootstrap promises that
// every change written after the marker exists is delivered. The promise rests on one
// order: a host resolves a position BEFORE it finds the marker absent. Then the position
// is older than the marker. It does not matter which host creates the lease, when it does
// so, or how old its list of partitions is.
//
//	resolve now (if that is the start) -> partitions -> listing without marker, with a gap -> create
//	                                                    listing without marker, without a gap -> create the marker
//
// With the other order a change could be lost:
//
//  1. Host A lists partition 0, which then splits.
//  2. Host B lists partitions 1 and 2 and finds no marker.
//  3. A creates the lease of 0 and the marker.
//  4. Change 1 is written.
//  5. B resolves "now", a position after change 1, and creates the lease of 1.
//  6. A's lease of 0 finds the leases of its children, and change 1 is lost.

// starts holds the positions to which this host has resolved "now", one for each
// partition. It holds them until the marker exists.
type starts struct {
	// plain reports whether the configured start is not "now". If so, there is nothing to
	// resolve.
	plain bool
	now   []startOf
}

type startOf struct {
	r  feed.Range
	at feed.Continuation
}

// resolved reports whether leases can be created: the start is plain, or "now" was
// resolved.
func (s *starts) resolved() bool { return s.plain || len(s.now) > 0 }

// forget drops the positions after the marker was found. If the marker is deleted later,
// "now" is resolved again.
func (s *starts) forget() { s.now = nil }

// of returns the start position of a new lease of range r. It is the position of the
// partition that contained r when "now" was resolved. The partition may have split since.
// The position remains valid, because the feeds of its descendants continue its feed.
func (s *starts) of(r feed.Range) (feed.Continuation, bool) {
	for _, start := range s.now {
		if start.r.Contains(r) {
			return start.at, true
		}
	}
	return "", false
}

// prepare returns the live partitions. It resolves "now" first, unless that was done
// before or the leases are marked as initialised.
func (c *cycle) prepare(initialized bool) ([]feed.Partition, error) {
	if !initialized && !c.starts.resolved() {
		if err := c.resolve(); err != nil {
			return nil, err
		}
	}
	return c.partitions()
}

// resolve reads the position at the end of each partition's feed, which is the meaning of
// "now".
func (c *cycle) resolve() error {
	partitions, err := c.partitions()
	if err != nil {
		return err
	}
	now := make([]startOf, 0, len(partitions))
	for _, p := range partitions {
		if !p.Range.Overlaps(c.cfg.Range) {
			continue
		}
		at, err := c.resolveNow(c.ctx, feed.Request{Partition: p, Mode: c.cfg.Mode, From: feed.Now()})
		if err != nil {
			err = &SourceError{Op: "find out where partition " + p.ID + " is now", Err: err}
			if c.first && errors.Is(err, feed.ErrUnsupported) {
				c.out.fatal = err // for instance: the container does not keep all versions
			}
			return c.failed(err)
		}
		now = append(now, startOf{p.Range, at})
	}
	c.starts.now = now
	return nil
}

// create creates the missing leases. It ignores a conflict, because another host may have
// created the lease first.
func (c *cycle) create(missing []lease.Lease, initialized bool) error {
	if !initialized && len(missing) > 1 && c.cfg.Start.Kind() == feed.StartContinuation {
		c.out.fatal = &ConfigError{"Start", fmt.Sprintf("is a continuation, which can start one lease only; there are %d to start", len(missing))}
		return c.out.fatal
	}
	for _, l := range missing {
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		l, err := c.started(l, initialized)
		if err != nil {
			return err
		}
		l.Timestamp = c.clock().Wall.UTC()
		if err := c.createOne(l); err != nil {
			return err
		}
	}
	return nil
}

var errMerged = errors.New("partitions were merged while the start was resolved")

// started returns l with a position if l would start at "now"; otherwise it returns l.
// Before the marker exists, that is the position to which the host has resolved "now".
//
// After that, l replaces a lost lease in all versions and deletes mode, which cannot be
// read from a time. Then it is the current position. The versions since the last position
// of the lost lease are lost as well.
func (c *cycle) started(l lease.Lease, initialized bool) (lease.Lease, error) {
	if l.Start(feed.Now()).Kind() != feed.StartNow {
		return l, nil
	}
	if !initialized {
		at, ok := c.starts.of(l.Range)
		if !ok {
			c.starts.forget()
			return l, c.failed(&SourceError{Op: "start " + l.Token, Err: errMerged})
		}
		l.Continuation = at
		return l, nil
	}
	at, err := c.resolveNow(c.ctx, protocol.ReadOf(l, c.cfg.Mode, feed.Now()))
	if err != nil {
		return l, c.failed(&SourceError{Op: "find out where range " + l.Range.String() + " is now", Err: err})
	}
	c.host.report(l.Token, &SourceError{Op: "heal range " + l.Range.String(), Err: &feed.HistoryLostError{
		Reason: "its lease was deleted; it starts again from now, and the versions written since its last position are lost",
		Oldest: at,
	}})
	l.Continuation = at
	return l, nil
}

func (c *cycle) createOne(l lease.Lease) error {
	op := "create " + l.Token
	err := c.insist(op, func(ctx context.Context) error {
		_, err := c.store.Create(ctx, l)
		return err
	})
	switch o, _ := protocol.Judge(err, c.owner, "", ""); o {
	case protocol.Applied, protocol.Mine, protocol.Moved, protocol.Lost:
		return nil
	case protocol.Absent, protocol.Refused, protocol.Unknown:
	}
	return c.failed(&LeaseStoreError{Op: op, Err: err})
}
