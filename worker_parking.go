package changefeed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// parking knows which keys of a lease are parked, or which items, if Config.Failure.Park says so.
// A unit is parked when a change of it has become a letter. From then on its later changes become
// letters, too, instead of overtaking that one. An operator hands the letters of a unit to the
// handler again, or drops some; the owner then takes them in order, and when none is left, the
// unit's changes go to the handler again (worker_redrive.go).
//
// The knowledge survives its owner in two places. The letters themselves say what is parked. And a
// property of the lease, which is stored together with each position, says whether there may be
// any, so that a new owner has to read them before it hands anything out. It reads them also
// where the property may be missing or out of date:
//
//   - The owner before has not released the lease. It may have written a letter without the
//     position that passes its change. The change is then delivered again, and would overtake
//     its own letter.
//   - A host that does not know the property has written the lease, or works beside this one: a
//     .NET or Java host, or one without letters.
//   - The lease is new. Its keys may have letters nevertheless, because an operator has deleted the
//     lease before it, or all leases in order to start over.
type parking struct {
	w *worker
	// calls is nil without letters.
	calls *caller
	// units has what is parked, by the hash of the key or item.
	units map[uint64]parkedUnit
	// unread reports whether the letters are to be read before the first batch, and asked whether
	// an operator asks for them.
	unread, asked bool
	// waiting has the redrives that are not in the window yet, and active those in it, by their
	// units.
	waiting []*redrive
	active  map[uint64]*redrive

	// doubtful is the number of batches of which some letters may be written and others not. If the
	// work ends now, the next owner has to know those.
	doubtful int

	// patience is how long a read may take.
	patience   time.Duration
	notBefore  time.Duration
	retryDelay backoff
}

// parkedUnit is a key or item that is parked. Its changes with an LSN of at least from become
// letters. Those before had been handled; they come again after a crash only.
type parkedUnit struct {
	from int64
	// hash is that of the letters, by which they are found.
	hash string
	lane laneKey
}

// maxParked is the number of keys that one lease parks. A lease with more waits, because its
// letters say that something else is wrong than some keys, and its owner has to remember them all.
const maxParked = 10_000

func newParking(w *worker, a acquisition) parking {
	p := parking{w: w, units: map[uint64]parkedUnit{}, active: map[uint64]*redrive{}, retryDelay: w.backoff(a.lease, "letters")}
	what, session := protocol.ParkedOf(a.lease)
	if w.letters != nil {
		p.calls = newCaller()
		w.joinSession(session)
	}
	switch {
	case w.letters == nil:
		if what == protocol.ParkedSome {
			w.log(a.lease.Token).Warn("the lease has parked keys, and this host has no container for letters, so their later changes overtake the letters")
		}
	case what == protocol.ParkedSome:
		p.unread = true
	case w.parks():
		p.unread = a.unsure || what == protocol.ParkedUnknown
	}
	return p
}

// parks reports whether later changes of what is a letter become letters, too.
func (h *host) parks() bool { return h.letters != nil && h.cfg.Failure.Park != ParkNone }

// step reads the letters if that is due, and puts the units that are to be handed out into the
// window, as many at a time as there are calls of the handler. read says how far the feed was read.
func (p *parking) step(doc lease.Lease, read *reader) {
	w := p.w
	if w.letters == nil || w.phase != phaseWorking || !w.trust.holds(w.now) {
		return
	}
	session, asks := protocol.AskedToRedrive(doc)
	if asks && !p.unread {
		p.asked = true
		w.joinSession(session)
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(r *redrive) bool {
		inWindow := p.mayRedrive() && read.passed(r.from) && w.window.redrive(r, read.read)
		if inWindow {
			p.active[r.unit] = r
		}
		return inWindow
	})
	switch {
	case p.calls.busy || !p.unread && !(p.asked && !asks):
	case w.now.Mono < p.notBefore:
		w.wake(p.notBefore)
	default:
		p.read()
	}
}

// idle reports whether no letters are being handed out.
func (p *parking) idle() bool { return len(p.active) == 0 && len(p.waiting) == 0 }

// session returns the token of all letters that the host has written or seen, and the rid of their
// container. joinSession adds such a token to those in which letters are read, unless it is that of a
// container that was deleted since, where nobody could read in it.
func (h *host) session() string {
	token := h.letters.Session("")
	if token == "" || h.lettersRID == "" {
		return token
	}
	return token + "@" + h.lettersRID
}

