package changefeed

import (
	"container/heap"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// window holds the changes of a lease that were read and are not done, in lanes. The changes
// of one lane are handled in order and never at the same time. With one call of the handler
// at a time, there is one lane, whose batches are whole pages. With several, or with letters,
// there is a lane for each partition key or for each item.
//
// A page that is read while the handler is busy may have a single change, because it is read
// as soon as there is one. If each page were a batch, a handler that takes long for every
// call would fall further and further behind, although it could take many changes at once.
// So the pages that wait in a lane are gathered into batches of up to Config.MaxItems
// changes.
//
// Of all batches that may start, the one that was read first does. So the position, which
// cannot pass what is not done, moves soon.
type window struct {
	w *worker
	// lanes has the lanes that are not empty, by the hash of their key. The lane of changes
	// whose key cannot be read is alone: each of its batches starts when everything before it
	// is done, and nothing after it starts before that. barrier is the order of its last one.
	lanes   map[uint64]*lane
	alone   *lane
	barrier int64
	// ready has the lanes whose first batch may start, and delayed those whose first batch
	// has failed and waits. Both are heaps.
	ready   laneHeap
	delayed laneHeap
	// bytes is the size of all changes in the window that are not done. busy is the number of
	// calls of the handler that are under way and do not wait for a checkpoint, and writing that
	// of the batches whose letters are being written.
	bytes, busy, writing int
	// read is the number of changes that were read. order counts the batches, and started is the
	// number of the last page of which a change was delivered.
	read, order, started int64
}

// lane is a sequence of batches that are handled one after the other.
type lane struct {
	key   uint64
	queue []*queuedBatch
	busy  bool
	// due is the time of the next attempt with the first batch, after a failure.
	due        time.Duration
	retryDelay backoff
}

// queuedBatch is a batch in a lane: changes of one page, or of several pages that were read
// one after the other.
type queuedBatch struct {
	// Page has the changes of all pages that are not handled, and the sums of the pages'
	// sizes and charges. Its other fields are those of the last page.
	feed.Page
	lane *lane
	// order is the batch's place among those of all lanes. first and last are the numbers of
	// the pages in which its changes begin and end.
	order, first, last int64
	// own is the page of the batch if there is one lane. Otherwise places says where each
	// change that is not done comes from, and unacknowledged has the pages of the
	// changes that were handled and wait for a checkpoint by the user.
	own            openPage
	places         []place
	unacknowledged []*openPage
	// failure is why the batch was given up, if it was. Its letters are then to be written.
	failure *HandlerError
	// doubtful reports whether some of its letters may be written already.
	doubtful bool
	// redrive has the letters that the batch hands out, if it comes from no page.
	redrive *redrive
	// acknowledged reports whether the user has checkpointed the batch, and lent whether the
	// handler waits for a checkpoint, so that another call may be made in the meantime.
	acknowledged, lent bool

	// gathered is the size in bytes of the pages after the first one.
	gathered int
	// filtered reports whether Config.Filter was applied to the changes, and failed whether the
	// last call with the batch has failed.
	filtered, failed bool
	// failedAt is when the handler first failed with the batch, by the wall clock.
	failedAt time.Time
	// attempts is the number of calls of the handler with the batch. handled is the number
	// of changes that they handled; these are no longer among Changes.
	attempts, handled int
}

// place says where a change comes from: its page, and its place in its transaction.
type place struct {
	page *openPage
	inTransaction
}

func newWindow(w *worker) window {
	return window{w: w, lanes: map[uint64]*lane{}, ready: laneHeap{before: byOrder}, delayed: laneHeap{before: byDue}}
}

// room returns how many more changes the batch may take.
func (b *queuedBatch) room(maxItems int) int { return max(0, maxItems-len(b.Changes)) }

// fits reports whether page may be gathered into the batch. Like a page, a batch has more
// than maxItems changes only in order not to cut a transaction.
func (b *queuedBatch) fits(page feed.Page, maxItems int) bool {
	room, last := b.room(maxItems), len(page.Changes)-1
	return room > 0 && (last < room || page.Changes[room-1].LSN == page.Changes[last].LSN)
}

// add gathers page into the batch. It copies the changes, but not their documents.
func (b *queuedBatch) add(page feed.Page) {
	if b.gathered == 0 {
		b.Changes = slices.Clip(b.Changes) // the array belongs to the source
	}
	b.gathered += page.Bytes
	page.Changes = append(b.Changes, page.Changes...)
	page.Bytes += b.Bytes
	page.Charge += b.Charge
	b.Page = page
}

// push adds a page that has changes. keys has the hash of each change's key, or is nil if there
// is one lane. It passes the pages that become open to opened.
func (q *window) push(page feed.Page, at pagePosition, keys []changeKey, opened func(*openPage)) {
	if page.Bytes == 0 || keys != nil { // the changes of keys are copies, without the rest of the page's buffer
		page.Bytes = 0
		for i := range page.Changes {
			page.Bytes += sizeOf(&page.Changes[i])
		}
	}
	q.bytes += page.Bytes
	if keys == nil {
		b, gathered := q.add(page, laneKey{}, at.page)
		if b.last = at.page; gathered {
			b.own.number, b.own.pagePosition = at.page, at
			return
		}
		b.own = openPage{number: at.page, pagePosition: at, left: 1}
		opened(&b.own)
		return
	}
	q.read += int64(len(page.Changes))
	open := &openPage{number: at.page, read: q.read, pagePosition: at, left: len(page.Changes)}
	opened(open)
	q.split(page, keys, func(part feed.Page, key laneKey, places []inTransaction) {
		b, _ := q.add(part, key, at.page)
		b.last = at.page
		for _, in := range places {
			b.places = append(b.places, place{open, in})
		}
	})
}

// split divides a page into the changes of each key, in the order of their first changes.
func (q *window) split(page feed.Page, keys []changeKey, each func(feed.Page, laneKey, []inTransaction)) {
	parts := make(map[laneKey]int, len(keys))
	var order []laneKey
	var changes [][]feed.Change
	var places [][]inTransaction
	for i, k := range keys {
		key := k.laneKey
		if key.alone {
			clear(parts) // later changes of a key follow this one
		}
		at, known := parts[key]
		if !known || key.alone {
			at = len(order)
			parts[key] = at
			order, changes, places = append(order, key), append(changes, nil), append(places, nil)
		}
		changes[at], places[at] = append(changes[at], page.Changes[i]), append(places[at], k.inTransaction)
	}
	for i, key := range order {
		part := page
		part.Changes, part.Bytes = changes[i], 0
		for j := range part.Changes {
			part.Bytes += sizeOf(&part.Changes[j])
		}
		if i > 0 {
			part.Charge = 0 // the batches of a page share its charge; the first one has it
		}
		each(part, key, places[i])
	}
}

// measure sets the size of the batch to that of its changes, and returns the difference.
func (b *queuedBatch) measure() int {
	before := b.Bytes
	b.Bytes = 0
	for i := range b.Changes {
		b.Bytes += sizeOf(&b.Changes[i])
	}
	return b.Bytes - before
}

func sizeOf(c *feed.Change) int {
	const component = 16
	return len(c.Current) + len(c.Previous) + len(c.DeletedID) + component*len(c.DeletedKey)
}

// add adds the changes of a page to the last batch of the key's lane if they fit and it has not
// started, or else as a batch of their own.
func (q *window) add(page feed.Page, key laneKey, number int64) (b *queuedBatch, gathered bool) {
	l := q.lane(key)
	if last := l.waiting(); last != nil && !key.alone && last.order >= q.barrier && !last.filtered && last.fits(page, q.w.cfg.MaxItems) {
		last.add(page)
		return last, true
	}
	q.order++
	b = &queuedBatch{Page: page, lane: l, order: q.order, first: number}
	if key.alone {
		q.barrier = q.order
	}
	l.queue = append(l.queue, b)
	if len(l.queue) == 1 {
		heap.Push(&q.ready, l)
	}
	return b, false
}

// lane returns the lane of a key.
func (q *window) lane(key laneKey) *lane {
	if key.alone {
		if q.alone == nil {
			q.alone = &lane{}
		}
		return q.alone
	}
	l := q.lanes[key.hash]
	if l == nil {
		l = &lane{key: key.hash}
		q.lanes[key.hash] = l
	}
	return l
}

// waiting returns the last batch of the lane if it has not started, or else nil.
func (l *lane) waiting() *queuedBatch {
	last := len(l.queue) - 1
	if last < 0 || last == 0 && (l.busy || l.queue[0].failed) {
		return nil
	}
	return l.queue[last]
}

// last returns the last batch of the only lane if it has not started, or else nil.
func (q *window) last() *queuedBatch {
	if l := q.lanes[0]; l != nil && !q.w.keyed() {
		return l.waiting()
	}
	return nil
}

// full reports whether the window has no room for another page. A change that is done costs
// as much as it takes to remember it, so that a crash repeats a limited number of them.
//
// With one lane, one page in the handler does not count, but those that were gathered with it
// do. Otherwise a lease could hold twice the memory.
func (q *window) full(uncovered int) bool {
	const done = 32
	limit := q.w.cfg.ReadAhead
	if q.w.keyed() {
		return q.bytes+uncovered*done >= limit
	}
	l := q.lanes[0]
	if l == nil || len(l.queue) == 0 {
		return false
	}
	if limit < 0 {
		return true
	}
	ahead := q.bytes
	if first := l.queue[0]; l.busy || first.failed {
		ahead -= first.Bytes - first.gathered
	}
	return ahead >= limit
}

// next takes the next batch that may be delivered, for a call of the handler. If the work
// ends, only what finishes the pages that have started may be delivered, and nothing that has
// failed before.
func (q *window) next(ends bool) *queuedBatch {
	now := q.w.now.Mono
	for !ends && len(q.delayed.lanes) > 0 {
		l := q.delayed.lanes[0]
		if l.due > now {
			q.w.wake(l.due)
			break
		}
		heap.Pop(&q.delayed)
		heap.Push(&q.ready, l)
	}
	for len(q.ready.lanes) > 0 {
		l := q.ready.lanes[0]
		b := l.queue[0]
		if ends && (b.failed || b.first > q.started) {
			heap.Pop(&q.ready)
			heap.Push(&q.delayed, l)
			continue
		}
		if q.blocked(l) {
			return nil
		}
		q.cut(b, ends)
		if !b.failed && !q.w.mayHandOut() {
			return nil
		}
		heap.Pop(&q.ready)
		l.busy = true
		q.busy++
		q.started = max(q.started, b.last)
		return b
	}
	return nil
}

// blocked reports whether the first batch of lane l must wait for other lanes: since the key of
// its change cannot be read, or since that holds for a change before it. A change whose handler
// waits for its checkpoint is done, for what it waits for may be behind it.
func (q *window) blocked(l *lane) bool {
	if q.alone == nil {
		return false
	}
	waits := slices.IndexFunc(q.alone.queue, func(b *queuedBatch) bool { return !b.lent })
	if waits < 0 {
		return false
	}
	first := q.alone.queue[waits].order
	if l != q.alone {
		return l.queue[0].order > first
	}
	return !q.isIdle() || slices.ContainsFunc(q.delayed.lanes, func(other *lane) bool { return other.queue[0].order < first })
}

// isAlone reports whether a change is in the handler beside which no other may be.
func (q *window) isAlone() bool { return q.alone != nil && q.alone.busy && !q.alone.queue[0].lent }

// cut divides the first batch of a lane before it starts, so that it ends with the last page that
// has started or, unless the work ends, with one that has at most Config.MaxItems changes more than
// its first page. Otherwise a key with a change in each of many pages would start all of them,
// and a planned move would have to finish them.
func (q *window) cut(b *queuedBatch, ends bool) {
	if b.failed || b.last <= q.started || len(b.places) == 0 { // with one lane, batches are handled as a whole
		return
	}
	far := b.places[0].page.read + int64(q.w.cfg.MaxItems)
	n := slices.IndexFunc(b.places, func(p place) bool {
		return p.page.number > q.started && (ends || p.page.read > far)
	})
	if n > 0 {
		q.divide(b, n)
	}
}

// divide divides the first batch of a lane after n changes. The others are a batch of their own.
func (q *window) divide(b *queuedBatch, n int) {
	rest, before := *b, b.Bytes
	rest.Changes, b.Changes = b.Changes[n:], slices.Clip(b.Changes[:n])
	rest.places, b.places = b.places[n:], slices.Clip(b.places[:n])
	rest.first, b.last = rest.places[0].page.number, b.places[n-1].page.number
	rest.Charge, rest.attempts, rest.failed = 0, 0, false
	rest.unacknowledged, rest.failedAt = nil, time.Time{}
	rest.measure()
	b.measure()
	q.bytes += b.Bytes + rest.Bytes - before // less than before if some changes were handled
	b.lane.queue = slices.Insert(b.lane.queue, 1, &rest)
}

// returned puts the lane of a batch back, after a call of the handler. done reports whether the
// whole batch is done. Otherwise it is delivered again at due, or later.
func (q *window) returned(b *queuedBatch, done bool, due time.Duration) {
	l := b.lane
	l.busy = false
	q.busy--
	if !done {
		l.due, b.failed = due, true
		if q.w.keyed() {
			q.bytes += b.measure()
		}
		heap.Push(&q.delayed, l)
		return
	}
	q.shift(l)
}

// again puts the lane of a batch back that goes on at once: its changes were not delivered yet.
func (q *window) again(b *queuedBatch) {
	b.lane.busy = false
	q.busy--
	q.bytes += b.measure()
	heap.Push(&q.ready, b.lane)
}

// emptied puts the lane of a redrive back whose letter is done.
func (q *window) emptied(b *queuedBatch) {
	q.bytes -= b.Bytes
	b.Changes, b.Bytes, b.failed = nil, 0, false
	q.again(b)
}

// shift removes the first batch of a lane, which is in no heap, and puts the lane back if it has more.
func (q *window) shift(l *lane) {
	b := l.queue[0]
	q.bytes -= b.Bytes
	b.Page = feed.Page{} // an open page may outlive the batch, in which it is
	l.queue[0] = nil
	l.queue = l.queue[1:]
	switch {
	case len(l.queue) > 0:
		heap.Push(&q.ready, l)
	case l != q.alone && q.w.keyed():
		delete(q.lanes, l.key)
	}
}

// retryNow ends the delays before the next calls.
func (q *window) retryNow() {
	for _, l := range q.delayed.lanes {
		l.retryDelay.done()
		l.due = 0
	}
	heap.Init(&q.delayed)
}

// failing returns the earliest batch that has failed, waits for its retry and holds the position,
// and the earliest of the others. Each may be nil.
func (q *window) failing() (first, second *queuedBatch) {
	for _, heap := range []*laneHeap{&q.delayed, &q.ready} {
		for _, l := range heap.lanes {
			switch b := l.queue[0]; {
			case !b.failed || b.acknowledged || b.redrive != nil:
			case first == nil || b.begins() < first.begins():
				first, second = b, first
			case second == nil || b.begins() < second.begins():
				second = b
			}
		}
	}
	return first, second
}

// waiting returns the number of the first page from which a change waits that was not delivered
// yet, or never's number if none does.
func (q *window) waiting() int64 {
	first := int64(never)
	look := func(l *lane) {
		for i, b := range l.queue {
			if b.redrive == nil && !(i == 0 && l.busy) {
				first = min(first, b.begins())
				return
			}
		}
	}
	for _, l := range q.lanes {
		look(l)
	}
	if q.alone != nil {
		look(q.alone)
	}
	return first
}

// begins returns the number of the first page of which the batch has a change that is not done.
func (b *queuedBatch) begins() int64 {
	if len(b.places) > 0 {
		return b.places[0].page.number
	}
	return b.first
}
