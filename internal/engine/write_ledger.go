package engine

import "slices"

// ledger is the sequencer's own knowledge of a container: what the next write
// needs. Only the sequencer touches it.
type ledger struct {
	c    *Container
	meta *meta
	// lsn and docs are the last LSN and document number given in the container.
	lsn  int64
	docs uint32
	// ends has the last LSN of each partition of meta, and grown what was added to each.
	ends  []int64
	grown []growth
	// touched are the partitions written to since the last flush; changed tells that
	// meta was. Both are of the group at hand; isDirty tells that the group lists the ledger.
	touched []int
	changed bool
	isDirty bool
}

// touch notes that a partition, by its place in meta, has a new last LSN.
func (l *ledger) touch(g *group, place int, lsn int64) {
	l.lsn = lsn
	l.ends[place] = lsn
	g.mark = mark{container: l.c.number, partition: l.meta.partitions[place].number, lsn: lsn}
	if !slices.Contains(l.touched, place) {
		l.touched = append(l.touched, place)
	}
	l.mark(g)
}

// replace puts m in the place of l's meta; all partitions of m are written anew.
func (l *ledger) replace(g *group, m *meta, ends []int64) {
	l.grown = l.carry(m)
	l.meta, l.ends, l.changed = m, ends, true
	l.touched = l.touched[:0]
	for i := range m.partitions {
		l.touched = append(l.touched, i)
	}
	l.mark(g)
}

func (l *ledger) mark(g *group) {
	if !l.isDirty {
		l.isDirty = true
		g.dirty = append(g.dirty, l)
	}
}

// flush writes what the group changed of the ledger, unless the group deleted
// the container.
func (l *ledger) flush(g *group) error {
	l.isDirty = false
	if g.db.ledgers[l.c.slot] != l {
		return nil
	}
	for _, place := range l.touched {
		p := l.meta.partitions[place]
		value := counters{lsn: l.ends[place], docs: l.docs, ts: g.ts}.encode()
		if err := g.batch.Set(partitionKeyOf(l.c.number, p.number), value[:], nil); err != nil {
			return err
		}
	}
	if l.changed {
		record, err := l.meta.record(l.c)
		if err != nil {
			return err
		}
		return g.batch.Set(containerKey(l.c.number), record, nil)
	}
	return nil
}

// state is what readers get to see of the ledger.
func (l *ledger) state() *state {
	return &state{c: l.c, meta: l.meta, ends: slices.Clone(l.ends), grown: slices.Clone(l.grown)}
}

// announce wakes the readers that wait for what was published.
func (l *ledger) announce() {
	l.c.changed.advance(l.lsn)
	for _, place := range l.touched {
		l.meta.partitions[place].changed.advance(l.ends[place])
	}
	l.touched = l.touched[:0]
	if l.changed {
		l.changed = false
		l.c.db.kickJanitor()
	}
}
