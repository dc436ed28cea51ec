package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed"
	shown "github.com/changefeed-go/changefeed/cmd/changefeed/internal/letters"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// poison is a defect of the hosts' handlers: they fail with some records, until it is mended.
type poison struct {
	// ids are those of the records.
	ids    map[string]bool
	mended atomic.Bool
}

// poisoned is the number of records with which the handlers fail, if there are enough.
const poisoned = 12

// poisonAttempts is how often a host delivers such a record before it gives it up.
const poisonAttempts = 3

// newPoison chooses records that are spread over all of them.
func newPoison(data dataset) *poison {
	p := &poison{ids: map[string]bool{}}
	n := len(data.records)
	for i := range min(poisoned, n) {
		p.ids[data.records[i*n/min(poisoned, n)].id] = true
	}
	return p
}

var errPoison = errors.New("the record cannot be copied")

// check returns an error if the handler fails with one of changes. A nil *poison fails with none.
func (p *poison) check(changes []feed.Change) error {
	if p == nil || p.mended.Load() {
		return nil
	}
	for i := range changes {
		id, err := changes[i].ID()
		if err != nil {
			return err
		}
		if p.ids[id] {
			return fmt.Errorf("record %s: %w", id, errPoison)
		}
	}
	return nil
}

// failure is how the hosts treat records that they cannot copy.
func failure(to letters.Container) changefeed.Failure {
	return changefeed.Failure{Attempts: poisonAttempts, Letters: to, Delay: 100 * time.Millisecond, MaxDelay: time.Second}
}

// redrive mends the handlers, and redrives all letters. It returns when none is left, or when there
// is no progress for patience.
func (r *runner) redrive(ctx context.Context) error {
	leases, _, err := protocol.Open(ctx, r.containers.source.source(), r.containers.leases.leases(), lease.Key{Processor: processorName}, requestTimeout)
	if err != nil {
		return fmt.Errorf("open the leases: %w", err)
	}
	store, err := r.containers.letters.letters().Open(ctx, letters.Key{})
	if err != nil {
		return fmt.Errorf("open the letters: %w", err)
	}
	all, err := shown.Filter{}.Read(ctx, store)
	if err != nil {
		return err
	}
	keys, dead := map[string]bool{}, 0
	for _, l := range all {
		keys[l.Group] = true
		if l.State == letters.Dead {
			dead++
		}
	}
	r.count.redrives(len(all))
	r.say("%s given up, and %s behind them, of %s, wait as letters", view.Plural(dead, "record is", "records are"),
		view.Plural(len(all)-dead, "later change", "later changes"), view.Plural(len(keys), "key", "keys"))
	r.poison.mended.Store(true)
	if err := shown.NewRedrive(all, func(letters.Letter) bool { return true }, false).Run(ctx, store, io.Discard); err != nil {
		return err
	}
	if err := ask(ctx, leases, store.Session("")); err != nil {
		return err
	}
	r.say("the handlers are mended; the letters are redriven")
	left, moved := len(all), time.Now()
	for left > 0 {
		if _, err := r.look(ctx); err != nil {
			return err
		}
		if all, err = (shown.Filter{}).Read(ctx, store); err != nil {
			return err
		}
		if len(all) != left {
			left, moved = len(all), time.Now()
		}
		if time.Since(moved) > patience {
			r.say("no letter was redriven for %s: giving up, with %s left", patience, view.Plural(left, "letter", "letters"))
			return nil
		}
		if err := follow.Sleep(ctx, tick); err != nil {
			return err
		}
	}
	return nil
}

// ask asks the owners of all leases to read their letters.
func ask(ctx context.Context, leases lease.Store, session string) error {
	listing, err := leases.List(ctx)
	if err != nil {
		return fmt.Errorf("list the leases: %w", err)
	}
	for _, l := range listing.Leases {
		_, err := protocol.AskOwner(ctx, leases.Update, l, time.Now(), session)
		if err != nil && !errors.Is(err, feed.ErrNotFound) {
			return fmt.Errorf("ask the owner of lease %s: %w", l.Token, err)
		}
	}
	return nil
}
