package changefeed

import (
	"errors"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// outcome is what the answer to a write of a lease document means to the host
// that sent it.
//
//	answer                     outcome      what the owner of the lease does
//	success                    applied      takes the ETag; trust from the attempt's start; position durable
//	conflict, I own it, at     mine         an earlier attempt of mine, or a mark: takes the document, writes
//	  a position I sent                     again at once, and hands over when it is marked
//	conflict, I own it, at     moved        somebody edited the position: stops, writes nothing, lets it expire
//	  another position
//	conflict, otherwise        taken        lost: stops, writes nothing
//	not found                  absent       deleted: puts it back, while trusted
//	throttled                  refused      not applied: again after retry-after; the lease is kept
//	anything else              unknown      the same write again, same ETag and position, while trusted
//
// A create that finds the document existing, and a delete that finds none, are
// done. A release is sent again for mine and unknown, and done otherwise.
type outcome int

const (
	applied outcome = iota
	mine
	moved
	taken
	absent
	refused
	unknown
)

// judge tells the outcome of a write that was answered with err. For mine,
// current is the document as it is now. acked and sent are the last position
// acknowledged and the last one sent.
func judge(err error, owner string, acked, sent feed.Continuation) (o outcome, current lease.Lease) {
	if err == nil {
		return applied, current
	}
	if conflict, ok := errors.AsType[*lease.ConflictError](err); ok {
		switch lease.Judge(conflict.Current, owner, acked, sent) {
		case lease.Mine:
			return mine, conflict.Current
		case lease.Moved:
			return moved, conflict.Current
		case lease.Lost:
		}
		return taken, conflict.Current
	}
	if errors.Is(err, feed.ErrNotFound) {
		return absent, current
	}
	if _, ok := errors.AsType[*feed.ThrottledError](err); ok {
		return refused, current
	}
	return unknown, current
}
