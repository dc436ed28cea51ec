package changefeed

import (
	"container/heap"
	"errors"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// redrive hands the letters of a unit to the handler, one after the other, in the order of their
// changes. It is a batch in the lane of the unit, so nothing else of that lane is handled
// meanwhile, and no new letters of the unit are written:
//
//	list    the unit's letters are read, now that none can be added
//	load    the first of them is read with its item
//	handle  the handler gets it, with the attempts and delays of any change
//	delete  the letter is deleted, and the next one is loaded; if the handler fails as often as
//	        Config.Failure.Attempts says, the letter is dead again instead, and the redrive ends
//
// When no letter is left, the unit is parked no longer. After a crash between handle and delete,
// the letter is handed out again. If the work ends, so does the redrive, and the next owner goes
// on with it: letters that wait for the handler are found when it reads those of its range.
type redrive struct {
	unit uint64
	// hash is that of the unit's letters, by which they are found.
	hash string
	lane laneKey
	// from is the LSN of the first of the letters.
	from int64
	// known reports whether the worker has parked the unit. Letters of other units are handed
	// out only if an operator has chosen them. They may be those of a host that lost the lease
	// while its letter was on the way.
	known bool
	// again reports whether the letters are to be looked at once more afterwards.
	again bool
	batch *queuedBatch
	// patience is how long it may take to list the letters.
	patience time.Duration
	// left has the letters that were listed and not handed out yet.
	listed bool
	left   []letters.Letter
	// letter is the one that is under way, and handled reports whether it only has to be deleted.
	letter  letters.Letter
	handled bool
}

// next returns the index of the next letter to hand out, or -1. all are those of the unit, in
// order. Those of a parked unit follow each other until one is dead; of others, only those that an
// operator has chosen are handed out.
func (r *redrive) next(all []letters.Letter) int {
	if !r.known {
		return slices.IndexFunc(all, func(l letters.Letter) bool { return l.State == letters.Redriving })
	}
	if len(all) == 0 || all[0].State == letters.Dead {
		return -1
	}
	return 0
}

// unitsAreItems reports whether each item is parked or redriven for itself, instead of each key.
func (h *host) unitsAreItems() bool {
	return h.cfg.Failure.Park == ParkItem || h.cfg.Order == OrderByItem
}

// redrive puts a redrive into its lane, before what waits there. It reports false as long as the
// redrive has to wait: the lane is busy or repeats what has failed, or a change that precedes the
// letters was not handled yet. After a move such a change may come again, even after it was read once.
// at is the number of the last page that was read.
func (q *window) redrive(r *redrive, at int64) bool {
	if !r.lane.alone && q.holds(q.lanes[r.lane.hash], r) {
		return false
	}
	l := q.lane(r.lane)
	q.order++
	b := &queuedBatch{lane: l, order: q.order, first: at, filtered: true, redrive: r}
	r.batch = b
	if len(l.queue) > 0 && !r.lane.alone {
		b.order, b.first = l.queue[0].order, l.queue[0].first
	}
	if r.lane.alone {
		q.barrier = q.order
		if l.queue = append(l.queue, b); len(l.queue) == 1 {
			heap.Push(&q.ready, l)
		}
		return true
	}
	for _, h := range []*laneHeap{&q.ready, &q.delayed} {
		if i := slices.Index(h.lanes, l); i >= 0 {
			heap.Remove(h, i)
		}
	}
	l.queue = slices.Insert(l.queue, 0, b)
	heap.Push(&q.ready, l)
	return true
}

// holds reports whether a redrive has to wait for lane l, which may be nil.
func (q *window) holds(l *lane, r *redrive) bool {
	if l == nil || len(l.queue) == 0 {
		return false
	}
	if l.busy || l.queue[0].failed {
		return true
	}
	for _, b := range l.queue {
		for i := range b.Changes {
			c := &b.Changes[i]
			if c.LSN < r.from && q.w.keyReader.unit(c, q.w.unitsAreItems()).hash == r.unit {
				return true
			}
		}
	}
	return false
}

// dropRedrive removes a redrive that has not started, because the work ends, and returns it. It
// returns nil if there is none.
func (q *window) dropRedrive() *redrive {
	for _, h := range []*laneHeap{&q.ready, &q.delayed} {
		i := slices.IndexFunc(h.lanes, func(l *lane) bool { return l.queue[0].redrive != nil })
		if i < 0 {
			continue
		}
		l := h.lanes[i]
		heap.Remove(h, i)
		r := l.queue[0].redrive
		q.shift(l)
		return r
	}
	return nil
}

// interrupted records that a redrive was removed. If the work goes on after all, the letters are
// read once more.
func (p *parking) interrupted(r *redrive) {
	delete(p.active, r.unit)
	p.asked = true
}

// sift applies the filter to batch b, which is parked in part: a change that the filter hides
// becomes no letter.
func (d *deliverer) sift(b *queuedBatch, bound time.Time) {
	w := d.w
	d.start("handle", func() func() {
		open := len(b.Changes)
		o := w.filter(b, bound)
		return func() {
			if o.err != nil {
				d.handled(b, o)
				return
			}
			o.open = slices.DeleteFunc(upTo(open), func(i int) bool { return slices.Contains(o.hidden, i) })
			w.delivered(b, o)
			if len(b.Changes) == 0 {
				w.window.returned(b, true, 0)
				return
			}
			w.window.again(b)
		}
	})
}

// loadLetter reads the next letter of the redrive b, or ends it if there is none.
func (d *deliverer) loadLetter(b *queuedBatch) {
	w, r := d.w, b.redrive
	if !r.listed {
		r.known = w.parking.knows(r.unit)
	}
	d.correspond("read letters", b, func() func() {
		l, found, err := w.nextLetter(r)
		return func() {
			switch {
			case err != nil:
				d.repeatLetters(b, &LettersError{Op: "read a letter to redrive", Err: err})
			case !found && r.known && len(r.left) == 0:
				w.parking.remove(r.unit)
				d.endRedrive(b)
			case !found:
				d.endRedrive(b)
			default:
				if r.letter.ID != l.ID {
					b.attempts, b.failedAt = 0, time.Time{}
				}
				r.letter, b.failed = l, false
				b.Changes = []feed.Change{l.Change()}
				w.window.again(b)
			}
		}
	})
}

// nextLetter lists the letters of a redrive, unless that was done, and returns the one under way, if
// the handler has failed with it, or the next one, with its items. One that was dropped meanwhile is
// passed over. It runs on one of the deliverer's callers.
func (w *worker) nextLetter(r *redrive) (l letters.Letter, found bool, err error) {
	if r.letter.ID != "" && (len(r.left) == 0 || r.left[0].ID != r.letter.ID) {
		r.left = slices.Insert(r.left, 0, r.letter)
	}
	if !r.listed {
		all, err := w.readLetters(w.trust.ctx, feed.Range{Min: r.hash, Max: r.hash + "00"}, &r.patience)
		if err != nil {
			return l, false, err
		}
		r.left = slices.DeleteFunc(all, func(l letters.Letter) bool {
			unit, _ := w.keyReader.ofLetter(l, w.unitsAreItems())
			return unit != r.unit
		})
		r.listed = true
	}
	for {
		i := r.next(r.left)
		if i < 0 {
			return l, false, nil
		}
		ctx, cancel := w.requestContext(w.trust.ctx)
		l, err := w.letters.Get(ctx, r.left[i].Group, r.left[i].ID)
		cancel()
		if err != nil && !errors.Is(err, feed.ErrNotFound) {
			return l, false, err
		}
		r.left = slices.Delete(r.left, i, i+1)
		if err == nil {
			return l, true, nil
		}
	}
}

// deleteLetter deletes the letter of the redrive b, which the handler has handled, and goes on with
// the next one.
func (d *deliverer) deleteLetter(b *queuedBatch) {
	w, r := d.w, b.redrive
	r.handled = true
	d.correspond("delete a letter", b, func() func() {
		err := w.dropLetter(r.letter)
		return func() {
			if err != nil {
				d.repeatLetters(b, &LettersError{Op: "delete the letter of item " + r.letter.ItemID + ", which was redriven", Err: err})
				return
			}
			w.metrics.redrove()
			r.letter, r.handled = letters.Letter{}, false
			b.lane.retryDelay.done()
			w.window.emptied(b)
		}
	})
}

// dropLetter deletes a letter that was handled. If somebody has changed it meanwhile, that is
// deleted, too, since only the owner of its lease hands letters out.
func (w *worker) dropLetter(l letters.Letter) error {
	for {
		ctx, cancel := w.requestContext(w.trust.ctx)
		err := w.letters.Delete(ctx, l)
		cancel()
		conflict, changed := errors.AsType[*letters.ConflictError](err)
		if !changed {
			return err
		}
		l.ETag = conflict.Current.ETag
	}
}

var errDropped = errors.New("somebody has dropped the letter")

// failAgain stores that the handler has failed with the letter of the redrive b.
func (w *worker) failAgain(b *queuedBatch, at time.Time) error {
	l := b.redrive.letter
	l.State, l.Error, l.Stack, l.Attempts = letters.Dead, b.failure.cause, string(b.failure.Stack), b.attempts
	l.Host, l.Lease, l.Last, l.ETag = w.owner, w.token, at.UTC(), ""
	ctx, cancel := w.requestContext(w.trust.ctx)
	defer cancel()
	_, err := w.letters.Update(ctx, l)
	switch {
	case errors.Is(err, feed.ErrNotFound):
		return errDropped
	case err != nil:
		return &LettersError{Op: "update the letter of item " + l.ItemID, Err: err}
	}
	return nil
}

// endRedrive ends the redrive b. If letters of its unit are left, it stays parked.
func (d *deliverer) endRedrive(b *queuedBatch) {
	b.lane.retryDelay.done()
	d.w.parking.over(b.redrive)
	d.w.window.returned(b, true, 0)
}
