package engine

import (
	"context"
	"sync"

	"github.com/changefeed-go/changefeed/storetype"
)

// The store does not write the number of items of a partition to disk. It computes it
// from two parts. The sequencer sums the growth of each partition since the store was
// opened or the partition was created. Each view has those sums. The first call of
// PartitionStats counts the items that existed before. Both parts together are exact in
// every view.

// PartitionStats implements store.Container.PartitionStats, which documents it.
func (c *Container) PartitionStats(ctx context.Context) ([]storetype.PartitionStats, error) {
	v, s, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	defer v.release()
	all := make([]storetype.PartitionStats, len(s.meta.partitions))
	for i, p := range s.meta.partitions {
		base, known := p.size.get()
		if !known {
			if base, err = c.countItems(ctx, v, p); err != nil {
				return nil, err
			}
			// The count less the growth is the size before the growth began. It is the
			// same for every view, so concurrent calls set the same value.
			base.add(s.grown[i].negated())
			p.size.set(base)
		}
		base.add(s.grown[i])
		all[i] = storetype.PartitionStats{Partition: p.public(), LSN: s.ends[i], Items: base.items, Bytes: base.bytes}
	}
	return all, nil
}

// Ends returns the live partitions with their last LSNs, sorted by range.
func (c *Container) Ends(ctx context.Context) ([]PartitionEnd, error) {
	v, s, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	defer v.release()
	return served(s.meta.partitions, s.ends), nil
}

// countItems returns the number and the size of a partition's items in a view.
func (c *Container) countItems(ctx context.Context, v *view, p *partition) (n growth, err error) {
	sc := keyFilter{keys: p.keys, lower: p.lower, upper: p.upper}
	err = c.scanIndex(ctx, v, &sc, nil, nil, func(i *indexed) (bool, error) {
		n.add(growth{items: 1, bytes: int64(i.Size)})
		return true, nil
	})
	return n, err
}

// growth is a change of a partition's size: in items, and in bytes of stored documents.
type growth struct {
	items, bytes int64
}

func (g *growth) add(other growth) {
	g.items += other.items
	g.bytes += other.bytes
}

func (g growth) negated() growth { return growth{-g.items, -g.bytes} }

// growth returns the change of the partition's size that the write e makes.
func (e *effect) growth(l *writeState) (g growth) {
	if e.old.exists {
		g.add(growth{-1, -int64(e.old.Size)})
	}
	if !e.remove {
		g.add(growth{1, int64(l.c.tail.StoredSize(e.body, e.stamp))})
	}
	return g
}

// carry returns the growth of each partition of m, which replaces l.meta. A partition
// that stays keeps its growth. A new partition starts with zero.
func (l *writeState) carry(m *meta) []growth {
	grown := make([]growth, len(m.partitions))
	if l.meta == nil {
		return grown
	}
	was := make(map[uint32]growth, len(l.grown))
	for i, p := range l.meta.partitions {
		was[p.number] = l.grown[i]
	}
	for i, p := range m.partitions {
		grown[i] = was[p.number]
	}
	return grown
}

// tally is the size of a partition at the moment from which the sequencer sums its
// growth.
type tally struct {
	mu    sync.Mutex // guards all fields
	known bool       // reports whether was, the size, has been counted
	was   growth
}

func (t *tally) get() (was growth, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.was, t.known
}

func (t *tally) set(was growth) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.was, t.known = was, true
}
