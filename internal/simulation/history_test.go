package simulation

import (
	"context"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// In all versions and deletes mode, a source keeps changes for its retention only. Then it
// answers a read from an older position with a [feed.HistoryLostError]. The changes that
// it has dropped are lost if no host has handled them, and if Config.OnHistoryLost lets
// the lease skip them.

// forgetfulSource is a source that drops changes after the retention.
type forgetfulSource struct {
	feed.Source
	world *world
}

// Read implements [feed.Source].
func (s forgetfulSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	if err := s.world.historyLost(r); err != nil {
		return feed.Page{}, err
	}
	return s.Source.Read(ctx, r)
}

// forget makes the source of a host drop changes.
func (r *run) forget(h *host) {
	h.source = forgetfulSource{h.source, r.world}
	h.settings.onHistoryLost = r.world.onHistoryLost(h)
}

// historyLost returns the error of a read if changes after its position are older than the
// retention. On a merged partition, the error may drop younger changes, too: those whose
// LSNs, which another partition has counted, are smaller. Otherwise, and for a read of a
// gone lease, it returns nil. It also returns nil if the engine itself drops changes.
func (w *world) historyLost(r feed.Request) error {
	if w.retention == 0 || w.drops || r.From.Kind() != feed.StartContinuation || isGone(w.engine.partitions(), r.Partition.ID, r.Range) {
		return nil
	}
	from, err := lsnOf(r.From.Continuation())
	if err != nil {
		return err
	}
	oldest, lost := w.dropped(keysOf(w.engine.partitions(), r), from)
	if !lost {
		return nil
	}
	return &feed.HistoryLostError{Reason: "the retention has passed", Oldest: continuation(oldest)}
}

// onHistoryLost returns a host's Config.OnHistoryLost. It refuses to skip some of the lost
// changes, while there are faults. The processor then reads again later.
func (w *world) onHistoryLost(h *host) func(lease.Lease, *feed.HistoryLostError) bool {
	return func(l lease.Lease, lost *feed.HistoryLostError) bool {
		d := newDraw(w.seed, uint64(h.count("history lost", l.Token)), "history lost", h.id, l.Token)
		may := w.isCalm() || d.chance(0.6)
		if may && !h.crashed() {
			w.ledger.add(&skip{h, l.Token, lost.Oldest})
			w.occurs(historyLosses)
			h.trace("skip", l.Token, string(lost.Oldest), 0)
		}
		return may
	}
}

// dropChanges makes the source drop changes, and all hosts absent for longer than its
// retention.
func (s *scenario) dropChanges(d *draw) {
	e := s.times.expiration
	s.retention = d.span(e, 3*e/2)
	if s.drops = s.has(onStore); s.drops {
		s.retention = s.retention.Truncate(time.Second) // the store counts in seconds
		if s.lifetimes().purge == 0 {
			s.lifetimes().purge = d.span(time.Second, e/2).Truncate(latticePeriod)
		}
	}
	n := len(s.events)
	s.add(d, d.between(1, 2), eventAbsence, 0.1, 0.4)
	for i := range s.events[n:] {
		s.events[n+i].d = s.retention + d.span(e/10, e)
	}
}

// dropped reports whether the source has dropped changes of range r after an LSN. It returns
// the LSN of the oldest position from which the range can be read.
func (w *world) dropped(r feed.Range, from int64) (oldest int64, lost bool) {
	w.present.mu.Lock()
	defer w.present.mu.Unlock()
	return w.present.changes.dropped(r, from, w.engine.now().Add(-w.retention))
}

// dropped returns the LSN of the oldest position from which range r can be read, if the
// source has dropped changes before cut. lost reports whether it has dropped changes
// after the position from.
func (j *journal) dropped(r feed.Range, from int64, cut time.Time) (oldest int64, lost bool) {
	oldest = j.before(cut, r)
	return oldest, len(j.between(r, from, oldest)) > 0
}
