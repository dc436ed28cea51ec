package simulation

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/letters"
)

// hostLetters is the container for letters as a host reaches it, over its link.
type hostLetters struct {
	host  *host
	inner letters.Container
}

// Open implements [letters.Container].
func (c hostLetters) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	store, err := c.inner.Open(ctx, k)
	return hostLetterStore{store, c.host}, err
}

type hostLetterStore struct {
	letters.Store
	host *host
}

// Put implements [letters.Store]. The ledger has the moment at which the host sends the letter and,
// as its end, that at which it arrives.
func (s hostLetterStore) Put(ctx context.Context, l letters.Letter) error {
	w := s.host.world
	fact := &letter{host: s.host, token: l.Lease, mail: mailOf(l)}
	w.ledger.add(fact)
	c := call{host: s.host, op: opLetter, key: l.Lease + " " + l.ItemID, write: true}
	arrived := false // a request may arrive twice
	_, err := send(ctx, c, func(ctx context.Context) (struct{}, error) {
		_, err := stored(ctx, s.Store, l)
		exists := err == nil
		if err = s.Store.Put(ctx, l); err == nil && !arrived {
			arrived = true
			w.occurs(lettersOfHosts)
			if l.State == letters.Parked {
				w.occurs(parkedKeys)
			}
			w.ledger.end(fact, func() { fact.exists = exists })
		}
		return struct{}{}, err
	})
	return err
}

// stored returns the letter of the change that l is about.
func stored(ctx context.Context, s letters.Store, l letters.Letter) (letters.Letter, error) {
	for found, err := range s.Read(ctx, letters.Query{}) {
		if err != nil || mailOf(found).name == mailOf(l).name && found.Hash == l.Hash && found.Place == l.Place {
			return found, err
		}
	}
	return letters.Letter{}, feed.ErrNotFound
}

