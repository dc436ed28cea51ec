package lease

import "github.com/changefeed-go/changefeed/feed"

// The transitions return the document to write; the caller performs the write by compare-and-set.

// Acquired is l taken by owner: the wanted mark goes, the rest stays as listed.
func (l Lease) Acquired(owner string) Lease { panic("to do") }

// Asked is l marked as wanted by owner.
func (l Lease) Asked(owner string) Lease { panic("to do") }

// At is l with the position c: a renewal or a checkpoint, which are one write.
func (l Lease) At(c feed.Continuation) Lease { panic("to do") }

// Released is l without an owner, at position c; a mark stays.
func (l Lease) Released(c feed.Continuation) Lease { panic("to do") }

// PutBack is the document to create when l, which its owner still trusts, was
// deleted: the same owner and durable position, no mark.
func (l Lease) PutBack() Lease { panic("to do") }

// Pieces returns the leases that take over from a gone lease, given fresh partitions, each
// at the gone lease's durable position, free and without a mark. same reports that the one piece is the lease
// itself (read on). No partition at all is an error.
func Pieces(gone Lease, partitions []feed.Partition) (pieces []Lease, same bool, err error) {
	panic("to do")
}
