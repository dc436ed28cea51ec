package letters

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/letters"
)

// Drop is a plan to delete letters.
type Drop struct {
	// Letters are to be deleted, in their order.
	Letters []letters.Letter
	// behind is how many letters of the same key stay behind each, by the letter's id.
	behind map[string]int
}

// NewDrop returns the plan to delete those of all letters that chosen reports.
func NewDrop(all []letters.Letter, chosen func(letters.Letter) bool) Drop {
	d := Drop{behind: map[string]int{}}
	stay := map[string]int{} // by group
	for _, l := range slices.Backward(all) {
		if chosen(l) {
			d.Letters = append(d.Letters, l)
			d.behind[l.ID] = stay[l.Group]
		} else {
			stay[l.Group]++
		}
	}
	slices.Reverse(d.Letters)
	return d
}

// Concerns returns the letters that are to be deleted.
func (d Drop) Concerns() []letters.Letter { return d.Letters }

// Steps describes what is to be done, one line for each letter. Names in it are raw.
func (d Drop) Steps() (lines []string) {
	for _, l := range d.Letters {
		text := "drop " + describe(l)
		if n := d.behind[l.ID]; n > 0 {
			text += fmt.Sprintf("; %s behind it %s, in order", view.Plural(n, "letter", "letters"), map[bool]string{true: "stays", false: "stay"}[n == 1])
		}
		lines = append(lines, text)
	}
	return lines
}

// Question asks whether the plan is to be carried out.
func (d Drop) Question() string {
	return fmt.Sprintf("Drop %s?", view.Plural(len(d.Letters), "letter", "letters"))
}

// Run deletes the letters. It ends at the first that was changed since it was read.
func (d Drop) Run(ctx context.Context, s letters.Store, w io.Writer) error {
	for _, l := range d.Letters {
		if err := s.Delete(ctx, l); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "dropped letter %s\n", l.ID); err != nil {
			return err
		}
	}
	return nil
}

// describe names a letter in a plan.
func describe(l letters.Letter) string {
	return fmt.Sprintf("letter %s: %s item %s of key %s at LSN %d", l.ID, l.State, l.ItemID, keyText(l), l.LSN)
}
