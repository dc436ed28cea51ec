package letters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// Redrive is a plan to have letters handed to the handler again. It sets the dead ones to
// redriving. The owners of their leases hand them out after they were asked to.
type Redrive struct{ steps []step }

// step is one letter of a [Redrive].
type step struct {
	letters.Letter
	// chosen reports whether the user has chosen the letter. Otherwise it is an earlier one of a
	// chosen letter's key.
	chosen bool
	// leads reports whether the letter itself becomes redriving. A parked letter behind a dead one
	// of its key need not, because it follows that one. Without a dead letter before it, no owner
	// would hand it out if its processor parks no longer.
	leads bool
	// newer is a later letter of the same item, because of which this one is deleted.
	newer *letters.Letter
	// behind is the number of parked letters that follow the last letter of a key.
	behind int
}

// NewRedrive returns the plan for those of all letters that chosen reports, and for the earlier
// letters of their keys, because those of a key are handed out in order. A letter without a key
// has no earlier ones. With skip, a letter is deleted if there is a later one of its item.
func NewRedrive(all []letters.Letter, chosen func(letters.Letter) bool, skip bool) Redrive {
	var r Redrive
	var group string // that of the letter before
	var last bool    // whether a chosen letter of the group was found
	var behind int   // how many parked letters follow it
	newer := map[string]*letters.Letter{}
	for _, l := range slices.Backward(all) {
		if l.Group != group || l.PartitionKey == nil {
			group, last, behind = l.Group, false, 0
			clear(newer)
		}
		s := step{Letter: l, chosen: chosen(l), newer: newer[l.ItemID]}
		if !skip {
			s.newer = nil
		}
		newer[l.ItemID] = &l
		switch {
		case s.chosen && !last:
			s.behind, last = behind, true
		case !last && l.State == letters.Dead:
			behind = 0
		case !last:
			behind++
		}
		if last {
			r.steps = append(r.steps, s)
		}
	}
	slices.Reverse(r.steps)
	group = ""
	var led bool // whether the group has a letter that others follow
	for i := range r.steps {
		s := &r.steps[i]
		if s.Group != group {
			group, led = s.Group, false
		}
		led = led || s.State != letters.Parked
		s.leads = s.State == letters.Dead || s.State == letters.Parked && !led
	}
	return r
}

// Concerns returns the letters that are to be handed out or deleted.
func (r Redrive) Concerns() (all []letters.Letter) {
	for _, s := range r.steps {
		all = append(all, s.Letter)
	}
	return all
}

// Steps describes what is to be done, one line for each letter. Names in it are raw.
func (r Redrive) Steps() (lines []string) {
	for _, s := range r.steps {
		text := "redrive " + describe(s.Letter)
		switch {
		case s.newer != nil:
			text = fmt.Sprintf("delete %s; letter %s of the item is newer, with LSN %d", describe(s.Letter), s.newer.ID, s.newer.LSN)
		case !s.chosen:
			text += "; it precedes a chosen letter of its key"
		}
		if s.behind > 0 {
			text += fmt.Sprintf("; %s behind it %s", view.Plural(s.behind, "letter", "letters"), map[bool]string{true: "follows", false: "follow"}[s.behind == 1])
		}
		lines = append(lines, text)
	}
	return lines
}

// Question asks whether the plan is to be carried out.
func (r Redrive) Question() string {
	return fmt.Sprintf("Redrive %s?", view.Plural(len(r.steps), "letter", "letters"))
}

// Run sets the letters to redriving, or deletes them.
func (r Redrive) Run(ctx context.Context, s letters.Store, w io.Writer) error {
	for _, step := range r.steps {
		text, err := step.run(ctx, s)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "letter %s %s\n", step.ID, text); err != nil {
			return err
		}
	}
	return nil
}

// run sets the letter to redriving, or deletes it, and returns what became of it. If the letter is
// written by another program at the same time, its new state decides.
func (t step) run(ctx context.Context, s letters.Store) (string, error) {
	if t.newer != nil {
		t.ETag = "" // whatever is stored is older than the other letter
		return "is deleted", s.Delete(ctx, t.Letter)
	}
	if !t.leads {
		return waits(t.Letter), nil
	}
	l, err := s.Get(ctx, t.Group, t.ID) // with its stack, which an update would remove otherwise
	for err == nil && (l.State == letters.Dead || l.State == t.State) {
		l.State = letters.Redriving
		if _, err = s.Update(ctx, l); err == nil {
			return "is redriving now", nil
		}
		if conflict, is := errors.AsType[*letters.ConflictError](err); is {
			l, err = conflict.Current, nil
		}
	}
	switch {
	case errors.Is(err, feed.ErrNotFound):
		return "is gone: it was handled or dropped meanwhile", nil
	case err != nil:
		return "", err
	}
	return waits(l), nil
}

// waits describes a letter that does not become redriving.
func waits(l letters.Letter) string {
	if l.State == letters.Parked {
		return "follows the earlier letters of its key"
	}
	return "was redriving before"
}
