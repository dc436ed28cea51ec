package changefeed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// This file decides what becomes of changes that the handler cannot process. Without letters they
// are repeated. With letters the batch is divided until one unit is left that fails: a change, or a
// transaction if the handler did not report single changes. That unit is repeated as often as
// Config.Failure.Attempts says, and then given up: its letters are written, and only then may the
// position pass it.

// triage is what follows a failure of the handler with a batch.
type triage int

const (
	repeat  triage = iota // the same batch, after a delay
	divided               // the first part of the batch, at once
	giveUp                // letters are written for the batch
)

// triage decides what follows the failure of the handler with batch b, and divides the batch if
// that is it.
func (d *deliverer) triage(b *queuedBatch, o outcome) triage {
	failure, ok := errors.AsType[*HandlerError](o.err)
	if d.w.letters == nil || !ok || failure.Op != "handle" || failure.stops || !d.counts(o.err) {
		return repeat
	}
	at := failure.unit(b.Changes)
	smaller := at < len(b.Changes)
	switch {
	case smaller && (!failure.partial || failure.culprit > 0):
		d.w.window.divide(b, at)
		b.attempts = 0
		return divided
	case smaller:
		d.w.window.divide(b, at)
		b.attempts = 1 // at the change that is now first
	case o.handled > 0 && failure.culprit == 0:
		b.attempts = 1
	}
	most := d.w.cfg.Failure.Attempts
	switch {
	case failure.partial && failure.culprit < 0:
		b.attempts-- // no change has failed
		return repeat
	case (failure.permanent || most > 0 && b.attempts >= most) && !d.w.parking.hasRoom(b):
		d.w.fail(d.w.token, &LettersError{Op: "park the key of " + itemOf(&b.Changes[0]), Err: errTooManyParked})
		return repeat
	case failure.permanent || most > 0 && b.attempts >= most:
		allowed, changed := d.w.breaker.allow(d.w.now.Mono, len(b.Changes))
		switch {
		case changed && allowed:
			d.w.notify(Notification{Event: Unpaused, LeaseToken: d.w.token})
		case changed:
			d.w.notify(Notification{Event: Paused, LeaseToken: d.w.token, Err: o.err})
		}
		if !allowed {
			return repeat
		}
		b.failure = failure
		return giveUp
	}
	return repeat
}

// unit returns how many of the changes that failed belong to the part that is to be repeated: those
// before the first culprit, or the culprit alone. If the handler did not report single changes,
// it is half of the transactions, or the only one.
func (e *HandlerError) unit(changes []feed.Change) int {
	switch {
	case e.partial && e.culprit < 0:
		return len(changes)
	case e.partial:
		return max(1, e.culprit)
	}
	middle := len(changes) / 2
	for distance := range len(changes) { // the border of two transactions that is nearest to the middle
		for _, at := range []int{middle - distance, middle + distance} {
			if at > 0 && at < len(changes) && changes[at-1].LSN != changes[at].LSN {
				return at
			}
		}
	}
	return len(changes)
}

// openLetters opens the container for letters, if there is one.
func (h *host) openLetters(ctx context.Context, identity feed.Identity, leases lease.Store) error {
	if h.cfg.Failure.Letters == nil {
		return nil
	}
	if _, hashes := h.cfg.Source.(feed.KeyHasher); !hashes {
		return &ConfigError{"Failure.Letters", "needs a Source that is a feed.KeyHasher"}
	}
	store, err := protocol.OpenLetters(ctx, h.cfg.Failure.Letters, h.cfg.Processor, h.cfg.Source, identity, leases, h.cfg.RequestTimeout)
	if refused, ok := errors.AsType[*letters.ContainerError](err); ok {
		return &ConfigError{"Failure.Letters", refused.Error()}
	}
	if err != nil {
		return &LettersError{Op: "open", Err: err}
	}
	if s, identifies := store.(feed.Identifier); identifies {
		id, err := s.ContainerID(ctx)
		if err != nil {
			return &LettersError{Op: "identify the container", Err: err}
		}
		h.lettersRID = id.RID
	}
	h.letters = store
	return nil
}

