package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
)

// Reads return items in the order in which they were first written, within a partition
// key and within a physical partition. Two indexes have that order: one for each key (K)
// and one for each partition (O). An item's number, which its rid contains, stays the
// same as long as the item exists, so an update changes neither of them.
//
// A split or a merge needs the order of new partitions. It copies the entries of the old
// ones before it replaces them, in chunks and in three steps:
//
//  1. beginCopy assigns the new partitions' numbers. From then on, the sequencer writes the
//     entries of new items for both the old and the new partitions, and deletes them from
//     both.
//  2. run copies the entries of the items that existed before.
//  3. replacePartitions replaces the partitions, and deletes the orders of the old ones.
//
// Until the last step, reads use the old partitions. If a crash comes first, the container's
// record has the numbers of the new partitions, and the purge deletes their entries.

// orderChunk is the largest number of entries that are copied in one request to the
// sequencer.
const orderChunk = 2048

// errCopyLost reports that the engine was reopened during a copy, which must begin again.
var errCopyLost = errors.New("the copy of the order was lost")

// orderCopy is a copy of the order of partitions that will be replaced. The sequencer
// uses all fields, and the goroutine of the copy only those that never change.
type orderCopy struct {
	from, to []*partition // never change
	// last is the container's last document number when the copy began. Items with a
	// higher number are not copied, because the sequencer writes them for both sides.
	last uint32
	// deleted has the numbers of items that were deleted since the last chunk was
	// written. The next chunk may still have them.
	deleted map[uint32]struct{}
}

// target returns the number of the new partition for an item with a point. ok is false if
// the item's partition isn't being replaced.
func (cp *orderCopy) target(point []byte) (partition uint32, ok bool) {
	for _, p := range cp.to {
		if p.has(point) {
			return p.number, true
		}
	}
	return 0, false
}

// putOrder adds the item that e creates to the orders of its key and its partition, or
// removes the item that e deletes from them. Each key of an order is set at most once, so
// single deletes are safe.
func (t *transaction) putOrder(e *effect, partition uint32) error {
	if e.old.exists != e.remove {
		return nil // an update keeps the item's number
	}
	l, number := t.l, e.stamp.Number
	if e.remove {
		number = e.old.Number
	}
	homes := [2]uint32{partition}
	n := 1
	if l.copying != nil {
		if to, ok := l.copying.target(e.op.point); ok {
			homes[1], n = to, 2
		}
		if e.remove {
			l.copying.deleted[number] = struct{}{}
		}
	}
	t.scratch = layout.AppendKeyOrder(t.scratch[:0], l.c.number, e.op.point, number)
	if e.remove {
		if err := t.deferred.SingleDelete(t.scratch, nil); err != nil {
			return err
		}
		for _, home := range homes[:n] {
			t.scratch = layout.AppendOrderKey(t.scratch[:0], l.c.number, home, number)
			if err := t.orders.SingleDelete(t.scratch, nil); err != nil {
				return err
			}
		}
		return nil
	}
	d := t.deferred.SetDeferred(len(t.scratch), len(e.op.id))
	copy(d.Key, t.scratch)
	copy(d.Value, e.op.id)
	if err := d.Finish(); err != nil {
		return err
	}
	for _, home := range homes[:n] {
		d := t.orders.SetDeferred(layout.OrderKeySize, 2+len(e.op.point)+len(e.op.id))
		layout.AppendOrderKey(d.Key[:0], l.c.number, home, number)
		layout.AppendOrderValue(d.Value[:0], e.op.point, e.op.id)
		if err := d.Finish(); err != nil {
			return err
		}
	}
	return nil
}

// rearrange replaces neighbouring partitions by new ones and returns these. plan returns
// the index and the number of the old ones, and the ranges of the new ones. Only one call
// for a container runs at a time.
func (c *Container) rearrange(ctx context.Context, plan func(*writeState) (index, n int, ranges []feed.Range, err error)) ([]*partition, error) {
	if err := c.lockArranging(ctx); err != nil {
		return nil, err
	}
	defer func() { <-c.arranging }()
	for {
		made, err := c.tryRearrange(ctx, plan)
		if !errors.Is(err, errCopyLost) {
			return made, err
		}
	}
}

