package simulation

import (
	"fmt"
	"slices"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/letters"
)

// This file judges letters, and what they park.

// judgeLetter judges a letter when it is stored.
func judgeLetter(v *view, l *letter, breach report) {
	r := v.recordOf(l.mail)
	breach(r == nil, "no change of the container is that of the letter")
	w := v.workers[v.on(l.host, l.token).worker]
	if r == nil || w == nil || w.closed || v.hostOf(l.host).crashed || r.handled || l.exists {
		return
	}
	if l.mail.state == letters.Parked {
		breach(!v.parkedBy(v.on(l.host, l.token).worker, r) && v.sentLetters[l] == v.tenures[tenureKey{l.host, l.token}], "no letter is before the parked one")
		return
	}
	if lane := w.lanes[l.mail.epk]; lane != nil {
		breach(!slices.Contains(lane.unit, r) || lane.tries < l.host.settings.failure.Attempts,
			"the handler has failed with the change %d times; it has %d attempts", lane.tries, l.host.settings.failure.Attempts)
	}
}

// parkedBy reports whether a letter parks, or has parked since worker w read those of its range, a
// change: the letter may have been deleted meanwhile.
func (v *view) parkedBy(w *worker, r *record) bool {
	read := v.entries[v.began[w]].at - v.times.timeout
	return slices.ContainsFunc(v.letters, func(l *letterView) bool { return v.parks(l, r) }) ||
		slices.ContainsFunc(v.formerLetters, func(l *letterView) bool { return l.gone >= read && v.parks(l, r) })
}

// judgeMailed judges a letter that a host gives up again or deletes.
func judgeMailed(v *view, m *mailed, breach report) {
	l := v.letter(v.recordOf(m.mail))
	if m.host == nil || l == nil || v.hostOf(m.host).crashed {
		return
	}
	if m.deleted {
		breach(!l.redriven, "the letter is deleted, and no handler has handled it")
		return
	}
	failures := 0
	for w, n := range l.failures {
		if w.host == m.host {
			failures = max(failures, n)
		}
	}
	breach(failures < m.host.settings.failure.Attempts, "the handler has failed with the letter %d times; it has %d attempts", failures, m.host.settings.failure.Attempts)
}

// judgeParked judges a batch: none of its changes may overtake a letter.
func judgeParked(v *view, u *use, _ *tenure, breach report) {
	b := u.batch
	if b == nil || b.host.foreign || b.host.settings.failure.Attempts == 0 {
		return
	}
	m := v.matched[b]
	for _, r := range m.records {
		earlier := v.before(r)
		if m.letter { // those of one transaction have the order of the page that had them, and a feed leaves changes out
			earlier = slices.DeleteFunc(earlier, func(l *letterView) bool { return l.lsn == r.lsn })
		}
		breach(len(earlier) > 0, "%s overtakes a letter: %v", r, earlier)
		l := v.letter(r)
		breach(l != nil && !l.late && l.state == letters.Dead && v.park != changefeed.ParkNone, "%s is a dead letter", r)
	}
}

// judgeRedriven judges the letters at rest. Some time before, an operator has redriven all.
func judgeRedriven(v *view, _ *rest, breach report) {
	breach(len(v.letters) > 0, "letters are left: %v", v.letters)
}

func (l *letterView) String() string {
	text := l.record.String() + " " + string(l.state)
	if l.late {
		text += ", late"
	}
	return text
}

func (l *letter) String() string {
	return fmt.Sprintf("%s: the letter of item %s with LSN %d, lease %s", l.host.id, l.mail.name.id, l.mail.name.lsn, l.token)
}

func (m *mailed) String() string {
	return fmt.Sprintf("the letter of item %s with LSN %d becomes %s, or is deleted: %t", m.mail.name.id, m.mail.name.lsn, m.mail.state, m.deleted)
}
