package leases

import (
	"context"
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Apply carries out the steps of a plan in order, each by compare-and-set, and calls done
// after each. It ends at the first error. The leases are then consistent, and a new plan
// can continue from them. It returns a *[ChangedError] if another client has written a
// document since the survey.
func (c *Container) Apply(ctx context.Context, s Survey, steps []Step, done func(Step) error) error {
	for _, step := range steps {
		if err := c.apply(ctx, s, step); err != nil {
			return fmt.Errorf("%s: %w", step.Text, err)
		}
		if err := done(step); err != nil {
			return err
		}
	}
	return nil
}

func (c *Container) apply(ctx context.Context, s Survey, step Step) error {
	switch step.Op {
	case Create, Replace:
		return c.write(ctx, s, step)
	case Delete, Unlock, Unmark:
		err := c.Delete(ctx, *step.Before)
		if errors.Is(err, feed.ErrNotFound) {
			return nil
		}
		return err
	case Mark:
		_, err := c.Create(ctx, s.Codec.MarkerID(), s.Codec.MarkerID(), s.Codec.Marker())
		if changed(err) {
			return nil // the marker exists already
		}
		return err
	}
	return fmt.Errorf("unknown step %q", step.Op)
}

// write creates or replaces the lease document of a step.
func (c *Container) write(ctx context.Context, s Survey, step Step) error {
	l := step.After
	if step.Now {
		var err error
		if l, err = c.positionAtEnd(ctx, s, l); err != nil {
			return err
		}
	}
	if s.Codec.Dialect() != lease.DotNet && l.Timestamp.IsZero() {
		l.Timestamp = s.Now // Java's hosts write it with a new lease, .NET's with the first update
	}
	body := step.Raw
	if body == nil {
		body = s.Codec.Encode(l)
	}
	var err error
	if step.Op == Create {
		_, err = c.Create(ctx, s.Codec.LeaseID(l.Token), s.Codec.PartitionKey(l), body)
	} else {
		_, err = c.Replace(ctx, *step.Before, body)
	}
	return err
}

// positionAtEnd returns l with the position at the current end of its feed.
func (c *Container) positionAtEnd(ctx context.Context, s Survey, l lease.Lease) (lease.Lease, error) {
	for _, p := range s.Partitions {
		if !p.Range.Contains(l.Range) {
			continue
		}
		request := feed.Request{Partition: p, Range: l.Range, From: feed.Now(), Mode: l.Mode, MaxItems: 1}
		if l.Range == p.Range {
			request.Range = feed.Range{}
		}
		page, err := c.Source.Read(ctx, request)
		if err != nil {
			return l, fmt.Errorf("find the end of the feed: %w", err)
		}
		if len(page.Changes) > 0 {
			return l, fmt.Errorf("find the end of the feed: the feed returned older changes")
		}
		l.Continuation = page.Continuation
		return l, nil
	}
	return l, fmt.Errorf("lease %s covers more than one partition: its host must first create a lease for each", l.Token)
}
