package changefeed

import (
	"context"
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
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

// starts holds the positions that this host resolved for "now", per partition, during a
// bootstrap that is not finished.
type starts struct {
	// plain reports whether the configured start is not "now". If so, nothing is
	// resolved.
	plain bool
	now   []startOf
}

type startOf struct {
	r  feed.Range
	at feed.Continuation
}

// resolved reports whether the positions are resolved.
func (s *starts) resolved() bool { return s.plain || len(s.now) > 0 }

// forget drops the positions, because the marker exists. If the marker vanishes, a new
// bootstrap resolves a new "now".
func (s *starts) forget() { s.now = nil }

// of returns the position for a lease of range r. It is the position of the partition
// that held the range when "now" was resolved. It is also valid for descendants of the
// partition, whose feed continues the partition's.
func (s *starts) of(r feed.Range) (feed.Continuation, bool) {
	for _, start := range s.now {
		if start.r.Contains(r) {
			return start.at, true
		}
	}
	return "", false
}

// prepare lists the partitions. Before that it resolves the start, unless the start is
// resolved or the leases are marked as initialised.
func (c *cycle) prepare(marked bool) ([]feed.Partition, error) {
	if !marked && !c.starts.resolved() {
		if err := c.resolve(); err != nil {
			return nil, err
		}
	}
	return c.partitions()
}

// resolve reads the end of each partition's feed, which is "now".
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
		at, err := c.resolveNow(c.ctx, feed.Request{Partition: p, Mode: c.cfg.Mode})
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

// create creates the missing leases. A lease may exist already, because another host may
// have created it first.
func (c *cycle) create(missing []lease.Lease, marked bool) error {
	if !marked && len(missing) > 1 && c.cfg.Start.Kind() == feed.StartContinuation {
		c.out.fatal = &ConfigError{"Start", fmt.Sprintf("is a continuation, which can start one lease only; there are %d to start", len(missing))}
		return c.out.fatal
	}
	for _, l := range missing {
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		l, err := c.started(l, marked)
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

// started returns l. If l starts at "now", it adds the position. During bootstrap that is
// the resolved position. Afterwards l heals a gap in all versions and deletes mode, which
// cannot be read from a time. Then it is the current position, and the versions written
// since the lost one are lost as well.
func (c *cycle) started(l lease.Lease, marked bool) (lease.Lease, error) {
	if l.Start(feed.Now()).Kind() != feed.StartNow {
		return l, nil
	}
	if !marked {
		at, ok := c.starts.of(l.Range)
		if !ok {
			c.starts.forget()
			return l, c.failed(&SourceError{Op: "start " + l.Token, Err: errMerged})
		}
		l.Continuation = at
		return l, nil
	}
	at, err := c.resolveNow(c.ctx, c.requestFor(l))
	if err != nil {
		return l, c.failed(&SourceError{Op: "find out where range " + l.Range.String() + " is now", Err: err})
	}
	c.fail(l.Token, &SourceError{Op: "heal range " + l.Range.String(), Err: &feed.HistoryLostError{
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
	switch o, _ := judge(err, c.owner, "", ""); o {
	case applied, mine, moved, taken:
		return nil
	case absent, refused, unknown:
	}
	return c.failed(&LeaseStoreError{Op: op, Err: err})
}
