package simulation

import (
	"errors"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// workerView is what follows for one run of one lease on a host.
type workerView struct {
	position       int64 // LSN of the last change of the last handled batch
	first          bool  // whether no batch has been handled yet
	failed         []*record
	opened, closed bool
	restarts       int // number of restarts in the journal when the worker began
	tenure         *tenure

	// These are LSNs of manual checkpoints: the latest position that the lease store has
	// applied, and the latest batch whose checkpoint returned nil.
	stored, confirmed int64

	matched map[*batch][]*record
	wrong   map[*batch]string
	called  map[*checkpoint]int64 // what was confirmed when a checkpoint was called
}

// works records that a worker begins or ends.
func (v *view) works(w *worker, ends bool) {
	if ends {
		v.workers[w].closed = true
		return
	}
	v.workers[w] = &workerView{
		position: v.lsn(w.lease), first: true, restarts: v.journal.restarts, tenure: v.tenures[tenureKey{w.host, w.lease.Token}],
		matched: map[*batch][]*record{}, wrong: map[*batch]string{}, called: map[*checkpoint]int64{},
	}
	v.on(w.host, w.lease.Token).worker = w
	if !w.host.foreign {
		v.changedAt = v.now // even if its host owned the lease before
	}
}

// compare compares a batch with the changes that its worker is due.
func (v *view) compare(b *batch) {
	w := v.workers[b.worker]
	from, since, fallback := w.position, time.Time{}, feed.Now()
	if b.host.foreign {
		fallback = v.start
	}
	if start := b.lease.Start(fallback); w.first && start.Kind() == feed.StartTime {
		// The start time may have been in the future when the run began. On a merged
		// partition, the first page may also contain older changes.
		from, since = 0, start.Time()
	}
	w.matched[b], w.wrong[b] = v.journal.match(b.lease.Range.OrFull(), from, b.changes, func(r *record) bool {
		return v.journal.visible(r) && !r.at.Before(since)
	})
	for _, r := range w.matched[b] {
		if r.at.Before(v.journal.since) {
			w.wrong[b] = "contains " + r.String() + ", which is older than the start time"
		}
	}
}

// handles records the end of a batch.
func (v *view) handles(b *batch, ends bool) {
	w := v.workers[b.worker]
	if !ends || v.hostOf(b.host).crashed {
		return
	}
	if b.err != nil {
		if w.matched[b] != nil { // otherwise its handler was not called
			w.failed = w.matched[b]
		}
		return
	}
	w.failed, w.first, w.position = nil, false, b.changes[len(b.changes)-1].LSN
}

// decides records what the user's code has done with batches. It leaves out the changes
// whose keys have started over since the worker began.
func (v *view) decides(f *verdict) {
	w := v.workers[f.worker]
	for _, b := range f.batches {
		v.journal.note(slices.DeleteFunc(slices.Clone(w.matched[b]), func(r *record) bool { return r.restarted > w.restarts }), f.delivery)
	}
}

// checkpoints records the begin or the end of a call of Batch.Checkpoint.
func (v *view) checkpoints(c *checkpoint, ends bool) {
	w := v.workers[c.worker]
	switch {
	case !ends:
		w.called[c] = w.confirmed
	case c.err == nil && !v.hostOf(c.host).crashed:
		w.confirmed = max(w.confirmed, c.lsn)
	}
}

// used records the begin or the end of a use.
func (v *view) used(u *use, ends bool) {
	if ends {
		v.uses = slices.DeleteFunc(v.uses, func(o *using) bool { return o.use == u })
		return
	}
	if v.hostOf(u.host).crashed {
		return
	}
	if u.batch != nil {
		v.counted.batches[u.token]++
	}
	if u.what == useRead || u.what == usePage {
		v.lease(u.token).read = v.now
	}
	if v.overslept(u, v.tenures[tenureKey{u.host, u.token}]) {
		return // its context ends at this moment
	}
	v.uses = append(v.uses, &using{use: u, at: v.now})
}

// paging is the state of a worker's reads: its last one, and the changes of it and of those
// before whose items have a time to live.
type paging struct {
	tenure  *tenure
	after   feed.Continuation
	since   time.Duration
	end     int64 // see due
	due     bool  // the next read is due at once
	limited []*record
}

// reads records the begin or the end of a worker's read.
func (v *view) reads(r *read, ends bool) {
	on := v.on(r.host, r.token)
	_, lost := errors.AsType[*feed.HistoryLostError](r.err)
	switch {
	case !ends && on.paging != nil:
		on.paging.due = false
	case ends && r.err == nil:
		on.paging = v.pageReceived(r, on.paging)
	case ends && lost:
		on.lost = r
	}
}

// pageReceived records a page that a worker has received. If more changes may follow it,
// the next read is due at once. With an end, the reads must reach it without a delay: it is
// the end that the first of several empty pages showed.
//
// The worker must deliver the changes of the page even if their items expire meanwhile. If
// it reads again from an earlier position, it has dropped the later changes.
func (v *view) pageReceived(r *read, last *paging) *paging {
	page, from := r.answer, r.req.From
	next := &paging{tenure: v.tenures[tenureKey{r.host, r.token}], after: page.Continuation, since: v.now}
	same := last != nil && last.tenure == next.tenure
	if len(page.Changes) == 0 {
		next.end = page.End
		if same && last.after == from.Continuation() && last.end > 0 {
			next.end = last.end
		}
		next.due = page.Continuation != from.Continuation() && page.LSN >= 0 && page.LSN < min(page.End, next.end)
	} else {
		next.due = page.End < 0 || page.LSN < page.End
	}
	if !next.due {
		next.end = 0
	}
	next.due = next.due && r.host.settings.readAhead == 0 // with less, the next read waits for the handler
	if same && from.Kind() == feed.StartContinuation {
		for _, l := range last.limited {
			if l.lsn <= lsnAt(from.Continuation()) {
				next.limited = append(next.limited, l)
			}
		}
	}
	next.limited = append(next.limited, v.limited[r]...)
	delete(v.limited, r)
	return next
}

// serves records that the source serves a read.
func (v *view) serves(s *served) {
	if s.estimates {
		v.surveys(s)
		return
	}
	if v.mode != feed.LatestVersion || !v.journal.limited || len(s.page.Changes) == 0 {
		return
	}
	records, _ := v.journal.match(v.keysOf(s.req), s.page.Changes[0].LSN-1, s.page.Changes, func(*record) bool { return false })
	for _, r := range records {
		if !r.expires.IsZero() {
			v.limited[s.read] = append(v.limited[s.read], r)
		}
	}
}

// surveyed is the lag of a lease by the journal when the source served the last read of
// one measurement.
type surveyed struct {
	from   feed.Start // of the measurement's first read
	unread unread
	page   feed.Page // the page that the estimator received
	// told reports whether the page shows how far the feed goes. It does not if it is
	// empty and has not advanced, or lacks an LSN. Nor does it if it is empty and before
	// the end, but has reached firstEnd: the end that the first page showed.
	told     bool
	firstEnd int64
	end      int64     // the last LSN of the partition
	now      time.Time // by the service's clock, without its forward jumps during the measurement
}

// lag returns the lag in transactions by the formula of package estimator.
func (m *surveyed) lag() int64 {
	if m == nil || m.unread.transactions == 0 {
		return 0
	}
	return m.end - m.unread.first + 1
}

// surveys records the lag by the journal when the source serves a read of an estimator.
func (v *view) surveys(s *served) {
	m := v.measured[s.token]
	if m == nil {
		m = &surveyed{from: s.req.From, firstEnd: s.page.End}
		v.measured[s.token] = m
	}
	m.unread = v.journal.unread(v.keysOf(s.req), m.from)
	// The estimator takes the time from its listing of the leases, before this read. If the
	// clock has jumped forward since, the report's ages do not contain the jump.
	m.page, m.end, m.now = s.page, s.end, v.store().Add(v.jumped-v.forwardJumps())
	advanced := s.page.Continuation != s.req.From.Continuation()
	m.told = len(s.page.Changes) > 0 || s.page.LSN >= 0 && s.page.End >= 0 && (s.page.LSN >= s.page.End || advanced && s.page.LSN < m.firstEnd)
}

// counted counts the requests to the lease store since a moment, and the batches.
type counted struct {
	since            time.Duration
	lists            map[*host]int
	updates, batches map[string]int // by lease
	others           int            // number of creates, deletes and hand-over requests
}

func newCounted(since time.Duration) counted {
	return counted{since: since, lists: map[*host]int{}, updates: map[string]int{}, batches: map[string]int{}}
}

// wrote counts a write of one of our hosts.
func (c *counted) wrote(a *application, before lease.Lease) {
	asks := a.doc.Owner == before.Owner && a.doc.Owner != "" && a.doc.Owner != a.host.text()
	if a.op != opUpdate || asks {
		c.others++
	}
	if a.op == opUpdate {
		c.updates[a.lease.Token]++
	}
}