func (h *host) joinSession(session string) {
	if token, rid, _ := strings.Cut(session, "@"); rid == "" || rid == h.lettersRID {
		h.letters.Session(token)
	}
}

// answers reports whether the document must be written at once, because an operator waits for the
// answer. The letters are read after that. So a change that the operator makes before sees the
// answer is read now, and a later one is asked for anew.
func (p *parking) answers(doc lease.Lease) bool {
	_, asks := protocol.AskedToRedrive(doc)
	return asks && p.asked && !p.unread
}

// sign returns doc with what it is to say of its letters.
func (p *parking) sign(doc lease.Lease) lease.Lease {
	switch {
	case p.w.letters == nil:
		return doc
	case p.unread || len(p.units) > 0 || p.doubtful > 0 || p.asked || p.calls.busy || !p.idle():
		doc = protocol.WithParked(doc, protocol.ParkedSome, p.w.session())
	case p.w.parks():
		doc = protocol.WithParked(doc, protocol.ParkedNone, "")
	default:
		doc = protocol.WithParked(doc, protocol.ParkedUnknown, "")
	}
	if p.asked {
		doc = protocol.Answered(doc)
	}
	return doc
}

// inherited returns doc with what the children of the lease are to say of their letters: that there
// may be some. An operator may ask the lease for them after its children were made, and nobody
// would hand them out if the children's owners did not look.
func (p *parking) inherited(doc lease.Lease) lease.Lease {
	if p.w.letters == nil {
		return doc
	}
	return protocol.WithParked(doc, protocol.ParkedSome, p.w.session())
}

// read reads the letters of the lease's range.
func (p *parking) read() {
	w := p.w
	p.asked = false
	p.calls.start(func() func() {
		all, err := w.readLetters(w.trust.ctx, w.claim.lease.Range, &p.patience)
		return func() { p.answered(all, err) }
	})
}

// readLetters returns the letters of a range, without their items. There may be so many that it takes
// many requests. So patience, which is zero at first, doubles whenever it was too short, up to
// maxPatience.
func (h *host) readLetters(ctx context.Context, r feed.Range, patience *time.Duration) (all []letters.Letter, err error) {
	*patience = max(*patience, h.cfg.RequestTimeout)
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	for l, err := range h.letters.Read(ctx, letters.Query{Range: r}) {
		if err != nil {
			if ctx.Err() != nil {
				*patience = min(2**patience, max(maxPatience, h.cfg.RequestTimeout))
			}
			return nil, err
		}
		l.Error = "" // a lease may have many letters
		all = append(all, l)
	}
	return all, nil
}

// maxPatience is the longest time that a read of letters may take. One that hangs is repeated then.
const maxPatience = 10 * time.Minute

// answered handles the result of a read.
func (p *parking) answered(all []letters.Letter, err error) {
	w := p.w
	if w.phase != phaseWorking {
		p.asked = !p.unread
		return
	}
	if err != nil {
		p.asked = !p.unread
		w.fail(w.token, &LettersError{Op: "read the letters of lease " + w.token, Err: err})
		p.notBefore = w.now.Mono + p.retryDelay.after(err)
		return
	}
	p.retryDelay.done()
	first := p.unread
	p.unread = false
	found := map[uint64][]letters.Letter{}
	var order []uint64
	for _, l := range all {
		unit, _ := w.keyReader.ofLetter(l, w.unitsAreItems())
		if found[unit] == nil {
			order = append(order, unit)
		}
		found[unit] = append(found[unit], l)
		if first && w.parks() && l.PartitionKey != nil {
			p.add(l)
		}
	}
	for _, unit := range order {
		parked, known := p.units[unit]
		_, lane := w.keyReader.ofLetter(found[unit][0], w.unitsAreItems())
		r := &redrive{unit: unit, hash: found[unit][0].Hash, lane: lane, from: found[unit][0].LSN, known: known}
		if known {
			parked.from = min(parked.from, found[unit][0].LSN)
			p.units[unit] = parked
		}
		if r.next(found[unit]) >= 0 {
			p.enqueue(r)
		}
	}
	for unit, parked := range p.units {
		if found[unit] == nil { // somebody has dropped its letters
			p.enqueue(&redrive{unit: unit, hash: parked.hash, lane: parked.lane, from: parked.from})
		}
	}
}

