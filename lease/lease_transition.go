package lease

import "github.com/changefeed-go/changefeed/feed"

// The transitions return the document to write; the caller performs the write by
// compare-and-set, and only when the protocol allows it: acquire what Decide says,
// everything else while the lease is trusted. None changes l or its map.

// Acquired is l taken by owner: the wanted mark goes, the rest stays as listed.
func (l Lease) Acquired(owner string) Lease {
	l = l.without(PropertyWanted)
	l.Owner = owner
	return l
}

// Asked is l marked as wanted by owner. Nobody's trust changes; whoever holds the
// lease hands it over when the batch in hand is done.
func (l Lease) Asked(owner string) Lease { return l.with(PropertyWanted, owner) }

// At is l with the position c: a renewal or a checkpoint, which are one write. An
// empty c, which is no position, leaves the one that l has.
func (l Lease) At(c feed.Continuation) Lease {
	if c != "" {
		l.Continuation = c
	}
	return l
}

// Released is l without an owner, at position c (empty: the one that l has). A mark
// stays: it reserves the lease for the host that asked.
func (l Lease) Released(c feed.Continuation) Lease {
	l = l.At(c)
	l.Owner = ""
	return l
}

// PutBack is the document to create when l, which its owner still trusts, was
// deleted: the same owner and durable position, no mark.
func (l Lease) PutBack() Lease {
	l = l.without(PropertyWanted)
	l.ETag = ""
	return l
}

// Child returns piece, a new lease, with what it inherits from l: the position, its start,
// the mode, and the properties except the mark, which asked for l alone.
func (l Lease) Child(piece Lease) Lease {
	piece.Continuation = l.Continuation
	piece.Mode = l.Mode
	piece.Properties = l.without(PropertyWanted).Properties
	piece.document.state = l.document.state
	return piece
}

// ForPartition returns a new PK-range lease without a position: that of a whole partition.
func ForPartition(p feed.Partition) Lease {
	return Lease{Token: p.ID, PartitionID: p.ID, Range: p.Range}
}

// ForRange returns a new EPK lease without a position: that of a range of keys.
func ForRange(r feed.Range) Lease {
	return Lease{Token: r.String(), Range: r}
}
