package simulation

import (
	"errors"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// In all versions and deletes mode, a source keeps changes for its retention only. Then it
// answers a read from an older position with a [feed.HistoryLostError]. The changes that
// it has dropped are lost if no host has handled them, and if Config.OnHistoryLost lets
// the lease skip them.

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
	oldest, lost := w.journal.dropped(w.keysOf(r), from, w.engine.now().Add(-w.retention))
	if !lost {
		return nil
	}
	return &feed.HistoryLostError{Reason: "the retention has passed", Oldest: continuation(oldest)}
}

// lostRead is a read that was answered with a [feed.HistoryLostError]: its keys, the LSN
// of its position, and the LSN of the oldest position.
type lostRead struct {
	keys         feed.Range
	from, oldest int64
}

// onHistoryLost returns a host's Config.OnHistoryLost. It refuses to skip some of the lost
// changes, while there are faults. The processor then reads again later.
func (w *world) onHistoryLost(h *host) func(lease.Lease, *feed.HistoryLostError) bool {
	return func(l lease.Lease, lost *feed.HistoryLostError) bool {
		d := newDraw(w.seed, uint64(h.count("history lost", l.Token)), "history lost", h.id, l.Token)
		skip := w.isCalm() || d.chance(0.6)
		if skip && !h.crashed() {
			w.check.skips(h, l.Token, lost)
		}
		return skip
	}
}

// historyAnswered records that a worker's read was answered with a HistoryLostError. It
// ignores other answers.
func (c *checker) historyAnswered(h *host, token string, r feed.Request, err error) {
	lost, ok := errors.AsType[*feed.HistoryLostError](err)
	if !ok {
		return
	}
	from, _ := lsnOf(r.From.Continuation()) // both are valid, because the source has compared them
	oldest, _ := lsnOf(lost.Oldest)
	keys := c.world.keysOf(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost[tenureKey{h, token}] = lostRead{keys: keys, from: from, oldest: oldest}
	if !c.world.drops {
		return // historyLost has dropped them
	}
	if e, found := c.world.journal.kept(keys, from, oldest, c.world.engine.now().Add(-c.world.retention)); found {
		c.violate(2, "%s: the source has dropped the changes of lease %s up to %d, but %s is within the retention", h.id, token, oldest, e)
	}
}

// kept returns the first change of range r with an LSN greater than from and at most to
// that is not older than cut.
func (j *journal) kept(r feed.Range, from, to int64, cut time.Time) (first *record, found bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.between(r, from, to) {
		if !e.at.Before(cut) {
			return e, true
		}
	}
	return nil, false
}

// skips records that a host skips the changes that its last read of a lease has missed.
// No handler needs to receive them any more.
func (c *checker) skips(h *host, token string, lost *feed.HistoryLostError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.lost[tenureKey{h, token}]
	if !ok || lost.Oldest != continuation(r.oldest) {
		c.violate(2, "%s: is asked to skip lease %s to %s, which no read has answered", h.id, token, lost.Oldest)
		return
	}
	if c.world.journal.lose(r.keys, r.from, r.oldest) > 0 {
		c.world.occurs(historyLosses)
	}
	h.trace("skip", token, "", r.oldest)
}

// dropped returns the LSN of the oldest position from which range r can be read, if the
// source has dropped changes before cut. lost reports whether it has dropped changes
// after the position from.
func (j *journal) dropped(r feed.Range, from int64, cut time.Time) (oldest int64, lost bool) {
	oldest = j.before(cut, r)
	j.mu.Lock()
	defer j.mu.Unlock()
	return oldest, len(j.between(r, from, oldest)) > 0
}

// lose records that a host has skipped the changes of range r with an LSN greater than
// from and at most to. It returns the number of those that no handler has handled.
func (j *journal) lose(r feed.Range, from, to int64) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.between(r, from, to) {
		r.lost = true
		if !r.handled {
			n++
		}
	}
	return n
}

// empty ends all hosts, by a crash or regularly, and starts one when the absence is over.
func (r *run) empty(e event) {
	r.mu.Lock()
	if until := time.Now().Add(e.d); until.After(r.awayUntil) {
		r.awayUntil = until
	}
	r.mu.Unlock()
	r.endHosts(e.n)
	r.world.trace.add("operator", "absence", "", "", int64(e.d))
	r.world.later(operatorParty, "back", e.d, func() {
		if !r.discards() {
			r.world.join("host-back")
		}
	})
}

// endHosts ends all hosts. n selects the hosts that crash, while the others leave.
func (r *run) endHosts(n int) {
	for i, h := range r.world.living() {
		if (n+i)%3 == 0 || r.scenario.faultLevel == calm {
			h.leave()
			continue
		}
		r.crashed++
		h.crash()
	}
}

// away reports whether no host may join, because all hosts are absent.
func (r *run) away() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.discarding || time.Now().Before(r.awayUntil)
}

// dropChanges makes the source drop changes, and all hosts absent for longer than its
// retention.
func (s *scenario) dropChanges(d *draw) {
	e := s.times.expiration
	s.retention = d.span(e, 3*e/2)
	if s.drops = s.has(onStore); s.drops {
		s.retention = s.retention.Truncate(time.Second) // the store counts in seconds
		if s.lifetimes.purge == 0 {
			s.lifetimes.purge = d.span(time.Second, e/2).Truncate(latticePeriod)
		}
	}
	n := len(s.events)
	s.add(d, d.between(1, 2), eventAbsence, 0.1, 0.4)
	for i := range s.events[n:] {
		s.events[n+i].d = s.retention + d.span(e/10, e)
	}
}
