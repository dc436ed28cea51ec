package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// The purger deletes data in the background that is no longer returned: expired items,
// versions past their retention, and empty log segments of retired partitions. It only
// finds them. The sequencer checks them again and deletes them. The purger rests while no
// container has a time to live, a retention or a retired segment.

const (
	// purgeScan is the number of index entries of a container that one round reads. The
	// next round resumes there.
	purgeScan = 20_000
	// purgeBatch is the largest number of items deleted in one request, so that writes do
	// not wait long. With versions, which keep the deleted documents, or unique keys,
	// which read their values, maxGroupBytes also limits the request.
	purgeBatch = 256
	// trimShare is a divisor. The expired versions of a segment are deleted when the
	// oldest one is past the retention by 1/trimShare of it.
	trimShare = 10
)

// wakePurger wakes the purger after a change of a container's settings or segments.
func (db *DB) wakePurger() {
	select {
	case db.kick <- struct{}{}:
	default: // the purger has not received the last signal yet
	}
}

// clean is the purger's goroutine. It runs a round of the purge at every PurgeInterval,
// until the store is closed.
func (db *DB) clean() {
	defer db.background.Done()
	if db.options.PurgeInterval < 0 {
		return
	}
	var tick <-chan time.Time
	sweeps := map[*Container][]byte{}
	for {
		if tick == nil && db.needsPurge() {
			tick = time.After(db.options.PurgeInterval)
		}
		select {
		case <-db.closing:
			return
		case <-db.kick:
			continue
		case <-tick:
			tick = nil
		}
		// Another place has already logged that the disk refuses writes.
		if err := db.purgeOnce(sweeps); err != nil && !errors.Is(err, storetype.ErrClosed) && !errors.As(err, new(*storetype.DiskError)) {
			db.options.Logger.Error("purge failed", slog.Any("error", err))
		}
	}
}

// needsPurge reports whether any container has a time to live, a retention, retired
// segments or partitions that were prepared. Other containers have nothing to purge.
func (db *DB) needsPurge() bool {
	v, err := db.acquireView()
	if err != nil {
		return false
	}
	defer v.release()
	return slices.ContainsFunc(v.states, func(s *state) bool {
		return s != nil && (len(s.meta.prepared) > 0 || s.meta.props.DefaultTTL != layout.TTLOff || s.meta.props.Retention > 0 || len(s.meta.segments) > len(s.meta.partitions))
	})
}

