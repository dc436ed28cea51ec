package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Items reads all items of a container, page by page (the read feed). An item
// that exists from the first page to the last is returned exactly once,
// whatever is written, split or merged meanwhile. A page has at most MaxItems
// items, and no more after 4 MiB of them. Errors: *feed.GoneError, when
// Partition isn't live; *[BadRequestError]; *feed.ThrottledError.
func (c *Container) Items(ctx context.Context, r ItemsRequest) (ItemsPage, error) {
	if err := c.admit(ctx); err != nil {
		return ItemsPage{}, err
	}
	sc, err := c.newScope(r.Range, r.Key)
	if err != nil {
		return ItemsPage{}, err
	}
	after, err := base64.RawURLEncoding.DecodeString(r.Continuation)
	if err != nil {
		return ItemsPage{}, badRequest(BadContinuation, "%.60q is no position among items", r.Continuation)
	}
	v, s, err := c.open()
	if err != nil {
		return ItemsPage{}, err
	}
	defer v.release()
	if r.Partition != "" {
		place, err := sc.partitionIn(s.meta, r.Partition)
		if err != nil {
			return ItemsPage{}, err
		}
		sc.narrow(s.meta.partitions[place])
	}
	w := itemsWalk{c: c, v: v, s: s, scope: sc, max: r.MaxItems}
	if w.max <= 0 {
		w.max = defaultMaxItems
	}
	if err := w.run(ctx, after); err != nil {
		return ItemsPage{}, fmt.Errorf("read items: %w", err)
	}
	w.page.Charge = pageCharge(w.bytes)
	c.bucket.spend(w.page.Charge)
	return w.page, nil
}

// itemsWalk makes one page of items.
type itemsWalk struct {
	c     *Container
	v     *view
	s     *state
	scope scope
	max   int
	page  ItemsPage
	bytes int
}

// run walks along the index, from behind the key after.
func (w *itemsWalk) run(ctx context.Context, after []byte) (err error) {
	base := appendContainerKey(nil, spaceIndex, w.c.number)
	lower := append(bytes.Clone(base), w.scope.lower...)
	if len(after) > 0 {
		if from := append(append(bytes.Clone(base), after...), 0); bytes.Compare(from, lower) > 0 {
			lower = from
		}
	}
	it, err := w.v.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: successor(base)})
	if err != nil {
		return w.c.db.fault(err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	now := w.c.db.clock.seconds()
	var last []byte
	for ok := it.First(); ok; ok = it.Next() {
		if len(w.page.Items) >= w.max || w.bytes >= maxPageBytes {
			w.page.Continuation = base64.RawURLEncoding.EncodeToString(last)
			return nil
		}
		if more, err := w.visit(it, now); err != nil || !more {
			return err
		}
		last = append(last[:0], it.Key()[containerKeySize:]...)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return w.c.db.fault(err)
	}
	return nil
}

// visit takes one item into the page, unless it is out of scope or expired;
// more is false behind the scope.
func (w *itemsWalk) visit(it *pebble.Iterator, now int64) (more bool, err error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return false, w.c.db.fault(err)
	}
	e, err := decodeEntry(value)
	if err != nil {
		return false, w.c.db.fault(err)
	}
	rest := it.Key()[containerKeySize:]
	if int(e.point) > len(rest) {
		return false, w.c.db.fault(corrupt("index entry %x has a point of %d bytes", it.Key(), e.point))
	}
	point := rest[:e.point]
	if bytes.Compare(w.c.hash.EPK(point), w.scope.upper) >= 0 {
		return false, nil // points sort as their EPKs do
	}
	if !w.scope.holds(point) || expired(e.ts, int32(w.s.meta.props.DefaultTTL), e.ttl, now) {
		return true, nil
	}
	stored, err := w.c.fetch(w.v.snap, make([]byte, 0, e.size), e, point)
	if err != nil {
		return false, w.c.db.fault(err)
	}
	item, err := w.c.item(stored, e.stamp)
	if err != nil {
		return false, err
	}
	w.page.Items = append(w.page.Items, item)
	w.bytes += len(item.Body)
	return true, nil
}
