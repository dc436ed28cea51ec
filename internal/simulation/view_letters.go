package simulation

import (
	"errors"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/hook"
	"github.com/changefeed-go/changefeed/letters"
)

// This file concludes which changes have been given up, from the calls of the user's code and the
// letters.

// count counts the failure of the handler with some changes of batch b.
func (w *laneView) count(b *batch, failed []*record) {
	unit := failed
	if by, is := errors.AsType[*changefeed.BatchError](b.err); is {
		first := slices.IndexFunc(b.failures(), func(c feed.Change) bool { return c.LSN == failed[0].lsn && failed[0].is(c, mustID(c)) })
		if indexes := hook.FailedChanges(b.err, len(b.changes)); first >= 0 && !errors.Is(by.Errors[indexes[first]], changefeed.ErrNotHandled) {
			unit = failed[:1]
		}
	}
	if !slices.Equal(unit, w.unit) {
		w.unit, w.tries = slices.Clone(unit), 0
	}
	w.tries++
}

func mustID(c feed.Change) string {
	id, _ := c.ID()
	return id
}

// letterView is a letter that exists.
type letterView struct {
	*record
	state letters.State
	// late reports whether the letter arrived when its host had lost the lease, and no host has
	// read the letters of its range before it used a lease since. So nobody may know of it.
	late bool
	// redriven reports whether a handler has handled it.
	redriven bool
	// gone is when it was deleted.
	gone time.Duration
	// failures counts how often a worker's handler has failed with the letter.
	failures map[*worker]int
}

// corresponds records a fact about letters.
func (v *view) corresponds(e entry) {
	switch f := e.fact.(type) {
	case *lettersRead:
		v.readsLetters(f)
	case *mailed:
		v.mailed(f)
	case *letter:
		if e.ends {
			v.lettered(f)
		} else {
			v.sendsLetter(f)
		}
	}
}

// sendsLetter records that a host sends a letter. The page of its change counts as begun.
func (v *view) sendsLetter(l *letter) {
	if w := v.workers[v.on(l.host, l.token).worker]; w != nil {
		w.reached = max(w.reached, w.pages[l.mail.name])
	}
	v.sentLetters[l] = v.tenures[tenureKey{l.host, l.token}]
}

// lettered records that the letter of a change is stored. The change is then done.
func (v *view) lettered(l *letter) {
	r := v.recordOf(l.mail)
	if r == nil {
		return
	}
	r.delivery = r.or(delivery{handled: true, acked: true})
	r.lettered = true
	if !l.exists {
		sent, now := v.sentLetters[l], v.tenures[tenureKey{l.host, l.token}]
		late := sent == nil || sent != now || v.docs[l.token].Owner != l.host.text()
		v.letters = append(v.letters, &letterView{record: r, state: l.mail.state, late: late, failures: map[*worker]int{}})
	}
	w := v.workers[v.on(l.host, l.token).worker]
	if w == nil || w.lanes[l.mail.epk] == nil {
		return
	}
	lane := w.lanes[l.mail.epk]
	lane.failed = slices.DeleteFunc(lane.failed, func(f *record) bool { return f == r })
	lane.settle()
}

// mailed records that a letter is updated or deleted.
func (v *view) mailed(m *mailed) {
	r := v.recordOf(m.mail)
	l := v.letter(r)
	switch {
	case l == nil:
	case m.deleted:
		v.letters = slices.DeleteFunc(v.letters, func(o *letterView) bool { return o == l })
		l.gone = v.now
		v.formerLetters = append(v.formerLetters, l)
	default:
		l.state = m.mail.state
	}
}

// readsLetters records that the letters of a range are read. A host that reads them before it uses a
// lease knows all of them.
func (v *view) readsLetters(f *lettersRead) {
	for _, l := range v.docs {
		if w := v.on(f.host, l.Token).worker; l.Owner != f.host.text() || l.Range.OrFull() != f.keys.OrFull() || w != nil && !v.workers[w].closed {
			continue
		}
		for _, known := range v.letters {
			known.late = known.late && !f.keys.OrFull().Holds(known.epk)
		}
	}
}

// letter returns the letter of a change, or nil if there is none.
func (v *view) letter(r *record) *letterView {
	if i := slices.IndexFunc(v.letters, func(l *letterView) bool { return l.record == r }); i >= 0 {
		return v.letters[i]
	}
	return nil
}

// recordOf returns the change of a letter, or nil if there is none.
func (v *view) recordOf(m mail) *record {
	for _, r := range v.journal.between(keyRange(m.epk), m.name.lsn-1, m.name.lsn) {
		if r.id == m.name.id && r.delete == m.name.delete {
			return r
		}
	}
	return nil
}

// handsOut returns the letter that a batch hands out, or nil if its changes come from the feed. A
// worker hands one letter out at a time, when nothing of its key waits for a retry.
func (v *view) handsOut(b *batch, lane *laneView) *record {
	if len(b.changes) != 1 || b.epk == "" || b.host.settings.failure.Attempts == 0 {
		return nil
	}
	c := b.changes[0]
	r := v.recordOf(mail{epk: b.epk, name: changeName{mustID(c), c.LSN, c.Op == feed.Delete}})
	if r == nil || !r.lettered || slices.Contains(lane.failed, r) {
		return nil
	}
	return r
}

// delivers reports whether the handler must get a change: it is in the feed, is no letter, and none
// parks it.
func (v *view) delivers(r *record) bool {
	return v.journal.visible(r) && !r.lettered && len(v.before(r)) == 0
}

// before returns the letters that a change must not overtake.
func (v *view) before(r *record) (earlier []*letterView) {
	for _, l := range v.letters {
		if !l.late && v.parks(l, r) {
			earlier = append(earlier, l)
		}
	}
	return earlier
}

// parks reports whether a change must not overtake letter l.
func (v *view) parks(l *letterView, r *record) bool {
	same := l.epk == r.epk && (v.park == changefeed.ParkKey || v.park == changefeed.ParkItem && l.id == r.id)
	return same && (l.lsn < r.lsn || l.lsn == r.lsn && l.record != r)
}