// correspond makes a call to the container for letters for batch b. Meanwhile its lane waits, as it
// does for a call of the handler, but another call may be made: the container may take long to
// answer.
func (d *deliverer) correspond(op string, b *queuedBatch, call func() (then func())) {
	d.w.window.await()
	d.start(op, func() func() {
		then := call()
		return func() {
			d.w.window.answered(b)
			then()
		}
	})
}

// writeLetters writes the letters of batch b, which was given up or whose key is parked.
func (d *deliverer) writeLetters(b *queuedBatch) {
	w, at := d.w, d.w.now.Wall
	w.parking.doubt(b)
	d.correspond("write letters", b, func() func() {
		var all []letters.Letter
		var err error
		if b.redrive != nil {
			err = w.failAgain(b, at)
		} else {
			all, err = w.putLetters(b, at)
		}
		return func() {
			if errors.Is(err, errDropped) { // those behind it may follow
				b.redrive.again, err = true, nil
			}
			d.written(b, all, err)
		}
	})
}

// putLetters writes a letter for each change of batch b, in order, and returns them.
func (w *worker) putLetters(b *queuedBatch, at time.Time) (all []letters.Letter, err error) {
	for i := range b.Changes {
		l, err := w.letter(b, i, at)
		if err == nil {
			ctx, cancel := w.requestContext(w.trust.ctx)
			err = w.letters.Put(ctx, l)
			cancel()
		}
		if err != nil {
			return nil, &LettersError{Op: "write the letter of " + itemOf(&b.Changes[i]), Err: err}
		}
		all = append(all, l)
	}
	return all, nil
}

// item returns an item as a letter has it. What is no JSON is kept as a text.
func item(document json.RawMessage) json.RawMessage {
	if document == nil || json.Valid(document) {
		return document
	}
	text, err := json.Marshal(string(document))
	if err != nil { // a string is never refused
		return nil
	}
	return text
}

// letter returns the letter for change i of batch b.
func (w *worker) letter(b *queuedBatch, i int, at time.Time) (letters.Letter, error) {
	c := b.Changes[i]
	id, _ := c.ID() // a change that names no item has the empty id
	l := letters.Letter{
		ItemID: id, LSN: c.LSN, Index: b.places[i].index, Place: b.places[i].nth, Time: c.Time, Operation: c.Op, Expired: c.Expired,
		Current: item(c.Current), Previous: item(c.Previous),
		State: letters.Parked, Host: w.owner, Lease: w.token, First: at.UTC(), Last: at.UTC(),
	}
	if failure := b.failure; failure != nil {
		l.State, l.Error, l.Stack, l.Attempts, l.First = letters.Dead, failure.cause, string(failure.Stack), b.attempts, b.failedAt.UTC()
	}
	key, err := w.keyReader.partitionKey(&c)
	if err != nil {
		return l, nil //nolint:nilerr // nobody can read the key, which is why its change is a letter without one
	}
	l.PartitionKey = key
	hasher, _ := w.cfg.Source.(feed.KeyHasher)
	ctx, cancel := context.WithTimeout(w.trust.ctx, w.cfg.RequestTimeout)
	defer cancel()
	if l.Hash, err = hasher.KeyHash(ctx, key); err != nil {
		return l, fmt.Errorf("hash the key %s: %w", key, err)
	}
	return l, nil
}

// written handles the result of writing the letters of batch b: all of them, or the error err.
func (d *deliverer) written(b *queuedBatch, all []letters.Letter, err error) {
	w := d.w
	if err != nil {
		d.repeatLetters(b, err)
		return
	}
	w.metrics.lettered(len(all), b.failure != nil)
	if b.failure != nil {
		w.notify(Notification{Event: GivenUp, LeaseToken: w.token, Err: b.failure, Attempt: b.attempts})
	}
	w.parking.written(b, all)
	b.lane.retryDelay.done()
	w.writer.givenUp(b)
	w.window.returned(b, true, 0)
}

// repeatLetters repeats a call for batch b to the container for letters, which has failed.
func (d *deliverer) repeatLetters(b *queuedBatch, err error) {
	l := b.lane
	if l.retryDelay.first == 0 {
		l.retryDelay = d.retryDelay
	}
	d.w.window.returned(b, false, d.failed(err, 0, &l.retryDelay))
}
