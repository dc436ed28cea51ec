package leases

import (
	"fmt"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/balance"
	"github.com/changefeed-go/changefeed/lease"
)

// Op is what a step does to a document.
type Op string

// The steps, in the order in which they are carried out: what covers keys is there before something
// that covered them goes, and the marker is made when everything else is right.
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
	// Before is the document that is replaced or deleted; nil: there is none.
	Before *Document
	// After is the lease as it is written; of Create and Replace.
	After lease.Lease
	// Raw is written instead of After's document; nil: it is encoded.
	Raw []byte
	// Now tells that After starts where the feed ends when it is written.
	Now bool
	// Text describes the step, for people.
	Text string
}

// MarshalText returns the step's text, which is all that JSON has of it.
func (s Step) MarshalText() ([]byte, error) { return []byte(s.Text), nil }

// draft are the leases as a plan leaves them, while it is being made.
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

// index finds an item of the draft.
func (d *draft) index(i Item) int {
	return slices.IndexFunc(d.items, func(o Item) bool {
		return o.Document.ID == i.Document.ID && o.Key == i.Key && o.created == i.created && o.Token == i.Token
	})
}

// now returns i as the draft has it; ok is false when it is gone.
func (d *draft) now(i Item) (Item, bool) {
	at := d.index(i)
	if at < 0 {
		return Item{}, false
	}
	return d.items[at], true
}

// step is the planned write of i's document; nil: none is planned. No document is
// written twice.
func (d *draft) step(i Item) *Step {
	for n := range d.steps {
		s := &d.steps[n]
		if i.created && s.Op == Create && s.After.Token == i.Token || !i.created && s.Op == Replace && s.Before.ID == i.Document.ID && s.Before.Key == i.Key {
			return s
		}
	}
	return nil
}

// replace plans to write l in the place of i's document.
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

// cover plans leases for the keys of r that none of the draft covers, at start: whole
// partitions and parts of them, as hosts make them. why begins the texts.
func (d *draft) cover(r feed.Range, start feed.Start, mode feed.Mode, why string) error {
	var listed lease.Listing
	for _, i := range d.items {
		listed.Leases = append(listed.Leases, i.Lease)
	}
	host := balance.Host{Owner: cover, Terms: d.survey.Terms, Range: r, Start: start, Mode: mode, Dialect: d.survey.Codec.Dialect()}
	missing := balance.NewPlan(host, listed, balance.Memory{}, 0, true, func(string) bool { return false }).Missing(d.survey.Partitions)
	for _, l := range missing {
		l, err := d.survey.Codec.New(l)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(d.items, func(o Item) bool { return o.Token == l.Token }); i >= 0 {
			return fmt.Errorf("a lease %s is there, and covers other keys than %s", l.Token, l.Range)
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

// cover is the owner text of a plan that is only asked what is missing.
const cover = "changefeed leases/00000000"

// ordered are the draft's steps in the order in which they are carried out.
func (d *draft) ordered() []Step {
	rank := []Op{Create, Replace, Delete, Unlock, Mark}
	steps := slices.Clone(d.steps)
	slices.SortStableFunc(steps, func(a, b Step) int { return slices.Index(rank, a.Op) - slices.Index(rank, b.Op) })
	return steps
}

// attempt carries out f on the draft, and undoes what it did when it fails.
func (d *draft) attempt(f func() error) error {
	items, steps := slices.Clone(d.items), slices.Clone(d.steps)
	if err := f(); err != nil {
		d.items, d.steps = items, steps
		return err
	}
	return nil
}
