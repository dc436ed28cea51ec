package changefeed

import "github.com/changefeed-go/changefeed/feed"

// mark is a position together with the number of the page that ends there.
// Positions are opaque; the numbers tell which of two is the later one. The
// position that the lease had when it was acquired is number 0.
type mark struct {
	page int64
	at   feed.Continuation
}

// progress knows how far a lease may be moved. It moves only over what was
// acknowledged: batches for which the handler returned nil, with manual
// checkpoints those that the user checkpointed, and pages that held nothing to
// hand out (empty ones, or filtered ones) as long as nothing before them is
// unacknowledged.
//
// The invariant that everything rests on: due never lies behind a change that was
// handed out and not acknowledged, nor behind one that was not handed out.
type progress struct {
	// due is the position that the lease may have, durable the one that the store
	// has. due is never the earlier one.
	due, durable mark
	// handed is the last page handed out, acked the last one acknowledged.
	handed, acked int64
	// idle is the last page with nothing to hand out, when it could not become due
	// at once.
	idle mark
}

// newProgress starts from the position that the document has.
func newProgress(durable feed.Continuation) progress {
	at := mark{at: durable}
	return progress{due: at, durable: at}
}

// handedOut says that a page went to the handler, which returned.
func (p *progress) handedOut(page int64) { p.handed = max(p.handed, page) }

// acknowledge says that everything up to a mark is done with. An older mark
// after a newer one changes nothing.
func (p *progress) acknowledge(at mark) {
	if at.page <= p.acked {
		return
	}
	p.acked = at.page
	if at.page > p.due.page {
		p.due = at
	}
	if p.idle.page > p.due.page && p.acked >= p.handed {
		p.due = p.idle
	}
}

// pass says that the page that ends at a mark held nothing to hand out.
func (p *progress) pass(at mark) {
	if p.acked >= p.handed {
		p.due = at
		return
	}
	p.idle = at
}

// stored says that the store has the position.
func (p *progress) stored(at mark) {
	if at.page > p.durable.page {
		p.durable = at
	}
}

// behind reports whether the store's position is an older one than the due one.
func (p *progress) behind() bool { return p.durable.page < p.due.page }
