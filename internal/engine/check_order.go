package engine

import (
	"slices"

	"github.com/changefeed-go/changefeed/internal/layout"
)

// checkOrders verifies the orders of writing of a container. Each item must be in the
// order of its key and in that of its partition, under its number.
func (k *containerCheck) checkOrders() error {
	inKeys, inPartitions := 0, 0
	err := eachKey(k.v.snap, layout.AppendContainerKey(nil, layout.SpaceKeyOrder, k.c.number), func(key, value []byte) error {
		if len(key) < layout.ContainerKeySize+4 {
			return k.complain("key %x of an order is too short", key)
		}
		inKeys++
		return k.checkOrderEntry(key, key[layout.ContainerKeySize:len(key)-4], value)
	})
	if err != nil {
		return err
	}
	m := k.s.meta
	err = eachKey(k.v.snap, layout.AppendContainerKey(nil, layout.SpaceOrder, k.c.number), func(key, value []byte) error {
		if len(key) != layout.OrderKeySize {
			return k.complain("key %x of an order has %d bytes, not %d", key, len(key), layout.OrderKeySize)
		}
		partition := orderPartition(key)
		if slices.Contains(m.prepared, partition) {
			return k.step() // a split or merge is in progress, or was interrupted
		}
		point, id, err := layout.DecodeOrder(value)
		if err != nil {
			return k.complain("key %x: %v", key, err)
		}
		if home := m.partitions[m.find(point)].number; home != partition {
			return k.complain("item %q of partition %d is in the order of partition %d", id, home, partition)
		}
		inPartitions++
		return k.checkOrderEntry(key, point, id)
	})
	if err != nil || inKeys == k.entries && inPartitions == k.entries {
		return err
	}
	return k.complain("of %d documents, %d are in the order of their keys, and %d in that of their partitions", k.entries, inKeys, inPartitions)
}

// checkOrderEntry verifies that an item in an order exists and has the number in its key.
func (k *containerCheck) checkOrderEntry(key, point, id []byte) error {
	index := append(append(layout.AppendContainerKey(nil, layout.SpaceIndex, k.c.number), point...), id...)
	e, ok, err := lookup(k.v.snap, index)
	if err != nil {
		return err
	}
	if !ok || e.Number != orderNumber(key) || int(e.Point) != len(point) {
		return k.complain("key %x of an order names item %q, which is %+v in the index (found: %t)", key, id, e, ok)
	}
	return k.step()
}
