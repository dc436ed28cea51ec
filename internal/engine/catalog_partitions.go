package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
)

// A split or a merge changes what partitions there are and which log segments
// they read, and moves no document:
//
//	before    0 [""-FF)  segments 0
//	split     1 [""-1F)  segments 0, 1      2 [1F-FF)  segments 0, 2
//	merge     3 [""-FF)  segments 0, 1, 2, 3
//
// A partition writes to its own segment and reads all of its list, as far as the
// keys lie in its range. The sequencer makes the change between two groups of writes, so no write
// sees half of it; readers see it with the next view, in which the old partition
// is gone and the new ones are there.

// Partitions returns the live partitions in the order of their ranges.
func (c *Container) Partitions(ctx context.Context) ([]feed.Partition, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v, s, err := c.open()
	if err != nil {
		return nil, err
	}
	defer v.release()
	all := make([]feed.Partition, len(s.meta.partitions))
	for i, p := range s.meta.partitions {
		all[i] = p.public()
	}
	return all, nil
}

// Split divides a partition in two at the effective partition key at (hex);
// empty: the middle of its range. Readers and writers go on; the old ID is
// retired and never used again. It returns the two new partitions. Errors:
// *feed.GoneError, when the partition isn't live; *[BadRequestError], when at
// isn't inside its range.
func (c *Container) Split(ctx context.Context, id, at string) ([]feed.Partition, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var made []*partition
	err := c.db.do(func(g *group) (err error) {
		made, err = g.split(c, id, at)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("split partition %s: %w", id, err)
	}
	return []feed.Partition{made[0].public(), made[1].public()}, nil
}

func (g *group) split(c *Container, id, at string) ([]*partition, error) {
	l := g.db.ledger(c)
	if l == nil {
		return nil, notFound("container %s", c.name)
	}
	place := l.meta.byID(id)
	if place < 0 {
		return nil, gone(id, feed.Range{})
	}
	old := l.meta.partitions[place]
	if at == "" {
		mid, err := c.hash.Midpoint(old.keys.Min, old.keys.Max)
		if err != nil {
			return nil, badRequest(BadRange, "%v", err)
		}
		at = mid
	}
	at = evenHex(at) // whole bytes, so that the new ranges can be halved again
	if !isHex(at) || at <= old.keys.Min || at >= old.keys.Max {
		return nil, badRequest(BadRange, "%q is no upper-case hexadecimal key inside %s", at, old.keys)
	}
	return g.rearrange(l, place, 1, []feed.Range{{Min: old.keys.Min, Max: at}, {Min: at, Max: old.keys.Max}})
}

// Merge makes one partition of two neighbours. Errors: *feed.GoneError, when one
// isn't live; *[BadRequestError], when they are no neighbours.
func (c *Container) Merge(ctx context.Context, a, b string) (feed.Partition, error) {
	if err := ctx.Err(); err != nil {
		return feed.Partition{}, err
	}
	var made []*partition
	err := c.db.do(func(g *group) (err error) {
		made, err = g.merge(c, a, b)
		return err
	})
	if err != nil {
		return feed.Partition{}, fmt.Errorf("merge partitions %s and %s: %w", a, b, err)
	}
	return made[0].public(), nil
}

func (g *group) merge(c *Container, a, b string) ([]*partition, error) {
	l := g.db.ledger(c)
	if l == nil {
		return nil, notFound("container %s", c.name)
	}
	first, second := l.meta.byID(a), l.meta.byID(b)
	if first < 0 {
		return nil, gone(a, feed.Range{})
	}
	if second < 0 {
		return nil, gone(b, feed.Range{})
	}
	if first > second {
		first, second = second, first
	}
	if first+1 != second {
		return nil, badRequest(BadRange, "partitions %s and %s are no neighbours", a, b)
	}
	parts := l.meta.partitions
	return g.rearrange(l, first, 2, []feed.Range{{Min: parts[first].keys.Min, Max: parts[second].keys.Max}})
}

// rearrange puts new partitions of the given ranges in the place of n old ones.
func (g *group) rearrange(l *ledger, place, n int, ranges []feed.Range) ([]*partition, error) {
	m := l.meta.change()
	old := l.meta.partitions[place : place+n]
	end := slices.Max(l.ends[place : place+n])
	segments, parents, losses := m.retire(old, l.ends[place:place+n])
	made := make([]*partition, len(ranges))
	ends := make([]int64, len(ranges))
	for i, keys := range ranges {
		own := m.next
		m.next++
		p, err := newPartition(own, keys, append(slices.Clone(segments), own), slices.Clone(parents))
		if err != nil {
			return nil, err
		}
		// The new partitions begin where the old ones ended, so that no counter goes back.
		p.changed.advance(end)
		made[i], ends[i] = p, end
		for _, lost := range losses {
			p.losses = addLoss(p.losses, lost.keys().Intersect(keys), lost.LSN)
		}
		m.segments[own] = segment{From: end, Min: keys.Min, Max: keys.Max}
	}
	for _, p := range old {
		if err := g.batch.Delete(partitionKeyOf(l.c.number, p.number), nil); err != nil {
			return nil, err
		}
		g.retired = append(g.retired, p.changed)
	}
	m.partitions = slices.Replace(m.partitions, place, place+n, made...)
	l.replace(g, m, slices.Replace(slices.Clone(l.ends), place, place+n, ends...))
	return made, nil
}

// retire closes the segments of partitions that are replaced, and returns what their
// successors inherit: the segments to read, in the order of their first LSN, the
// ancestors, and what was lost in segments that are not passed on. A segment that
// nothing was written to is not.
func (m *meta) retire(old []*partition, ends []int64) (segments []uint32, parents []string, losses []loss) {
	for i, p := range old {
		losses = append(losses, p.losses...) // of neighbours, in the order of their ranges
		own := m.segments[p.number]
		if own.To = ends[i]; own.To == own.From {
			losses = addLoss(losses, own.keys(), own.Trimmed)
			delete(m.segments, p.number)
		} else {
			m.segments[p.number] = own
		}
		for _, s := range p.segments {
			if _, there := m.segments[s]; there && !slices.Contains(segments, s) {
				segments = append(segments, s)
			}
		}
		for _, id := range append(slices.Clone(p.parents), p.id) {
			if !slices.Contains(parents, id) {
				parents = append(parents, id)
			}
		}
	}
	m.sortSegments(segments)
	return segments, parents, losses
}

// sortSegments puts segments in the order of their first LSN.
func (m *meta) sortSegments(segments []uint32) {
	slices.SortStableFunc(segments, func(a, b uint32) int { return cmp.Compare(m.segments[a].From, m.segments[b].From) })
}

// isHex reports whether s is upper-case hexadecimal.
func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}
