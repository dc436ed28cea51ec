package letters_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	shown "github.com/changefeed-go/changefeed/cmd/changefeed/internal/letters"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// stored puts letters of the keys and items, "ada/1" say, and returns them with their store. One
// without a key has the key "". The state is that of each.
func stored(t *testing.T, state letters.State, names ...string) (letters.Store, []letters.Letter) {
	t.Helper()
	s, err := memory.NewLetters().Open(t.Context(), letters.Key{Processor: "p", Source: feed.ContainerID{RID: "r"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		key, item, _ := strings.Cut(name, "/")
		l := letters.Letter{ItemID: item, LSN: int64(i + 1), Operation: feed.Delete, State: state, Error: "no such address", Stack: "goroutine 1", Attempts: 3}
		if key != "" {
			l.PartitionKey, l.Hash = feed.PartitionKey{key}, "0"+key
		}
		if err := s.Put(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	return s, list(t, s)
}

func list(t *testing.T, s letters.Store) (all []letters.Letter) {
	t.Helper()
	for l, err := range s.Read(t.Context(), letters.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// plan returns the first word of each step and its item.
func plan(r shown.Redrive) string {
	var b strings.Builder
	for i, line := range r.Steps() {
		verb, _, _ := strings.Cut(line, " ")
		b.WriteString(verb + " " + r.Concerns()[i].ItemID + ", ")
	}
	return b.String()
}

// The letters without a key have one group, although nothing orders them.
func TestRedriveTakesTheEarlierLettersOfAKey(t *testing.T) {
	_, all := stored(t, letters.Dead, "a/1", "b/2", "a/3", "/4", "/4", "a/1", "b/7", "/8")
	for _, c := range []struct {
		chosen string
		skip   bool
		want   string
	}{
		{"3", false, "redrive 1, redrive 3, "},
		{"7", false, "redrive 2, redrive 7, "},
		{"8", false, "redrive 8, "},
		{"4", true, "redrive 4, redrive 4, "},
		{"3", true, "delete 1, redrive 3, "},
		{"2", true, "redrive 2, "},
		{"none", false, ""},
	} {
		r := shown.NewRedrive(all, func(l letters.Letter) bool { return l.ItemID == c.chosen }, c.skip)
		if got := plan(r); got != c.want {
			t.Errorf("with %s chosen: %s; want %s", c.chosen, got, c.want)
		}
	}
}

// meddling is a store in which somebody else writes a letter before the first update.
type meddling struct {
	letters.Store
	meddle func(letters.Letter)
}

func (m *meddling) Update(ctx context.Context, l letters.Letter) (letters.Letter, error) {
	if meddle := m.meddle; meddle != nil {
		m.meddle = nil
		meddle(l)
	}
	return m.Store.Update(ctx, l)
}

// A letter that changes meanwhile is redriven if it is still dead, and what it says is kept.
func TestRedriveTakesWhatIsStillDead(t *testing.T) {
	set := func(s letters.Store, state letters.State) func(letters.Letter) {
		return func(l letters.Letter) {
			l.State, l.Attempts = state, 7
			if _, err := s.Update(context.Background(), l); err != nil {
				t.Error(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		meddle func(letters.Store) func(letters.Letter)
		says   string
		state  letters.State
		fails  int
	}{
		{"nobody", func(letters.Store) func(letters.Letter) { return nil }, " is redriving now\n", letters.Redriving, 3},
		{"dead", func(s letters.Store) func(letters.Letter) { return set(s, letters.Dead) }, " is redriving now\n", letters.Redriving, 7},
		{"parked", func(s letters.Store) func(letters.Letter) { return set(s, letters.Parked) }, " follows the earlier letters", letters.Parked, 7},
		{"redriving", func(s letters.Store) func(letters.Letter) { return set(s, letters.Redriving) }, " was redriving before\n", letters.Redriving, 7},
		{"deleted", func(s letters.Store) func(letters.Letter) {
			return func(l letters.Letter) {
				if err := s.Delete(context.Background(), l); err != nil {
					t.Error(err)
				}
			}
		}, " is gone: ", "", 0},
	} {
		s, all := stored(t, letters.Dead, "a/1")
		var out bytes.Buffer
		err := shown.NewRedrive(all, func(letters.Letter) bool { return true }, false).Run(t.Context(), &meddling{s, c.meddle(s)}, &out)
		if err != nil || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %v: %s", c.name, err, &out)
		}
		l, err := s.Get(t.Context(), all[0].Group, all[0].ID)
		if c.state == "" && errors.Is(err, feed.ErrNotFound) {
			continue
		}
		if err != nil || l.State != c.state || l.Attempts != c.fails || l.Stack != "goroutine 1" || l.Error != "no such address" {
			t.Errorf("%s: %v: %+v", c.name, err, l)
		}
	}
}

// Nobody waits for parked letters without a dead one before them, for instance since the processor
// parks no longer. So they become redriving themselves.
func TestRedriveMarksParkedLettersThatFollowNone(t *testing.T) {
	for _, c := range []struct {
		first letters.State
		want  letters.State
	}{{letters.Parked, letters.Redriving}, {letters.Dead, letters.Parked}, {letters.Redriving, letters.Parked}} {
		s, all := stored(t, letters.Parked, "a/1", "a/2", "a/3")
		all[0].State, all[0].ETag = c.first, ""
		if _, err := s.Update(t.Context(), all[0]); err != nil {
			t.Fatal(err)
		}
		r := shown.NewRedrive(all, func(letters.Letter) bool { return true }, false)
		if err := r.Run(t.Context(), s, io.Discard); err != nil {
			t.Fatal(err)
		}
		for _, l := range all[1:] {
			if got, err := s.Get(t.Context(), l.Group, l.ID); err != nil || got.State != c.want {
				t.Errorf("behind a letter that is %s, item %s is %s (%v); want %s", c.first, l.ItemID, got.State, err, c.want)
			}
		}
	}
}