// purgeOnce runs one round of the purge over all containers. sweeps has the item at
// which each container's sweep resumes.
func (db *DB) purgeOnce(sweeps map[*Container][]byte) error {
	v, err := db.acquireView()
	if err != nil {
		return err
	}
	defer v.release()
	for c := range sweeps {
		if _, err := v.state(c); err != nil {
			delete(sweeps, c)
		}
	}
	for _, s := range v.states {
		if s == nil {
			continue
		}
		if s.meta.props.DefaultTTL != layout.TTLOff {
			if sweeps[s.c], err = s.c.sweep(v, s, sweeps[s.c]); err != nil {
				return err
			}
		}
		if s.meta.props.Retention > 0 {
			if err := s.c.trim(v, s); err != nil {
				return err
			}
		}
		if err := s.c.dropEmpty(v, s); err != nil {
			return err
		}
		if len(s.meta.prepared) > 0 {
			// Unless a split or merge is in progress, a crash has interrupted it.
			if err := db.control(func(g *group) error { return g.abortCopy(s.c, nil) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep reads up to purgeScan entries of the index and purges the expired items. It
// starts at the item from, or at the first item if from is nil. It returns the item
// at which the next round resumes, or nil at the end of the index.
func (c *Container) sweep(v *view, s *state, from []byte) (next []byte, err error) {
	now := c.db.clock.seconds()
	var found []operation
	n, kept := 0, 0
	err = c.scanAll(context.Background(), v, from, func(i *indexed) (bool, error) {
		if n++; n > purgeScan {
			next = bytes.Clone(i.rest)
			return false, nil
		}
		if !layout.Expired(i.TS, int32(s.meta.props.DefaultTTL), i.TTL, now) {
			return true, nil
		}
		key := bytes.Clone(i.key)
		found = append(found, operation{key: key, point: key[layout.ContainerKeySize:][:i.at]})
		if s.meta.props.Retention > 0 || c.unique != nil {
			kept += int(i.Size)
		}
		if len(found) == purgeBatch || kept >= maxGroupBytes {
			if err := c.purge(found); err != nil {
				return false, err
			}
			found, kept = found[:0], 0
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return next, c.purge(found)
}

// purge deletes those of the given items that are still expired when the sequencer
// handles the request. Each delete has its own LSN.
func (c *Container) purge(items []operation) error {
	if len(items) == 0 {
		return nil
	}
	return c.db.control(func(g *group) error {
		l := g.db.writeState(c)
		if l == nil {
			return nil
		}
		for i := range items {
			op := &items[i]
			t := g.transaction(l, l.meta.find(op.point))
			old, err := t.find(op.key)
			if err != nil {
				return err
			}
			if !old.exists || !layout.Expired(old.TS, int32(l.meta.props.DefaultTTL), old.TTL, g.ts) {
				continue
			}
			if _, err := t.add(effect{op: op, remove: true, expired: true, old: old}); err != nil {
				return err
			}
			t.perform()
		}
		return nil
	})
}

// trim deletes versions past their retention. Readers check the time of each version
// themselves. So trim only frees space, and may run late.
func (c *Container) trim(v *view, s *state) error {
	cutoff := retentionStart(&s.meta.props, c.db.clock.seconds())
	lazy := cutoff - int64(s.meta.props.Retention/trimShare/time.Second)
	trims := map[uint32]int64{}
	for n, seg := range s.meta.segments {
		oldest, found, err := c.firstAt(v.snap, layout.SpaceVersions, n, seg, 0)
		if err != nil {
			return c.db.fault(err)
		}
		later, stays, err := c.firstAt(v.snap, layout.SpaceVersions, n, seg, lazy)
		if err != nil {
			return c.db.fault(err)
		}
		if !found || stays && later == oldest {
			continue
		}
		lsn, err := c.lastBefore(v.snap, n, seg, cutoff)
		if err != nil {
			return c.db.fault(err)
		}
		trims[n] = lsn
	}
	if len(trims) == 0 {
		return nil
	}
	return c.db.control(func(g *group) error { return g.trim(c, trims) })
}

// lastBefore returns the LSN of the last version in a segment that was written before ts,
// the second of a time.
func (c *Container) lastBefore(r pebble.Reader, number uint32, s segment, ts int64) (lsn int64, err error) {
	next, found, err := c.firstAt(r, layout.SpaceVersions, number, s, ts)
	if err != nil {
		return 0, err
	}
	upTo := layout.MaxLSN
	if found {
		upTo = next - 1
	}
	lower, upper := layout.LogBounds(layout.SpaceVersions, c.number, number, s.From, upTo)
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return 0, err
	}
	if it.Last() {
		lsn = layout.LogLSN(it.Key())
	}
	return lsn, errors.Join(it.Error(), it.Close())
}

func (g *group) trim(c *Container, trims map[uint32]int64) error {
	l := g.db.writeState(c)
	if l == nil || l.meta.props.Retention == 0 {
		return nil
	}
	m := l.meta.change()
	for n, lsn := range trims {
		s, ok := m.segments[n]
		if !ok || lsn <= s.Trimmed {
			continue
		}
		s.Trimmed = lsn
		m.segments[n] = s
		lower, upper := layout.LogBounds(layout.SpaceVersions, c.number, n, s.From, lsn)
		if err := g.batch.DeleteRange(lower, upper, nil); err != nil {
			g.broken = errors.Join(g.broken, err)
		}
	}
	l.replace(g, m, l.ends)
	return nil
}

// dropEmpty removes the retired segments that have no entries left from the container's
// meta.
func (c *Container) dropEmpty(v *view, s *state) error {
	var empty []uint32
	for n, seg := range s.meta.segments {
		if seg.To == 0 {
			continue
		}
		for _, space := range []byte{layout.SpaceLog, layout.SpaceVersions} {
			_, found, err := c.firstAt(v.snap, space, n, seg, 0)
			if err != nil {
				return c.db.fault(err)
			}
			if found {
				seg.To = 0
			}
		}
		if seg.To != 0 {
			empty = append(empty, n)
		}
	}
	if len(empty) == 0 {
		return nil
	}
	return c.db.control(func(g *group) error {
		if l := g.db.writeState(c); l != nil {
			l.replace(g, l.meta.without(empty), l.ends)
		}
		return nil
	})
}

// without returns a copy of m without the given retired segments, which are empty.
// Nothing is written to a retired segment, so it stays empty. The copy records which
// versions the segments have lost.
func (m *meta) without(empty []uint32) *meta {
	m = m.change()
	for i, p := range m.partitions {
		q := *p
		q.segments = nil
		for _, n := range p.segments {
			if slices.Contains(empty, n) {
				s := m.segments[n]
				q.losses = addLoss(q.losses, s.keys().Intersect(p.keys), s.Trimmed)
			} else {
				q.segments = append(q.segments, n)
			}
		}
		m.partitions[i] = &q
	}
	for _, n := range empty {
		delete(m.segments, n)
	}
	return m
}