// Read implements [letters.Store].
func (s hostLetterStore) Read(ctx context.Context, q letters.Query) iter.Seq2[letters.Letter, error] {
	c := call{host: s.host, op: opLetters, key: q.Range.String()}
	all, err := send(ctx, c, func(ctx context.Context) (all []letters.Letter, err error) {
		for l, err := range s.Store.Read(ctx, q) {
			if err != nil {
				return nil, err
			}
			all = append(all, l)
		}
		s.host.world.ledger.add(&lettersRead{s.host, q.Range})
		return all, nil
	})
	return func(yield func(letters.Letter, error) bool) {
		if err != nil {
			yield(letters.Letter{}, err)
			return
		}
		for _, l := range all {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// Get implements [letters.Store].
func (s hostLetterStore) Get(ctx context.Context, group, id string) (letters.Letter, error) {
	return send(ctx, call{host: s.host, op: opLetters, key: id}, func(ctx context.Context) (letters.Letter, error) {
		return s.Store.Get(ctx, group, id)
	})
}

// Update implements [letters.Store].
func (s hostLetterStore) Update(ctx context.Context, l letters.Letter) (letters.Letter, error) {
	return send(ctx, call{host: s.host, op: opLetter, key: l.ID, write: true}, func(ctx context.Context) (letters.Letter, error) {
		updated, err := s.Store.Update(ctx, l)
		if err == nil {
			s.host.world.ledger.add(&mailed{s.host, l.Lease, mailOf(l), false})
		}
		return updated, err
	})
}

// Delete implements [letters.Store].
func (s hostLetterStore) Delete(ctx context.Context, l letters.Letter) error {
	_, err := send(ctx, call{host: s.host, op: opLetter, key: l.ID, write: true}, func(ctx context.Context) (struct{}, error) {
		err := s.Store.Delete(ctx, l)
		if err == nil {
			s.host.world.occurs(redrivenLetters)
			s.host.world.ledger.add(&mailed{s.host, "", mailOf(l), true})
		}
		return struct{}{}, err
	})
	return err
}

// mailOf returns what the ledger has of a letter.
func mailOf(l letters.Letter) mail {
	return mail{l.Hash, changeName{l.ItemID, l.LSN, l.Operation == feed.Delete}, l.State}
}

// mailbox is the container for letters of a run.
type mailbox struct{ *memory.Letters }

func (w *world) mailbox() *mailbox { return stateOf[mailbox](&w.states) }

func (r *run) openLetters(context.Context) { r.world.mailbox().Letters = memory.NewLetters() }

// writesLetters draws after how many attempts a host gives a change up and writes a letter.
func (r *run) writesLetters(h *host) {
	d := newDraw(r.scenario.seed, 0, "attempts", h.id)
	h.settings.failure = changefeed.Failure{
		Attempts: d.between(1, 5), Letters: hostLetters{h, r.world.mailbox()}, Park: r.world.park,
		Delay: 100 * time.Millisecond, MaxDelay: 5 * time.Second,
	}
}

// redrive marks letters for the handler, as an operator does, and asks the owners of their leases:
// all letters, or those of the n-th key. It reports whether there are any.
func (r *run) redrive(ctx context.Context, n int) bool {
	return r.correspond(ctx, n, func(ctx context.Context, s letters.Store, l letters.Letter) error {
		l.State, l.ETag = letters.Redriving, ""
		_, err := s.Update(ctx, l)
		return err
	}, false)
}

// These are the kinds of events of letters: an operator redrives or drops some.
var (
	eventRedrive    = &eventKind{func(ctx context.Context, r *run, e event) { r.redrive(ctx, e.n%5-1) }} // all, or those of a key
	eventDropLetter = &eventKind{func(ctx context.Context, r *run, e event) { r.dropLetters(ctx, e.n) }}
)

// redriveAll redrives all letters.
func (r *run) redriveAll(ctx context.Context) { r.redrive(ctx, allKeys) }

// redriveAgain redrives the letters that are left, since some leases may have been deleted, and
// healed meanwhile.
func (r *run) redriveAgain(ctx context.Context) {
	if r.redrive(ctx, allKeys) {
		r.sleep(r.world.times.recovery())
	}
}

// allKeys stands for the number of a key.
const allKeys = -1

// dropLetters drops the first letter of the n-th key.
func (r *run) dropLetters(ctx context.Context, n int) {
	first := true
	r.correspond(ctx, n, func(ctx context.Context, s letters.Store, l letters.Letter) error {
		if !first {
			return errSpared
		}
		first = false
		l.ETag = ""
		return s.Delete(ctx, l)
	}, true)
}

var errSpared = errors.New("the letter is spared")

// correspond changes letters, and then asks the owners of the leases to read them. It reports whether
// there are letters.
func (r *run) correspond(ctx context.Context, n int, change func(context.Context, letters.Store, letters.Letter) error, drops bool) bool {
	w := r.world
	s, err := w.mailbox().Open(ctx, letters.Key{})
	if err != nil {
		w.fails("cannot open the letters: %v", err)
		return false
	}
	var keys []string
	groups := map[string][]letters.Letter{}
	for l, err := range s.Read(ctx, letters.Query{}) {
		if err != nil {
			w.fails("cannot read the letters: %v", err)
			return false
		}
		if groups[l.Group] == nil {
			keys = append(keys, l.Group)
		}
		groups[l.Group] = append(groups[l.Group], l)
	}
	if len(keys) == 0 {
		return false
	}
	for i, key := range keys {
		if n != allKeys && i != n%len(keys) {
			continue
		}
		for _, l := range groups[key] {
			if change(ctx, s, l) == nil {
				l.State = letters.Redriving
				w.ledger.add(&mailed{nil, "", mailOf(l), drops})
				w.trace.add("operator", "letter", l.ItemID, "", l.LSN)
			}
		}
	}
	r.askToRedrive(ctx)
	return true
}

// askToRedrive asks the owners of all leases to read their letters.
func (r *run) askToRedrive(ctx context.Context) {
	for range 10 { // a lease may be written meanwhile
		listing, err := r.operator.List(ctx)
		if err != nil {
			return
		}
		done := true
		for _, l := range listing.Leases {
			if _, asked := protocol.AskedToRedrive(l); asked {
				continue
			}
			l = protocol.AskToRedrive(l, time.Now(), "")
			if stored, err := r.operator.Update(ctx, l); err == nil {
				r.world.operates(opUpdate, l, stored)
				r.world.trace.add("operator", "redrive", l.Token, "", 0)
			} else {
				done = false
			}
		}
		if done {
			return
		}
	}
}
