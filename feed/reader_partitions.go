package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
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
	reroutes := 0
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
		var gone *GoneError
		switch {
		case errors.As(err, &gone) && reroutes < maxReroutes:
			reroutes++
			if err := r.reroute(ctx, c, gone); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("find now in range %s: %w", c.rng, err)
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

// reroute replaces the cursor c, whose partition is gone. It creates one cursor for each
// current partition in c's range. They have c's position and count as unread.
func (r *Reader) reroute(ctx context.Context, c *cursor, gone *GoneError) error {
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
	pieces, err := c.cut(lost, partitions)
	if err != nil {
		return err
	}
	i := slices.Index(r.cursors, c)
	r.cursors = slices.Concat(r.cursors[:i], pieces, r.cursors[i+1:])
	return nil
}

// partitions returns the live partitions of the container, in the order of their ranges.
func (r *Reader) partitions(ctx context.Context) ([]Partition, error) {
	partitions, err := r.source.Partitions(ctx)
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	sorted := append([]Partition(nil), partitions...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].Range.Min < sorted[j].Range.Min })
	return sorted, nil
}

// cut returns one cursor for each partition that holds a part of rng, which lies in c's
// range. It returns an error if no partition holds some part of rng, because the changes
// of that part would be lost.
func (c *cursor) cut(rng Range, partitions []Partition) ([]*cursor, error) {
	var pieces []*cursor
	covered := rng.Min
	for _, p := range partitions {
		if !p.Range.Overlaps(rng) {
			continue
		}
		piece := p.Range.Intersect(rng)
		if piece.Min != covered {
			break
		}
		pieces = append(pieces, &cursor{partition: p, rng: piece, from: c.from, active: c.active, gone: c.gone + 1, until: c.until})
		covered = piece.Max
	}
	if covered != rng.Max {
		return nil, fmt.Errorf("no partition holds the range %s", Range{Min: covered, Max: rng.Max})
	}
	return pieces, nil
}
