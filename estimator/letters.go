package estimator

import (
	"context"
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/letters"
)

// countLetters reads the processor's letters and counts them in the report.
func (m *measurement) countLetters(ctx context.Context, r *Report) error {
	store, err := m.openLetters(ctx)
	if err != nil {
		return err
	}
	before := protocol.Charged(store)
	all, err := request(ctx, m.Estimator, func(ctx context.Context) (all []letters.Letter, err error) {
		for l, err := range store.Read(ctx, letters.Query{}) {
			if err != nil {
				return nil, err
			}
			all = append(all, l)
		}
		return all, nil
	})
	r.Total.Charge += protocol.Charged(store) - before
	if err != nil {
		m.letters.Store(nil) // the next call opens a recreated container
		return fmt.Errorf("estimator: cannot %w", err)
	}
	r.Total.Letters, r.Total.ParkedKeys = countOf(all, feed.Full())
	for i := range r.Lags {
		l := &r.Lags[i]
		switch {
		case l.Range.IsZero(): // nobody knows which keys it has
		case l.Shadowed:
			l.Letters, l.ParkedKeys = 0, 0
		default:
			l.Letters, l.ParkedKeys = countOf(all, l.Range)
		}
	}
	return nil
}

// countOf returns the number of letters in a range, and of the keys of which one is parked.
func countOf(all []letters.Letter, r feed.Range) (n, parkedKeys int) {
	parked := map[string]bool{}
	for i := range all {
		l := &all[i]
		if !r.Holds(l.Hash) {
			continue
		}
		n++
		if l.State == letters.Parked {
			parked[l.Group] = true
		}
	}
	return n, len(parked)
}

// openLetters returns the letters of the processor. It opens the container at the first call, and
// after a failed read.
func (m *measurement) openLetters(ctx context.Context) (letters.Store, error) {
	if found := m.letters.Load(); found != nil {
		return *found, nil
	}
	store, err := protocol.OpenLetters(ctx, m.cfg.Letters, m.cfg.Processor, m.cfg.Source, m.store.identity, m.store.Store, m.cfg.RequestTimeout)
	if refused, ok := errors.AsType[*letters.ContainerError](err); ok {
		return nil, invalid("Letters", refused.Error())
	}
	if err != nil {
		return nil, openingError(err)
	}
	m.letters.Store(&store)
	return store, nil
}
