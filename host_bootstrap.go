package changefeed

import (
	"context"
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Bootstrap needs no lock: lease ids follow from the partitions, documents are
// created on condition that they don't exist, and the marker comes last. What it
// promises is that every change written after the marker exists is delivered. It
// rests on one order: a position is resolved BEFORE its creator finds the marker
// absent. Then it is older than the marker, whoever creates the lease, however
// late, and from however old a list of partitions.
//
//	resolve now (if that is the start) -> partitions -> listing without marker, with a gap -> create
//	                                                    listing without marker, without a gap -> create the marker
//
// Was the order the other way round: A lists partition 0; it splits; B lists
// partitions 1 and 2 and finds no marker; A creates the lease of 0 and the marker;
// change 1 is written; B resolves "now", behind change 1, and creates the lease
// of 1. A's lease of 0 finds its children existing, and change 1 is lost.

// starts are the positions that "now" was, per partition, resolved by this host
// for a bootstrap that is not finished.
type starts struct {
	// plain: the configured start isn't now and needs no resolving.
	plain bool
	now   []startOf
}

type startOf struct {
	r  feed.Range
	at feed.Continuation
}

// resolved reports whether positions are there.
func (s *starts) resolved() bool { return s.plain || len(s.now) > 0 }

// forget drops them: the marker exists. Should it vanish, a new bootstrap has a
// new now.
func (s *starts) forget() { s.now = nil }

// of is the position for a lease of range r: that of the partition that held the
// range when "now" was resolved. It is good for the partition's descendants,
// whose feed goes on where the partition's ended.
func (s *starts) of(r feed.Range) (feed.Continuation, bool) {
	for _, start := range s.now {
		if start.r.Contains(r) {
			return start.at, true
		}
	}
	return "", false
}

// prepare resolves the start, unless that was done or the leases are marked as
// initialised, and then asks for the partitions.
func (c *cycle) prepare(marked bool) ([]feed.Partition, error) {
	if !marked && !c.starts.resolved() {
		if err := c.resolve(); err != nil {
			return nil, err
		}
	}
	return c.partitions()
}

// resolve reads where each partition's feed ends: that is now.
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
				c.out.fatal = err // all versions of a container that keeps none, for instance
			}
			return c.failed(err)
		}
		now = append(now, startOf{p.Range, at})
	}
	c.starts.now = now
	return nil
}

// create makes the leases that are missing. That one exists is fine: another host
// was faster.
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

// started gives a lease that is to start now its position. At bootstrap that is
// the one resolved. One that is healed has lost its position and with it, in all
// versions and deletes, which can't be read from a time, what was written since.
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
