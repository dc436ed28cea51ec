package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/changefeed-go/changefeed/internal/follow"
)

// begin creates the cursors. If the start is now, it resolves "now" for every cursor
// before the first page is read. Otherwise a change in a part that is read late would
// precede that part's "now" and be lost. After an error the next call continues where
// this one stopped.
func (r *Reader) begin(ctx context.Context) error {
	if r.begun {
		return nil
	}
	if err := r.identify(ctx); err != nil {
		return err
	}
	if err := r.assignPartitions(ctx); err != nil {
		return err
	}
	for i := 0; i < len(r.cursors); {
		c := r.cursors[i]
		if c.from.Kind() != StartNow {
			i++
			continue
		}
		// MaxItems and Wait are not set, because a read from now returns no changes.
		page, err := r.source.Read(ctx, Request{
			Partition: c.partition,
			Range:     r.request(c).Range,
			Key:       r.cfg.Key,
			From:      Now(),
			Mode:      r.cfg.Mode,
		})
		switch {
		case err != nil:
			if err := r.reroute(ctx, c, err); err != nil {
				return fmt.Errorf("find now: %w", err)
			}
		case len(page.Changes) > 0:
			return fmt.Errorf("find now in range %s: the source returned %d older changes", c.rng, len(page.Changes))
		default:
			c.from = After(page.Continuation)
			i++
		}
	}
	r.begun = true
	return nil
}

// identify reads the identity of the container. It returns an error if the reader's
// position belongs to another container.
func (r *Reader) identify(ctx context.Context) error {
	if r.identity.ContainerRID != "" && r.cfg.Position == "" {
		return nil
	}
	id, err := r.source.Identity(ctx)
	if err != nil {
		return fmt.Errorf("identify the container: %w", err)
	}
	if r.cfg.Position != "" && id.ContainerRID != r.identity.ContainerRID {
		return &PositionError{Made: r.identity.ContainerRID, Read: id.ContainerRID}
	}
	r.identity = id
	return nil
}

// assignPartitions creates one cursor for each partition. For a restored position it
// finds the partition of each cursor.
func (r *Reader) assignPartitions(ctx context.Context) error {
	if len(r.cursors) == 0 {
		r.cursors = []*cursor{{rng: r.cfg.Range.OrFull(), from: r.cfg.Start}}
	}
	if r.byKey() {
		return nil
	}
	partitions, err := r.partitions(ctx)
	if err != nil {
		return err
	}
	var assigned []*cursor
	for _, c := range r.cursors {
		if c.partition.ID != "" { // an earlier call has assigned it and failed later
			assigned = append(assigned, c)
			continue
		}
		pieces, err := c.cut(c.rng, partitions)
		if err != nil {
			return err
		}
		assigned = append(assigned, pieces...)
	}
	r.cursors = assigned
	return nil
}

// byKey reports whether the reader follows a full key without a range. Then the source
// finds the partition by the key.
func (r *Reader) byKey() bool {
	return r.cfg.Key != nil && len(r.cursors) == 1 &&
		r.cursors[0].partition.ID == "" && r.cursors[0].rng == Full()
}

// reroute handles the error failed of a read of c. If c's partition is gone, reroute
// replaces c by one cursor for each current partition in c's range. They have c's position
// and count as unread. It returns any other error, with the range. It also returns the
// error of a partition that is gone again and again.
func (r *Reader) reroute(ctx context.Context, c *cursor, failed error) error {
	var gone *GoneError
	switch {
	case !errors.As(failed, &gone):
		return fmt.Errorf("read range %s: %w", c.rng, failed)
	case c.gone == maxReroutes:
		c.gone = 0 // so that the caller may continue
		return fmt.Errorf("gave up after %d attempts: %w", maxReroutes, failed)
	}
	partitions, err := r.partitions(ctx)
	if err != nil {
		return err
	}
	lost := c.rng
	if c.partition.ID == "" && !gone.Range.IsZero() {
		// The keys of a prefix may lie in several partitions, and only the source can
		// compute their range. The error contains it.
		lost = c.rng.Intersect(gone.Range)
	}
	c.gone++
	pieces, err := c.cut(lost, partitions)
	if err != nil {
		return err
	}
	i := slices.Index(r.cursors, c)
	r.cursors = slices.Concat(r.cursors[:i], pieces, r.cursors[i+1:])
	return nil
}

// partitions returns the live partitions of the container.
func (r *Reader) partitions(ctx context.Context) ([]Partition, error) {
	partitions, err := r.source.Partitions(ctx)
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	return partitions, nil
}

// cut returns one cursor for each partition that holds a part of rng, which lies in c's
// range. It returns an error if no partition, or more than one, holds some part of rng,
// because the changes of that part would be lost or repeated.
func (c *cursor) cut(rng Range, partitions []Partition) ([]*cursor, error) {
	over, at := follow.Over(rng, partitions, func(p Partition) Range { return p.Range })
	if at != rng.Max {
		return nil, fmt.Errorf("no partition holds the range %s", Range{Min: at, Max: rng.Max})
	}
	pieces := make([]*cursor, 0, len(over))
	for _, p := range over {
		pieces = append(pieces, &cursor{partition: p, rng: p.Range.Intersect(rng), from: c.from, tail: c.tail, pace: c.pace, gone: c.gone})
	}
	return pieces, nil
}
