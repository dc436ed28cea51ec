// Package letters chooses and prints dead letters for `changefeed letters`.
package letters

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// Filter chooses letters. A letter must meet every condition; a zero field is none.
type Filter struct {
	// Processor is a processor's name, or nil.
	Processor *string
	// Container is the name of the monitored container.
	Container string
	// Key is the partition key of the item.
	Key feed.PartitionKey
	// Error is a part of the error's text, in any case of letters.
	Error string
	// State is the letter's state.
	State letters.State
	// Older and Newer limit the time since the letter's last failure.
	Older, Newer time.Duration
	// Now is the present time.
	Now time.Time
}

// Holds reports whether f chooses l.
func (f Filter) Holds(l letters.Letter) bool {
	age := f.Now.Sub(l.Last)
	return (f.Processor == nil || l.Processor == *f.Processor) &&
		(f.Container == "" || l.Container == f.Container) &&
		(f.Key == nil || l.PartitionKey.String() == f.Key.String()) &&
		strings.Contains(strings.ToLower(l.Error), strings.ToLower(f.Error)) &&
		(f.State == "" || l.State == f.State) &&
		(f.Older == 0 || age >= f.Older) && (f.Newer == 0 || age < f.Newer)
}

// Read returns the letters of a store that f chooses, without their items, sorted by their
// keys and in the order of the changes of each.
func (f Filter) Read(ctx context.Context, s letters.Store) (chosen []letters.Letter, err error) {
	for l, err := range s.Read(ctx, letters.Query{}) {
		if err != nil {
			return nil, err
		}
		if f.Holds(l) {
			chosen = append(chosen, l)
		}
	}
	return chosen, nil
}

// ParseKey parses a partition key: a JSON array, or the text of a key of one text.
func ParseKey(text string) (feed.PartitionKey, error) {
	if !strings.HasPrefix(text, "[") {
		return feed.PartitionKey{text}, nil
	}
	return feed.ParsePartitionKey(text)
}

// errorWidth is the width of an error's text in a table.
const errorWidth = 60

// Table writes letters as a table.
func Table(w io.Writer, all []letters.Letter) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no letters")
		return err
	}
	rows := [][]string{{"LETTER", "STATE", "PROCESSOR", "KEY", "ITEM", "LSN", "ATTEMPTS", "LAST", "ERROR"}}
	for _, l := range all {
		rows = append(rows, []string{
			l.ID, string(l.State), l.Processor, keyText(l), l.ItemID, strconv.FormatInt(l.LSN, 10), strconv.Itoa(l.Attempts),
			l.Last.UTC().Format(time.RFC3339), view.Shortened(view.OneLine(l.Error), errorWidth),
		})
	}
	return view.Table(w, rows)
}

// keyText returns the partition key of a letter for people.
func keyText(l letters.Letter) string {
	if l.PartitionKey == nil {
		return "?"
	}
	return l.PartitionKey.String()
}

// Lines writes letters as JSON, one per line.
func Lines(w io.Writer, all ...letters.Letter) error {
	for _, l := range all {
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(text, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// Show writes a whole letter for people.
func Show(w io.Writer, l letters.Letter) error {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-12s %s\n", name, view.OneLine(value)) }
	line("letter", l.ID)
	line("state", string(l.State))
	line("processor", l.Processor)
	line("container", l.Database+"/"+l.Container+" ("+l.Source.RID+")")
	line("key", keyText(l))
	line("item", l.ItemID)
	line("change", fmt.Sprintf("%s at LSN %d, %s", l.Operation, l.LSN, l.Time.UTC().Format(time.RFC3339)))
	line("attempts", fmt.Sprintf("%d, the first %s, the last %s", l.Attempts, l.First.UTC().Format(time.RFC3339), l.Last.UTC().Format(time.RFC3339)))
	line("host", l.Host+", lease "+l.Lease)
	if l.Error != "" {
		line("error", l.Error)
	}
	for _, body := range []struct {
		name string
		text []byte
	}{{"stack", []byte(l.Stack)}, {"current", indented(l.Current)}, {"previous", indented(l.Previous)}} {
		if len(body.text) > 0 {
			fmt.Fprintf(&b, "%s\n%s\n", body.name, view.Visible(body.text))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// indented returns a JSON text in several lines, or the text itself if it is none.
func indented(text json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return text
	}
	return b.Bytes()
}