// enqueue adds a redrive. If one of its unit is under way, that one goes on with the letters that it
// has listed, and afterwards they are looked at once more.
func (p *parking) enqueue(r *redrive) {
	if active := p.active[r.unit]; active != nil {
		active.again = true
		return
	}
	if slices.ContainsFunc(p.waiting, func(o *redrive) bool { return o.unit == r.unit }) {
		return
	}
	p.waiting = append(p.waiting, r)
}

// doubt records that letters of batch b may be written from now on, and written that they are: all
// of them.
func (p *parking) doubt(b *queuedBatch) {
	if p.w.parks() && b.redrive == nil && !b.doubtful {
		b.doubtful = true
		p.doubtful++
	}
}

func (p *parking) written(b *queuedBatch, all []letters.Letter) {
	for _, l := range all {
		if p.w.parks() {
			p.add(l)
		}
	}
	if b.doubtful {
		p.doubtful--
	}
	if b.redrive != nil {
		p.over(b.redrive)
	}
}

// over records that a redrive has ended.
func (p *parking) over(r *redrive) {
	delete(p.active, r.unit)
	if r.again {
		p.enqueue(&redrive{unit: r.unit, hash: r.hash, lane: r.lane, from: r.from})
	}
}

// mayRedrive reports whether another redrive may begin: as many at a time as there are calls of the
// handler, beside those that wait after a failure.
func (p *parking) mayRedrive() bool {
	handed := 0
	for _, r := range p.active {
		if !r.batch.failed {
			handed++
		}
	}
	return handed < p.w.cfg.Concurrency && len(p.active) < maxWriting
}

// add parks the unit of a letter.
func (p *parking) add(l letters.Letter) {
	unit, lane := p.w.keyReader.ofLetter(l, p.w.unitsAreItems())
	if lane.alone {
		return // nobody can tell which changes are later ones of its key
	}
	u, known := p.units[unit]
	if !known || l.LSN < u.from {
		p.units[unit] = parkedUnit{from: l.LSN, hash: l.Hash, lane: lane}
	}
	if !known {
		p.w.metrics.parks(1)
	}
}

// remove ends the parking of a unit, of which no letter is left.
func (p *parking) remove(unit uint64) {
	if _, known := p.units[unit]; known {
		delete(p.units, unit)
		p.w.metrics.parks(-1)
	}
}

// knows reports whether a unit is parked.
func (p *parking) knows(unit uint64) bool {
	_, known := p.units[unit]
	return known
}

// holds reports whether a change becomes a letter because its unit is parked.
func (p *parking) holds(c *feed.Change) bool {
	key := p.w.keyReader.unit(c, p.w.unitsAreItems())
	u, parked := p.units[key.hash]
	return parked && !key.alone && c.LSN >= u.from
}

// gather puts the changes of batch b first that are parked, and returns their number. The others
// become a batch of their own, which stays whole: they follow when the letters are written.
func (p *parking) gather(b *queuedBatch) int {
	var changes, others []feed.Change
	var places, otherPlaces []place
	for i, c := range b.Changes {
		if p.holds(&c) {
			changes, places = append(changes, c), append(places, b.places[i])
		} else {
			others, otherPlaces = append(others, c), append(otherPlaces, b.places[i])
		}
	}
	if len(others) > 0 {
		b.Changes, b.places = append(changes, others...), append(places, otherPlaces...)
	}
	return len(changes)
}

// touches reports whether a change of batch b is parked.
func (p *parking) touches(b *queuedBatch) bool {
	if len(p.units) == 0 {
		return false
	}
	for i := range b.Changes {
		if p.holds(&b.Changes[i]) {
			return true
		}
	}
	return false
}

var errTooManyParked = fmt.Errorf("the lease has %d parked keys, and parks no more; redrive or drop some of its letters", maxParked)

// hasRoom reports whether the unit of a batch that is given up may be parked.
func (p *parking) hasRoom(b *queuedBatch) bool {
	return !p.w.parks() || len(p.units)+p.doubtful < maxParked || p.touches(b)
}
