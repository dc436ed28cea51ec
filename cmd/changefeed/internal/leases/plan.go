package leases

import (
	"fmt"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/balance"
	"github.com/changefeed-go/changefeed/lease"
)

// Op is the operation of a step.
type Op string

// The operations, in the order of a plan. Leases are created before other leases of the
// same keys are deleted, and the marker is created last.
const (
	Create  Op = "create"
	Replace Op = "replace"
	Delete  Op = "delete"
	Unlock  Op = "delete lock"
	Mark    Op = "create marker"
	Unmark  Op = "delete marker"
)

// Step is one write of a plan.
type Step struct {
	Op Op
	// Before is the document that is replaced or deleted. It is nil for Create and Mark.
	Before *Document
	// After is the lease that a Create or Replace step writes.
	After lease.Lease
	// Raw is the document that the step writes. If nil, the encoded form of After is
	// written.
	Raw []byte
	// Now reports whether After starts at the end of its feed at the moment of the write.
	Now bool
	// Text describes the step to the user, in one line. Names in it are raw.
	Text string
	// Details are further lines for a dry run.
	Details []string

	// healed reports whether no plan has the step: a host creates the lease for keys that the
	// plan leaves without one.
	healed bool
}

// MarshalText returns the step's Text. The JSON form of a step is this text alone.
func (s Step) MarshalText() ([]byte, error) { return []byte(s.Text), nil }

// draft is a plan that is being made. items are the leases as they will be after the
// steps so far.
type draft struct {
	survey Survey
	items  []Item
	steps  []Step
}

func newDraft(s Survey) *draft {
	d := &draft{survey: s, items: slices.Clone(s.Items)}
	sortItems(d.items)
	return d
}

// index returns the index of lease i in the draft's items, or -1.
func (d *draft) index(i Item) int {
	return slices.IndexFunc(d.items, func(o Item) bool {
		return o.Document.ID == i.Document.ID && o.Key == i.Key && o.created == i.created && o.Token == i.Token
	})
}

// now returns lease i as the draft leaves it. ok is false if the draft removes it.
func (d *draft) now(i Item) (Item, bool) {
	at := d.index(i)
	if at < 0 {
		return Item{}, false
	}
	return d.items[at], true
}

// step returns the step that already creates or replaces i's document, or nil. A plan
// writes each document at most once.
func (d *draft) step(i Item) *Step {
	for n := range d.steps {
		s := &d.steps[n]
		if i.created && s.Op == Create && s.After.Token == i.Token || !i.created && s.Op == Replace && s.Before.ID == i.Document.ID && s.Before.Key == i.Key {
			return s
		}
	}
	return nil
}

// replace plans to replace i's document by l.
func (d *draft) replace(i Item, l lease.Lease, text string) {
	at := d.index(i)
	i.Lease = l
	d.items[at] = i
	if s := d.step(i); s != nil {
		s.After = l
		s.Text += "; " + text
		return
	}
	d.steps = append(d.steps, Step{Op: Replace, Before: &i.Document, After: l, Text: text})
}

// remove plans to delete i's document.
func (d *draft) remove(i Item, text string) {
	at := d.index(i)
	d.items = slices.Delete(slices.Clone(d.items), at, at+1)
	if s := d.step(i); s != nil {
		planned := *s
		d.steps = slices.DeleteFunc(slices.Clone(d.steps), func(s Step) bool {
			return s.Op == planned.Op && s.Before == planned.Before && s.After.Token == planned.After.Token
		})
	}
	if !i.created {
		d.steps = append(d.steps, Step{Op: Delete, Before: &i.Document, Text: text})
	}
}

// cover plans new leases, at start, for the keys of r that no lease of the draft covers.
// A new lease is for a whole partition or for a part of one, as hosts would create it.
// Each step's text ends with why.
func (d *draft) cover(r feed.Range, start feed.Start, mode feed.Mode, why string) error {
	var leases []lease.Lease
	for _, i := range d.items {
		leases = append(leases, i.Lease)
	}
	host := balance.Host{Range: r, Start: start, Mode: mode, Dialect: d.survey.Codec.Dialect()}
	for _, l := range host.Missing(leases, d.survey.Partitions) {
		l, err := d.survey.Codec.New(l)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(d.items, func(o Item) bool { return o.Token == l.Token }); i >= 0 {
			return fmt.Errorf("lease %s exists, but covers other keys than %s", l.Token, l.Range)
		}
		now := start.Kind() == feed.StartNow
		where := Position(l)
		if now {
			where = "now"
		}
		d.steps = append(d.steps, Step{Op: Create, After: l, Now: now, Text: fmt.Sprintf("create lease %s for %s at %s: %s", l.Token, l.Range, where, why)})
		d.items = append(d.items, Item{Document: Document{ID: l.ID, Key: l.ID}, Lease: l, created: true})
	}
	sortItems(d.items)
	return nil
}

// ordered returns the draft's steps in the order in which they are carried out.
func (d *draft) ordered() []Step {
	rank := []Op{Create, Replace, Delete, Unlock, Mark}
	steps := slices.Clone(d.steps)
	slices.SortStableFunc(steps, func(a, b Step) int { return slices.Index(rank, a.Op) - slices.Index(rank, b.Op) })
	return steps
}

// attempt calls f, which changes the draft. If f returns an error, attempt undoes these
// changes.
func (d *draft) attempt(f func() error) error {
	items, steps := slices.Clone(d.items), slices.Clone(d.steps)
	if err := f(); err != nil {
		d.items, d.steps = items, steps
		return err
	}
	return nil
}
