package simulation

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/hook"
)

// This file concludes which changes have been delivered, from the calls of the user's code
// and the reads of workers.

// workerView is what follows for one run of one lease on a host.
type workerView struct {
	start int64 // LSN of the lease's position when the worker began
	// lanes is how far the handler has come, for each EPK if several calls are made at a
	// time; otherwise there is one, with the key "".
	lanes map[string]*laneView
	// pages has the number of the page of each change that the worker has read, if several calls
	// are made at a time. read is the number of these pages, and reached that of the last one
	// from which a change was delivered.
	pages         map[changeName]int
	read, reached int
	// stopped says when the handler has stopped the lease, unless an operator has resumed it
	// since; otherwise it is -1.
	stopped        time.Duration
	opened, closed bool
	restarts       int // number of restarts in the journal when the worker began
	tenure         *tenure

	// These are LSNs of manual checkpoints: the latest position that the lease store has
	// applied, and the latest batch whose checkpoint returned nil.
	stored, confirmed int64
}

// laneView is how far the handler of a worker has come with the changes that are handled in
// order.
type laneView struct {
	position int64     // LSN of the last change of the last handled batch
	first    bool      // whether no batch has been handled yet
	failed   []*record // those that must be delivered next, because the handler failed with them
	reached  int64     // LSN of the last change that was delivered
	// unit has the changes with which the handler failed last, or the one that it named, and
	// tries counts how often it failed with just these.
	unit  []*record
	tries int
}

// changeName identifies a change in what a worker reads.
type changeName struct {
	id     string
	lsn    int64
	delete bool
}

func nameOf(c feed.Change) changeName {
	id, _ := c.ID()
	return changeName{id, c.LSN, c.Op == feed.Delete}
}

// lane returns how far the worker of a batch has come with changes of the batch's key.
func (v *view) lane(b *batch) *laneView {
	w := v.workers[b.worker]
	if w.lanes[b.epk] == nil {
		w.lanes[b.epk] = &laneView{position: w.start, reached: w.start, first: true}
	}
	return w.lanes[b.epk]
}

// page returns the number of the last page from which a batch has changes.
func (w *workerView) page(b *batch) (last int) {
	for _, c := range b.changes {
		last = max(last, w.pages[nameOf(c)])
	}
	return last
}

// works records that a worker begins or ends.
func (v *view) works(w *worker, ends bool) {
	if ends {
		v.workers[w].closed = true
		return
	}
	t := v.tenures[tenureKey{w.host, w.lease.Token}]
	v.workers[w] = &workerView{start: v.lsn(w.lease), lanes: map[string]*laneView{}, pages: map[changeName]int{}, stopped: -1, restarts: v.journal.restarts, tenure: t}
	v.on(w.host, w.lease.Token).worker = w
	if !w.host.foreign {
		v.changedAt = v.now // even if its host owned the lease before
	}
}

// compare compares a batch with the changes that its worker is due.
func (v *view) compare(b *batch) {
	w := v.lane(b)
	if r := v.handsOut(b, w); r != nil {
		v.matched[b] = matching{records: []*record{r}, letter: true}
		return
	}
	keys := b.lease.Range.OrFull()
	if b.epk != "" {
		keys = keyRange(b.epk)
	}
	if w.failed != nil {
		m := w.again(b)
		if rest := b.changes[len(m.records):]; m.wrong == "" && len(rest) > 0 {
			more := v.journal.match(keys, w.reached, rest, v.delivers)
			m.records, m.wrong = append(m.records, more.records...), more.wrong
		}
		v.matched[b] = m
		return
	}
	from, since, fallback := w.position, time.Time{}, feed.Now()
	if b.host.foreign {
		fallback = v.start
	}
	if start := b.lease.Start(fallback); w.first && start.Kind() == feed.StartTime {
		// The start time may have been in the future when the run began. On a merged
		// partition, the first page may also contain older changes.
		from, since = 0, start.Time()
	}
	m := v.journal.match(keys, from, b.changes, func(r *record) bool {
		return v.delivers(r) && !r.at.Before(since)
	})
	for _, r := range m.records {
		if r.at.Before(v.journal.since) {
			m.wrong = "contains " + r.String() + ", which is older than the start time"
		}
	}
	if b.mixed {
		m.wrong = "has changes of several keys"
	}
	v.matched[b] = m
}

