package simulation

import (
	"errors"
	"slices"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/hook"
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

// lettered records that the letter of a change is stored. The change is then done.
func (v *view) lettered(l *letter) {
	r := v.recordOf(l)
	if r == nil {
		return
	}
	r.delivery = r.or(delivery{handled: true, acked: true})
	w := v.workers[v.on(l.host, l.token).worker]
	if w == nil || w.lanes[l.epk] == nil {
		return
	}
	lane := w.lanes[l.epk]
	lane.failed = slices.DeleteFunc(lane.failed, func(f *record) bool { return f == r })
	lane.settle()
}

// recordOf returns the change of a letter, or nil if there is none.
func (v *view) recordOf(l *letter) *record {
	for _, r := range v.journal.between(keyRange(l.epk), l.lsn-1, l.lsn) {
		if r.id == l.id && r.delete == l.delete {
			return r
		}
	}
	return nil
}