// lockArranging waits until no split or merge of the container runs. It asks ctx for its
// channel only if it must wait: a context from outside of a synctest bubble would otherwise
// get a channel of the bubble, which it cannot close.
func (c *Container) lockArranging(ctx context.Context) error {
	select {
	case c.arranging <- struct{}{}:
		return nil
	default:
	}
	select {
	case c.arranging <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Container) tryRearrange(ctx context.Context, plan func(*writeState) (index, n int, ranges []feed.Range, err error)) ([]*partition, error) {
	var cp *orderCopy
	err := c.db.do(ctx, func(g *group) (err error) {
		cp, err = g.beginCopy(c, plan)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err = cp.run(ctx, c); err == nil {
		err = c.db.do(ctx, func(g *group) error { return g.replacePartitions(c, cp) })
	}
	if err != nil {
		// If this fails too, the container's record still has the numbers.
		_ = c.db.control(func(g *group) error { return g.abortCopy(c, cp) })
		return nil, err
	}
	return cp.to, nil
}

// beginCopy assigns the numbers of new partitions, and makes the sequencer write the
// entries of new items for them.
func (g *group) beginCopy(c *Container, plan func(*writeState) (index, n int, ranges []feed.Range, err error)) (*orderCopy, error) {
	l := g.db.writeState(c)
	if l == nil {
		return nil, notFound("container %s", c.name)
	}
	index, n, ranges, err := plan(l)
	if err != nil {
		return nil, err
	}
	m := l.meta.change()
	cp := &orderCopy{from: l.meta.partitions[index : index+n : index+n], last: l.docs, deleted: map[uint32]struct{}{}}
	unused := m.prepared
	m.prepared = nil
	for _, keys := range ranges {
		p, err := newPartition(m.next, keys, nil, nil)
		if err != nil {
			return nil, err
		}
		m.next++
		cp.to, m.prepared = append(cp.to, p), append(m.prepared, p.number)
	}
	if err := g.dropOrders(c, unused); err != nil {
		return nil, err
	}
	l.copying = cp
	l.replace(g, m, l.ends)
	return cp, nil
}

// run copies the entries of the items that existed when the copy began.
func (cp *orderCopy) run(ctx context.Context, c *Container) error {
	for _, p := range cp.from {
		for next, more := uint32(0), true; more; {
			var chunk []orderEntry
			var err error
			if chunk, more, err = c.readOrder(ctx, p.number, next, cp.last); err != nil {
				return err
			}
			if len(chunk) == 0 {
				break
			}
			next = chunk[len(chunk)-1].number + 1
			if err := c.db.do(ctx, func(g *group) error { return g.putCopied(c, cp, chunk) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// orderEntry is an entry in the order of a partition. value has the point and the id.
type orderEntry struct {
	number uint32
	value  []byte
}

// readOrder reads up to orderChunk entries of a partition, with numbers from first to
// last, from the current view. more reports whether there may be others.
func (c *Container) readOrder(ctx context.Context, partition, first, last uint32) (chunk []orderEntry, more bool, err error) {
	v, _, err := c.open(ctx)
	if err != nil {
		return nil, false, err
	}
	defer v.release()
	it, err := v.snap.NewIter(&pebble.IterOptions{
		LowerBound: layout.AppendOrderKey(nil, c.number, partition, first),
		UpperBound: layout.Successor(layout.AppendOrderKey(nil, c.number, partition, last)),
	})
	if err != nil {
		return nil, false, c.db.fault(err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if len(chunk) == orderChunk {
			return chunk, true, nil
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, false, c.db.fault(err)
		}
		chunk = append(chunk, orderEntry{orderNumber(it.Key()), bytes.Clone(value)})
	}
	if err := it.Error(); err != nil {
		return nil, false, c.db.fault(err)
	}
	return chunk, false, nil
}

// putCopied writes a chunk of entries for the new partitions of cp.
func (g *group) putCopied(c *Container, cp *orderCopy, chunk []orderEntry) error {
	l := g.db.writeState(c)
	if l == nil {
		return notFound("container %s", c.name)
	}
	if l.copying != cp {
		return errCopyLost
	}
	for _, e := range chunk {
		if _, gone := cp.deleted[e.number]; gone {
			continue
		}
		point, _, err := layout.DecodeOrder(e.value)
		if err == nil {
			to, _ := cp.target(point)
			g.scratch = layout.AppendOrderKey(g.scratch[:0], c.number, to, e.number)
			err = g.batch.Set(g.scratch, e.value, nil)
		}
		if err != nil {
			g.broken = errors.Join(g.broken, g.db.fault(err)) // some entries are in the batch
			return nil
		}
	}
	clear(cp.deleted) // the next chunk is read after this group
	return nil
}

// abortCopy ends the copy cp without replacing partitions, unless it has already ended. If
// cp is nil, it deletes what an earlier process has left of a copy, unless another one is
// in progress.
func (g *group) abortCopy(c *Container, cp *orderCopy) error {
	l := g.db.writeState(c)
	if l == nil || l.copying != cp || l.meta.prepared == nil {
		return nil
	}
	l.copying = nil
	m := l.meta.change()
	unused := m.prepared
	m.prepared = nil
	l.replace(g, m, l.ends)
	return g.dropOrders(c, unused)
}

// dropOrders deletes the orders of partitions that do not exist.
func (g *group) dropOrders(c *Container, partitions []uint32) error {
	for _, n := range partitions {
		prefix := layout.AppendOrderKey(nil, c.number, n, 0)[:layout.SegmentKeySize]
		if err := g.batch.DeleteRange(prefix, layout.Successor(prefix), nil); err != nil {
			return err
		}
	}
	return nil
}

// findNumber returns the point and the id of the item with a document number. point is nil
// if there is none.
func (c *Container) findNumber(v *view, m *meta, number uint32) (point, id []byte, err error) {
	for _, p := range m.partitions {
		value, err := getValue(v.snap, layout.AppendOrderKey(nil, c.number, p.number, number))
		if errors.Is(err, pebble.ErrNotFound) {
			continue
		}
		if err == nil {
			point, id, err = layout.DecodeOrder(value)
		}
		if err != nil {
			return nil, nil, c.db.fault(err)
		}
		return point, id, nil
	}
	return nil, nil, nil
}

// orderPartition returns the partition in a key of the space layout.SpaceOrder.
func orderPartition(key []byte) uint32 { return binary.BigEndian.Uint32(key[layout.ContainerKeySize:]) }

// orderNumber returns the document number in a key of the space layout.SpaceOrder or
// layout.SpaceKeyOrder.
func orderNumber(key []byte) uint32 { return binary.BigEndian.Uint32(key[len(key)-4:]) }
