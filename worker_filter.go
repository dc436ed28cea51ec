package changefeed

import (
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// filters reports whether changes may be hidden.
func (h *host) filters(bound time.Time) bool { return h.cfg.Filter != nil || !bound.IsZero() }

// filter applies the filter to batch b. If it fails, all changes stay open.
func (w *worker) filter(b *queuedBatch, bound time.Time) (o outcome) {
	open := len(b.Changes)
	var hidden []int
	if o.err = callUser("filter", b, func() error { hidden = w.applyFilter(b, bound); return nil }); o.err != nil {
		o.open = upTo(open)
		return o
	}
	o.hidden = hidden
	return o
}

// upTo returns the numbers from 0 to n-1.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// applyFilter removes the changes that are older than bound, in whole seconds, and those
// that Config.Filter rejects, and returns their indexes. It calls user code, so it runs on one
// of the deliverer's callers.
func (h *host) applyFilter(b *queuedBatch, bound time.Time) (hidden []int) {
	i := -1
	changes := keep(b.Changes, func(c feed.Change) bool {
		i++
		wanted := !c.Time.Before(bound) && (h.cfg.Filter == nil || h.wants(c))
		if !wanted {
			hidden = append(hidden, i)
		}
		return wanted
	})
	b.Changes, b.filtered = changes, true
	return hidden
}

// wants returns the result of Config.Filter for c. If the filter panics, wants adds the
// name of c's item to the panic.
func (h *host) wants(c feed.Change) bool {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case error:
			panic(fmt.Errorf("%s: %w", itemOf(&c), v))
		default:
			panic(fmt.Errorf("%s: %v", itemOf(&c), v))
		}
	}()
	return h.cfg.Filter(c)
}

// keep returns the changes for which wanted returns true. It never modifies changes, and
// returns the slice itself if all are wanted.
func keep(changes []feed.Change, wanted func(feed.Change) bool) []feed.Change {
	for i := range changes {
		if wanted(changes[i]) {
			continue
		}
		kept := append(make([]feed.Change, 0, len(changes)-1), changes[:i]...)
		for _, c := range changes[i+1:] {
			if wanted(c) {
				kept = append(kept, c)
			}
		}
		return kept
	}
	return changes
}
