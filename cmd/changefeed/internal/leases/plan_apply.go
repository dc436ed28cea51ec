package leases

import (
	"context"
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Apply carries out steps in their order, each by compare-and-set, and tells done of each. It ends
// with the first that fails: what was done is right by itself, and the plan is made anew by whoever
// goes on. Errors: *[ChangedError]: somebody else wrote meanwhile.
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
			return nil // it exists
		}
		return err
	}
	return fmt.Errorf("a step %q is unknown", step.Op)
}

// write creates or replaces a lease.
func (c *Container) write(ctx context.Context, s Survey, step Step) error {
	l := step.After
	if step.Now {
		var err error
		if l, err = c.placeNow(ctx, s, l); err != nil {
			return err
		}
	}
	if s.Codec.Dialect() != lease.DotNet && l.Timestamp.IsZero() {
		l.Timestamp = s.Now // which Java's hosts write with a new lease, .NET's with the first update
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

// placeNow gives l the position at which its feed ends.
func (c *Container) placeNow(ctx context.Context, s Survey, l lease.Lease) (lease.Lease, error) {
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
			return l, fmt.Errorf("find now: %w", err)
		}
		if len(page.Changes) > 0 {
			return l, fmt.Errorf("find now: the feed answered with changes from before")
		}
		l.Continuation = page.Continuation
		return l, nil
	}
	return l, fmt.Errorf("lease %s covers more than one partition: its host has to make leases for each first", l.Token)
}
