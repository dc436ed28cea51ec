package engine

import (
	"context"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
)

// Read returns the item id. Errors: one that wraps feed.ErrNotFound, when there
// is none or it is expired; [ErrNotModified], when it still has the ETag of
// IfNoneMatch; [ErrPreconditionFailed]; *feed.ThrottledError.
func (c *Container) Read(ctx context.Context, key feed.PartitionKey, id string, o ReadOptions) (Result, error) {
	if err := c.admit(ctx); err != nil {
		return Result{}, err
	}
	var op operation
	if err := c.prepare(&op, key, Operation{Kind: OpRead, ID: id, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch}); err != nil {
		return Result{}, err
	}
	v, s, err := c.open()
	if err != nil {
		return Result{}, err
	}
	defer v.release()
	res, err := c.readOne(v, s, &op)
	c.bucket.spend(res.Charge)
	if err != nil {
		return res, fmt.Errorf("read: %w", err)
	}
	return res, nil
}

func (c *Container) readOne(v *view, s *state, op *operation) (Result, error) {
	place := s.meta.find(c.hash.EPK(op.point))
	res := Result{Partition: s.meta.partitions[place].id, End: s.ends[place], Charge: readCharge(0)}
	e, ok, err := lookup(v.snap, op.key)
	if err != nil {
		return res, c.db.fault(err)
	}
	if !ok || expired(e.ts, int32(s.meta.props.DefaultTTL), e.ttl, c.db.clock.seconds()) {
		return res, notFound("item %q", op.id)
	}
	if err := c.checkETags(op, version{entry: e, exists: true}); err != nil {
		return res, err
	}
	stored, err := c.fetch(v.snap, make([]byte, 0, e.size), e, op.point)
	if err != nil {
		return res, c.db.fault(err)
	}
	res.Charge = readCharge(len(stored))
	res.Item, err = c.item(stored, e.stamp)
	return res, err
}
