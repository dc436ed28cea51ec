package lease

import "github.com/changefeed-go/changefeed/feed"

// The transitions return the document to write. The caller writes it by compare-and-set,
// and only if the protocol allows the write. Package internal/balance decides on an
// acquire; every other write requires that the lease is trusted. No transition changes l
// or its map.

// Acquired returns l with the given owner. It removes the mark of the host that asked for l.
func (l Lease) Acquired(owner string) Lease {
	l = l.without(PropertyWanted)
	l.Owner = owner
	return l
}

// Asked returns l marked as wanted by owner. It affects no host's trust. The holder hands
// the lease over after its current batch.
func (l Lease) Asked(owner string) Lease { return l.with(PropertyWanted, owner) }

// At returns l with the position c. A renewal and a checkpoint are both this write. If c
// is empty, l keeps its position.
func (l Lease) At(c feed.Continuation) Lease {
	if c != "" {
		l.Continuation = c
	}
	return l
}

// Released returns l without an owner, at position c. If c is empty, l keeps its
// position. The mark stays, because it reserves the lease for the host that asked.
func (l Lease) Released(c feed.Continuation) Lease {
	l = l.At(c)
	l.Owner = ""
	return l
}

// PutBack returns the document to create if l was deleted while its owner still trusts
// it. It has the same owner and durable position, and no mark.
func (l Lease) PutBack() Lease {
	l = l.without(PropertyWanted)
	l.ETag = ""
	return l
}

// Child returns piece, a new lease, with the values that it inherits from l: the
// position, its start, the mode, and the properties except the mark, which asked for l
// only.
func (l Lease) Child(piece Lease) Lease {
	piece.Continuation = l.Continuation
	piece.Mode = l.Mode
	piece.Properties = l.without(PropertyWanted).Properties
	piece.document.state = l.document.state
	return piece
}

// ForPartition returns a new PK-range lease of a whole partition, without a position.
func ForPartition(p feed.Partition) Lease {
	return Lease{Token: p.ID, PartitionID: p.ID, Range: p.Range}
}

// ForRange returns a new EPK lease of a range of keys, without a position.
func ForRange(r feed.Range) Lease {
	return Lease{Token: r.String(), Range: r}
}
