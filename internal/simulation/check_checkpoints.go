package simulation

import (
	"errors"

	"github.com/changefeed-go/changefeed/lease"
)

// This file checks the results of Batch.Checkpoint. These are the rules:
//
//   - If it returns nil, the worker has stored a position after the batch.
//   - If the checkpoint of the batch, or of a later one, has returned nil before, it
//     returns nil, too.
//   - It returns no other error than lease.ErrLost, and that only if the worker has lost
//     its lease or has ended. A lease whose partition is gone counts as lost, and so does
//     one whose children are being created.
//   - It returns in a limited time. A run in which it does not return never ends.

// checkpoints contains what a worker's calls of Batch.Checkpoint have done so far.
// checker.mu guards it. All positions are LSNs.
type checkpoints struct {
	stored    int64 // the latest position that the lease store applied
	confirmed int64 // the latest batch whose checkpoint returned nil
	called    int64 // the latest batch whose checkpoint was called
	// tenure is the host's right to the lease when the worker began.
	tenure *tenure
}

// workerBegins records the worker that now works on a lease. The caller holds c.mu.
func (c *checker) workerBegins(o *simObserver) {
	key := tenureKey{o.host, o.lease.Token}
	c.workers[key] = o
	o.checkpoints.tenure = c.tenures[key]
}

// positionStored records the position of a document that the lease store has applied. The
// caller holds c.mu.
func (c *checker) positionStored(h *host, l lease.Lease) {
	if o := c.workers[tenureKey{h, l.Token}]; o != nil && l.Continuation != "" {
		o.checkpoints.stored = max(o.checkpoints.stored, c.lsn(l))
	}
}

// checkpointCalled records that the checkpoint of a batch is called. It returns the
// latest batch whose checkpoint has returned nil.
func (c *checker) checkpointCalled(o *simObserver, lsn int64) (confirmed int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.checkpoints.called = max(o.checkpoints.called, lsn)
	return o.checkpoints.confirmed
}

// calledAfter reports whether the checkpoint of a later batch was called before.
func (c *checker) calledAfter(o *simObserver, lsn int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return lsn < o.checkpoints.called
}

// checkpointed checks the result of a checkpoint. confirmed is the value that
// checkpointCalled returned.
func (c *checker) checkpointed(o *simObserver, lsn, confirmed int64, err error) {
	if o.host.crashed() {
		return
	}
	parts, alive := c.world.engine.partitions(), o.host.alive()
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenures[tenureKey{o.host, o.lease.Token}]
	switch {
	case err == nil && o.checkpoints.stored < lsn:
		c.violate(18, "%s: the checkpoint of lease %s at %d returned nil, but the stored position is %d",
			o.host.id, o.lease.Token, lsn, o.checkpoints.stored)
	case err == nil:
		o.checkpoints.confirmed = max(o.checkpoints.confirmed, lsn)
	case !errors.Is(err, lease.ErrLost):
		c.violate(18, "%s: the checkpoint of lease %s at %d returned %v", o.host.id, o.lease.Token, lsn, err)
	case confirmed >= lsn:
		c.violate(18, "%s: the checkpoint of lease %s at %d returned %v; that at %d has returned nil before",
			o.host.id, o.lease.Token, lsn, err, confirmed)
	case alive && t == o.checkpoints.tenure && c.holds(t) && !t.lapsed && !t.overwritten && !isGone(parts, o.lease.PartitionID, o.lease.Range) && !c.hasChild(o.lease):
		c.violate(18, "%s: the checkpoint of lease %s at %d returned %v, but the host holds the lease", o.host.id, o.lease.Token, lsn, err)
	}
}

// getsOtherOwner returns a channel that is closed when the lease next gets another owner.
func (c *checker) getsOtherOwner(token string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.otherOwner[token] == nil {
		c.otherOwner[token] = make(chan struct{})
	}
	return c.otherOwner[token]
}

// gotOtherOwner closes the channel that getsOtherOwner has returned. The caller holds
// c.mu.
func (c *checker) gotOtherOwner(token string) {
	if moved := c.otherOwner[token]; moved != nil {
		close(moved)
		delete(c.otherOwner, token)
	}
}

// ownedByOther reports whether another host than h owns the lease.
func (c *checker) ownedByOther(h *host, token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	owner := c.docs[token].Owner
	return owner != "" && owner != h.text()
}
