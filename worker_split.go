package changefeed

import (
	"context"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/balance"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// splitter replaces a lease whose partition was split or merged by leases of the new
// partitions. Any step may be the last one before a crash. Then the next owner of the
// gone lease also reads "gone" and continues:
//
//	step                                           state after a crash
//	1 no read and no new batch starts; the         the lease is unchanged
//	  current batch may finish; its position,
//	  P, becomes durable
//	2 the partitions are listed, and the lease     the lease is unchanged
//	  is cut into pieces. If the one piece is
//	  the lease itself, reads resume
//	3 leftovers are deleted, and a child is        some children exist; no host acquires them while
//	  created for each piece at P; it may exist    the gone lease, their ancestor, exists
//	  already
//	4 trust is given up (ending)                   all children exist; the next owner only deletes
//	5 the gone lease is deleted (ending)           the children are free for any host
//
// P is the durable position and not the last one read. With manual checkpoints, changes
// may have been read and delivered that the user has not acknowledged. A checkpoint
// before the answer of step 2 moves P, and step 2 is repeated. From step 3 on the gone
// lease is renewed at P, and acknowledgements do not move it.
//
// Leftovers are free leases within the gone lease that are not among the pieces. An owner
// created them, and crashed between step 3 and step 5. Then partitions were merged or split
// again. If the leftovers stayed, they would later overlap other leases. A delete may
// arrive late, when a next owner has cut the gone lease again and needs the leftover as a
// child. So each owner writes a free child that exists, and its new ETag makes the delete
// fail.
//
// Pages that were read ahead are dropped. The children read them again.
type splitter struct {
	w *worker
	// leftovers holds the leases to delete, and pieces the children to create. made is the
	// number of those that already exist.
	leftovers, pieces []lease.Lease
	made              int

	notBefore  time.Duration
	retryDelay backoff
}

// begin records that a read has returned the error gone.
func (s *splitter) begin(gone *feed.GoneError) {
	s.w.cfg.Logger.Info("partition is gone", "processor", s.w.cfg.Processor, "lease", s.w.token, "reason", gone.Error())
	s.w.enter(phaseGone)
}

// cutting reports whether the children are known, so that their position is fixed.
func (s *splitter) cutting() bool { return s.pieces != nil }

// step starts the next of the steps above if it is possible now.
func (s *splitter) step() {
	w := s.w
	if w.phase != phaseGone || !w.isIdle() {
		return
	}
	if w.now.Mono < s.notBefore {
		w.wake(s.notBefore)
		return
	}
	switch {
	case !s.cutting():
		if doc, position, ok := w.stored(); ok {
			s.cut(doc, position)
		}
	case len(s.leftovers) > 0:
		s.sweep()
	case s.made < len(s.pieces):
		s.create()
	default:
		w.end(Gone)
		w.wake(w.now.Mono)
	}
}

// cut lists the partitions that replaced the gone one. It divides the lease doc into children
// at its durable position, and finds the leftovers.
func (s *splitter) cut(doc lease.Lease, position pagePosition) {
	w := s.w
	w.splitting.begin(w.now.Mono)
	if start := doc.Start(w.cfg.Start); doc.Continuation == "" {
		doc = protocol.StartingAt(doc, start)
	}
	doc = w.parking.inherited(doc)
	w.ask(func(ctx context.Context) func() {
		var leftovers []lease.Lease
		pieces, same, err := w.pieces(ctx, doc)
		switch {
		case err != nil:
			err = &SourceError{Op: "find what replaced the partition of lease " + doc.Token, Err: err}
		case !same:
			leftovers, err = w.leftovers(ctx, doc, pieces)
		}
		return func() { s.answered(position, pieces, leftovers, same, err) }
	})
}

// pieces returns the children of a gone lease. same reports whether the only child is the
// lease itself. If the lease starts now and has no position yet, pieces resolves a
// position for each child.
func (h *host) pieces(ctx context.Context, gone lease.Lease) (pieces []lease.Lease, same bool, err error) {
	request, cancel := h.requestContext(ctx)
	defer cancel()
	partitions, err := h.cfg.Source.Partitions(request)
	if err != nil {
		return nil, false, err
	}
	pieces, same, err = balance.Children(h.dialect, gone, partitions)
	if err != nil || same || gone.Start(h.cfg.Start).Kind() != feed.StartNow {
		return pieces, same, err
	}
	for i := range pieces {
		if pieces[i].Continuation, err = h.resolveNow(ctx, protocol.ReadOf(pieces[i], h.cfg.Mode, feed.Now())); err != nil {
			return nil, false, err
		}
	}
	return pieces, same, nil
}

// leftovers lists the leases, and returns the leftovers of a gone lease. A lease whose owner
// may still use it is not a leftover.
func (h *host) leftovers(ctx context.Context, gone lease.Lease, pieces []lease.Lease) ([]lease.Lease, error) {
	ctx, cancel := h.requestContext(ctx)
	defer cancel()
	listing, err := h.store.List(ctx)
	if err != nil {
		return nil, &LeaseStoreError{Op: "find the leases within lease " + gone.Token, Err: err}
	}
	var left []lease.Lease
	for _, l := range listing.Leases {
		isPiece := slices.ContainsFunc(pieces, func(p lease.Lease) bool { return p.Token == l.Token })
		if protocol.IsAncestor(gone, l) && !isPiece && !h.terms.Live(l.Owner, l.Modified, listing.Now) {
			left = append(left, l)
		}
	}
	return left, nil
}

// resolveNow sends request, which reads a feed from "now", and returns the position.
func (h *host) resolveNow(ctx context.Context, request feed.Request) (feed.Continuation, error) {
	ctx, cancel := h.requestContext(ctx)
	defer cancel()
	request.MaxItems = h.cfg.MaxItems
	page, err := h.cfg.Source.Read(ctx, request)
	h.metrics.read(page)
	if err == nil && page.Continuation == "" {
		err = errNoContinuation
	}
	return page.Continuation, err
}

// answered handles the result of cut, which has cut the lease at position. If the user
// has checkpointed a later position since, children at the old one would undo that. Then
// it drops the pieces. The next step cuts the lease again when the later position is
// stored.
func (s *splitter) answered(position pagePosition, pieces, leftovers []lease.Lease, same bool, err error) {
	w := s.w
	switch {
	case w.phase != phaseGone:
	case err != nil:
		s.failed(err)
	case same:
		// A source may report "gone" and still list the partition. Then read it again,
		// with the delays of a failure.
		w.stillThere()
	case w.movesBeyond(position):
	default:
		s.pieces, s.leftovers = pieces, leftovers
	}
}

// failed notifies the user of the error of a step, which is repeated after a delay.
func (s *splitter) failed(err error) {
	s.w.fail(s.w.token, err)
	s.notBefore = s.w.now.Mono + s.retryDelay.after(err)
}

// succeeded ends the delays after failures.
func (s *splitter) succeeded() {
	s.notBefore = 0
	s.retryDelay.done()
}

// sweep deletes the first leftover. If another write has changed it, it stays.
func (s *splitter) sweep() {
	w, left := s.w, s.leftovers[0]
	w.send(func() func() {
		ctx, cancel := w.requestContext(w.base)
		defer cancel()
		err := w.store.Delete(ctx, left)
		return func() {
			switch o, _ := protocol.Judge(err, w.owner, "", ""); o {
			case protocol.Applied, protocol.Absent, protocol.Mine, protocol.Moved, protocol.Lost:
				s.leftovers = s.leftovers[1:]
				s.succeeded()
			case protocol.Refused, protocol.Unknown:
				s.failed(&LeaseStoreError{Op: "delete lease " + left.Token + ", which was left over", Err: err})
			}
		}
	})
}

// create creates the next child. If it exists and is free, it is written as it is, for a
// new ETag.
func (s *splitter) create() {
	w, child := s.w, s.pieces[s.made]
	child.Timestamp = w.now.Wall.UTC()
	w.send(func() func() {
		ctx, cancel := w.requestContext(w.base)
		defer cancel()
		_, err := w.store.Create(ctx, child)
		if verdict, exists := protocol.Judge(err, w.owner, "", ""); verdict == protocol.Lost && exists.Owner == "" {
			exists.Timestamp = child.Timestamp
			_, err = w.store.Update(ctx, exists)
		}
		return func() { s.created(child, err) }
	})
}

func (s *splitter) created(child lease.Lease, err error) {
	switch o, _ := protocol.Judge(err, s.w.owner, "", ""); o {
	case protocol.Applied, protocol.Mine, protocol.Moved, protocol.Lost:
		s.made++
		s.succeeded()
	case protocol.Absent, protocol.Refused, protocol.Unknown:
		s.failed(&LeaseStoreError{Op: "create child " + child.Token, Err: err})
	}
}