// handled records that the handler of a batch has returned.
func (v *view) handled(b *batch) {
	w, m := v.lane(b), v.matched[b]
	if m.letter {
		v.handedOut(b, m)
		return
	}
	w.reached = max(w.reached, b.changes[len(b.changes)-1].LSN)
	if errors.Is(b.err, errStopped) {
		v.workers[b.worker].stopped = v.now
	}
	if b.err != nil && m.records == nil { // its handler was not called
		return
	}
	if b.err != nil {
		m.failed = m.of(b.failures())
	}
	v.matched[b] = m
	left := slices.DeleteFunc(slices.Clone(w.failed), func(r *record) bool { return slices.Contains(m.records, r) })
	w.failed = append(slices.Clone(m.failed), left...)
	w.settle()
	if b.err != nil && len(m.failed) > 0 {
		w.count(b, m.failed)
	}
}

// handedOut records that the handler of a batch with a letter has returned.
func (v *view) handedOut(b *batch, m matching) {
	if errors.Is(b.err, errStopped) {
		v.workers[b.worker].stopped = v.now
	}
	if b.err == nil {
		if l := v.letter(m.records[0]); l != nil {
			l.redriven = true
		}
		return
	}
	if m.failed = m.of(b.failures()); len(m.failed) > 0 {
		if l := v.letter(m.records[0]); l != nil {
			l.failures[b.worker]++
		}
	}
	v.matched[b] = m
}

// settle ends a series of failures once nothing is left of it.
func (w *laneView) settle() {
	if len(w.failed) == 0 {
		w.failed, w.first, w.position = nil, false, w.reached
	}
}

// again compares the beginning of a batch with the changes that failed before. Without letters it
// has all of them, and nothing else.
func (w *laneView) again(b *batch) (m matching) {
	n := min(len(b.changes), len(w.failed))
	m.records = w.failed[:n:n]
	exact := b.host.settings.failure.Attempts == 0
	if len(m.of(b.changes[:n])) != n || exact && (n != len(w.failed) || n != len(b.changes)) {
		m.wrong = fmt.Sprintf("has %d changes and is not the %d changes that failed", len(b.changes), len(w.failed))
	}
	return m
}

// failures returns the changes with which the handler of the batch has failed. A panic of a
// simulated handler is recorded as errHandler.
func (b *batch) failures() []feed.Change {
	var failed []feed.Change
	for _, i := range hook.FailedChanges(b.err, len(b.changes)) {
		failed = append(failed, b.changes[i])
	}
	return failed
}

// decides records what the user's code has done with batches, unless their keys have started
// over since the worker began.
func (v *view) decides(f *verdict) {
	for _, b := range f.batches {
		for _, r := range v.matched[b].records {
			if r.restarted > v.workers[f.worker].restarts || slices.Contains(v.matched[b].failed, r) {
				continue
			}
			if f.handled && r.handled {
				v.journal.writes.redelivered++
			}
			r.delivery = r.or(f.delivery)
		}
	}
}

// used records the begin or the end of a use.
func (v *view) used(u *use, ends bool) {
	if ends {
		delete(v.uses, u)
		return
	}
	if v.hostOf(u.host).crashed {
		return
	}
	if u.what == useRead || u.what == usePage {
		v.lease(u.token).read = v.now
	}
	if u.batch != nil && u.batch.epk != "" {
		w := v.workers[u.batch.worker]
		w.reached = max(w.reached, w.page(u.batch))
	}
	if !v.overslept(u) { // otherwise its context ends at this moment
		v.uses[u] = false
	}
}

// overslept reports whether the processor called the user's code while the host trusted its
// lease, but one of the host's clocks fell behind and trust ended before the code began. The
// host notices that within a moment, and ends the context of the call.
func (v *view) overslept(u *use) bool {
	t := v.tenures[u.key()]
	return t != nil && !u.host.foreign && !v.trusted(t) && v.hostOf(u.host).fellBehind(u.asked) && v.trustedAt(t, u.asked)
}

func (u *use) key() tenureKey { return tenureKey{u.host, u.token} }

// paging is the state of a worker's reads after the last one.
type paging struct {
	tenure  *tenure
	after   feed.Continuation
	since   time.Duration
	end     int64     // that the first of several empty pages showed; 0 if the next read is not due
	due     bool      // the next read is due at once
	limited []*record // the changes read, whose items have a time to live
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
		if w := v.workers[on.worker]; w != nil && r.host.keyed() {
			w.read++
			for _, c := range r.answer.Changes {
				w.pages[nameOf(c)] = w.read
			}
		}
	case ends && lost:
		on.lost = r
	}
}

