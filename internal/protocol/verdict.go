package protocol

import (
	"errors"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Verdict is what the answer to a write of a lease document means for the host that sent
// the write. [Judge] returns it.
//
//	answer                     verdict   action of the lease's owner
//	success                    Applied   keeps the new ETag; trust runs from the start of
//	                                     the attempt; the position is durable
//	conflict, our owner text,  Mine      keeps the document in the store and writes again
//	  a position we sent                 at once, because only that write renews its trust;
//	                                     hands the lease over if another host wants it
//	conflict, our owner text,  Moved     stops without a write, and the lease expires; the
//	  another position                   next owner starts from the stored position
//	conflict, otherwise        Lost      stops without a write; another host owns the lease,
//	                                     or none does
//	not found                  Absent    puts the document back while trust lasts
//	throttled                  Refused   keeps the lease; writes again after the delay
//	                                     that the store asks for
//	anything else              Unknown   repeats the write with the same ETag and position
//	                                     while trust lasts
//
// The verdict is Mine if an earlier attempt was applied, or if another host wrote a
// property, such as that it wants the lease. It is Moved if an operator edited the position.
//
// A create that finds the document, and a delete that does not find it, have succeeded. A
// release is repeated after Mine and Unknown, and is over otherwise. The first attempt of
// an acquire is refused by any conflict, so only its repetitions can be Mine.
type Verdict int

// These are the possible verdicts.
const (
	Applied Verdict = iota
	Mine
	Moved
	Lost
	Absent
	Refused
	Unknown
)

// String returns the verdict's name for messages.
func (v Verdict) String() string {
	return [...]string{"applied", "mine", "moved", "lost", "absent", "refused", "unknown"}[v]
}

// Judge returns the verdict on a write by owner that was answered with err, and, after a
// conflict, the document in the store. acked is the last position that the store
// acknowledged, and sent the last one that was sent; they're equal unless a write is
// outstanding.
func Judge(err error, owner string, acked, sent feed.Continuation) (Verdict, lease.Lease) {
	if err == nil {
		return Applied, lease.Lease{}
	}
	if conflict, ok := errors.AsType[*lease.ConflictError](err); ok {
		current := conflict.Current
		switch {
		case owner == "" || current.Owner != owner:
			return Lost, current
		case current.Continuation == acked || current.Continuation == sent:
			return Mine, current
		}
		return Moved, current
	}
	if errors.Is(err, feed.ErrNotFound) {
		return Absent, lease.Lease{}
	}
	if _, ok := errors.AsType[*feed.ThrottledError](err); ok {
		return Refused, lease.Lease{}
	}
	return Unknown, lease.Lease{}
}