// pageReceived records a page that a worker has received. If more changes may follow it, the
// next read is due at once: reads of empty pages must reach the end that the first one showed.
// The worker must deliver the changes even if their items expire meanwhile, but it has dropped
// those after the position from which it reads again.
func (v *view) pageReceived(r *read, last *paging) *paging {
	page, from := r.answer, r.req.From
	next := &paging{tenure: v.tenures[tenureKey{r.host, r.token}], after: page.Continuation, since: v.now}
	same := last != nil && last.tenure == next.tenure
	if len(page.Changes) > 0 {
		next.due = page.End < 0 || page.LSN < page.End
	} else {
		next.end = page.End
		if same && last.after == from.Continuation() && last.end > 0 {
			next.end = last.end
		}
		next.due = page.Continuation != from.Continuation() && page.LSN >= 0 && page.LSN < min(page.End, next.end)
	}
	if !next.due {
		next.end = 0
	}
	next.due = next.due && r.host.settings.readAhead == 0 // with less, the next read waits for the handler
	if same && from.Kind() == feed.StartContinuation {
		at := lsnAt(from.Continuation())
		next.limited = slices.DeleteFunc(slices.Clone(last.limited), func(l *record) bool { return l.lsn > at })
	}
	next.limited = append(next.limited, v.limited[r]...)
	delete(v.limited, r)
	return next
}

// serves records that the source serves a read.
func (v *view) serves(s *served) {
	if v.mode != feed.LatestVersion || !v.journal.limited || len(s.page.Changes) == 0 {
		return
	}
	m := v.journal.match(keysOf(v.live, s.req), s.page.Changes[0].LSN-1, s.page.Changes, func(*record) bool { return false })
	for _, r := range m.records {
		if !r.expires.IsZero() {
			v.limited[s.read] = append(v.limited[s.read], r)
		}
	}
}

// visible reports whether a reader of the whole feed would now receive the change.
func (j *journal) visible(r *record) bool {
	return !r.lost && (j.passes == nil || j.passes(r.id)) && !r.at.Before(j.since) && !r.at.Before(j.beside) && j.contains(r)
}

func (d delivery) unacknowledged() bool { return !d.acked }

func (d delivery) unhandled() bool { return !d.handled && !d.vouched }

// left returns the changes of range r with an LSN greater than from and at most to that are
// visible and undone.
func (j *journal) left(r feed.Range, from func(*keyLog) int64, to int64, undone func(delivery) bool) (left []*record) {
	for _, k := range j.in(r) {
		for _, r := range k.after(from(k)) {
			if r.lsn <= to && undone(r.delivery) && j.visible(r) {
				left = append(left, r)
			}
		}
	}
	return left
}

// matching is what the journal says of changes that a reader received.
type matching struct {
	records []*record
	failed  []*record // those with which the handler failed
	letter  bool      // the change is that of a letter, which is handed out again
	wrong   string    // the first error
}

// of returns the records of changes, in the order of the records.
func (m matching) of(changes []feed.Change) []*record {
	var found []*record
	for _, r := range m.records {
		if slices.ContainsFunc(changes, func(c feed.Change) bool { id, _ := c.ID(); return r.is(c, id) }) {
			found = append(found, r)
		}
	}
	return found
}

// match matches changes that a reader of range r received after the LSN from. It is an error
// if a needed change is missing, or if a change was never written there. After a merge, two
// transactions may have the same LSN, and may come in any order.
func (j *journal) match(r feed.Range, from int64, changes []feed.Change, needed func(*record) bool) (m matching) {
	changes = slices.Clone(changes)
	all := j.between(r, from, changes[len(changes)-1].LSN)
	for _, e := range all {
		received := bringForward(changes[len(m.records):], e, all)
		switch {
		case received:
			m.records = append(m.records, e)
		case needed(e):
			m.wrong = "lacks " + e.String()
			return m
		}
	}
	if next := len(m.records); next < len(changes) {
		id, _ := changes[next].ID()
		m.wrong = "contains a change that was not written there, or that is not after the last one: " + (&record{lsn: changes[next].LSN, item: id}).String()
	}
	return m
}

// bringForward moves the change that record e describes to the front of changes, and reports
// whether it has found it. It passes only changes of other transactions with the same LSN.
// all are the records among which the transactions' other records are.
func bringForward(changes []feed.Change, e *record, all []*record) bool {
	for i, c := range changes {
		id, _ := c.ID()
		if e.is(c, id) {
			copy(changes[1:i+1], changes[:i])
			changes[0] = c
			return true
		}
		sameTransaction := func(o *record) bool { return o.epk == e.epk && o.is(c, id) }
		if c.LSN != e.lsn || slices.ContainsFunc(all, sameTransaction) {
			return false
		}
	}
	return false
}
