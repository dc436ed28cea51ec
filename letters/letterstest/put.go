package letterstest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// putCases returns the cases about new letters.
func putCases() []testCase {
	return []testCase{
		{name: "a new store is empty", run: newStoreEmpty},
		{name: "a letter is stored with every field", run: everyField},
		{name: "a letter holds its change", run: holdsChange},
		{name: "a change that is put twice is one letter", run: putTwice},
		{name: "an existing letter is not changed by a put", run: putKeepsState},
		{name: "another change is another letter", run: otherChange},
		{name: "every kind of partition key is kept", run: everyKey},
		{name: "a long text is cut to its beginning", run: longText},
		{name: "a letter that lacks something is refused", run: refused},
		{name: "puts at the same time make one letter", run: putTogether},
	}
}

func newStoreEmpty(s *suite) {
	s.wantItems("a new store", s.read(letters.Query{}))
}

func everyField(s *suite) {
	l := letter("1", 7)
	l.Place, l.Index, l.Expired = 1, 3, true
	s.put(l)
	head := s.only()
	s.wantSame("the listed letter", head, listed(stored(l, head)))
	s.wantSame("the whole letter", s.get(head), stored(l, head))
}

func holdsChange(s *suite) {
	for i, op := range []feed.Op{feed.Upsert, feed.Create, feed.Replace, feed.Delete} {
		l := letter("1", int64(i+1))
		l.Operation = op
		if op == feed.Delete {
			l.Current, l.Expired = nil, true
		}
		s.put(l)
	}
	for _, head := range s.read(letters.Query{}) {
		c := s.get(head).Change()
		id, err := c.ID()
		if err != nil || id != "1" || c.LSN != head.LSN || !c.Time.Equal(written) || c.Op != head.Operation || c.Previous == nil {
			s.Errorf("letter %d holds the change %+v (%v)", head.LSN, c, err)
		}
		if gone := c.Op == feed.Delete; gone != (c.Current == nil) || gone != c.Expired || gone != (c.DeletedKey.String() == `["ada"]`) {
			s.Errorf("letter %d holds the change %+v", head.LSN, c)
		}
	}
}

func putTwice(s *suite) {
	first := letter("1", 7)
	s.put(first)
	head := s.only()
	again := first
	again.Host, again.Error, again.Attempts, again.Index = "host/2", "another error", 9, 4
	s.put(again)
	s.wantSame("the letter that was put twice", s.only(), head)
}

func putKeepsState(s *suite) {
	s.put(letter("1", 7))
	l := s.only()
	l.State = letters.Redriving
	l = s.update(l)
	s.put(letter("1", 7))
	s.wantSame("the letter that was updated between two puts", s.only(), l)
}

// otherChange puts changes that differ in one part of their identity each. Every one is a letter.
func otherChange(s *suite) {
	place := letter("1", 7)
	place.Place = 1
	s.put(letter("1", 7), place, letter("2", 7), letter("1", 8), of(letter("1", 7), "0AB1", "ben"))
	for _, k := range others() {
		if err := s.open(k).Put(s.ctx, letter("1", 7)); err != nil {
			s.Fatal(err)
		}
	}
	ids := map[string]bool{}
	for _, l := range s.readFrom(s.open(letters.Key{}), letters.Query{}) {
		ids[l.ID] = true
	}
	if want := 5 + len(others()); len(ids) != want {
		s.Errorf("%d letters have different ids; want %d", len(ids), want)
	}
}

// others returns keys that differ from mailer's in one field each.
func others() []letters.Key {
	processor, account, rid := mailer, mailer, mailer
	processor.Processor, account.Source.Account, rid.Source.RID = "printer", "mall", "O7RwAKylJbZ="
	return []letters.Key{processor, account, rid}
}

func everyKey(s *suite) {
	keys := []feed.PartitionKey{
		{"ada"},
		{""},
		{"é\"\\<&>\u2028"},
		{1.5},
		{-0.25},
		{1e21},
		{true},
		{false},
		{nil},
		{feed.Undefined},
		{"ada", 2.0, feed.Undefined},
		{"ada", "2"},
		{"[\"ada\"]"},
		nil,
	}
	for i, key := range keys {
		l := letter("1", int64(i+1))
		l.PartitionKey = key
		if key == nil {
			l.Hash = ""
		}
		s.put(l)
	}
	groups := map[string]bool{}
	for _, l := range s.read(letters.Query{}) {
		want := keys[l.LSN-1]
		if l.PartitionKey.String() != want.String() || (l.PartitionKey == nil) != (want == nil) {
			s.Errorf("the key %v came back as %v", want, l.PartitionKey)
		}
		if l.Group != mailer.Group(want) {
			s.Errorf("the letters of key %v are in group %q; want %q", want, l.Group, mailer.Group(want))
		}
		groups[l.Group] = true
	}
	if len(groups) != len(keys) {
		s.Errorf("%d keys have %d groups", len(keys), len(groups))
	}
}

func longText(s *suite) {
	l := letter("1", 7)
	l.Error, l.Stack = "begin "+strings.Repeat("\x01é", 100_000), "stack "+strings.Repeat("\n", 100_000)
	s.put(l)
	head := s.only()
	got := s.get(head)
	for _, text := range []struct{ got, put string }{{head.Error, l.Error}, {got.Error, l.Error}, {got.Stack, l.Stack}} {
		if len(text.got) < 1000 || len(text.got) > 10_000 || !strings.HasPrefix(text.put, text.got) || !utf8.ValidString(text.got) {
			s.Errorf("a text of %d bytes became one of %d bytes: %.20q", len(text.put), len(text.got), text.got)
		}
	}
	l.Error = "broken \xff end"
	l.LSN++
	s.put(l)
	if got := s.read(letters.Query{})[1].Error; got != "broken \uFFFD end" {
		s.Errorf("a text that is not UTF-8 became %q", got)
	}
}

func refused(s *suite) {
	for name, spoil := range map[string]func(l *letters.Letter){
		"an LSN of 0":                func(l *letters.Letter) { l.LSN = 0 },
		"a key without a hash":       func(l *letters.Letter) { l.Hash = "" },
		"a negative place":           func(l *letters.Letter) { l.Place = -1 },
		"a negative index":           func(l *letters.Letter) { l.Index = -1 },
		"no state":                   func(l *letters.Letter) { l.State = "" },
		"neither an item before nor": func(l *letters.Letter) { l.Current, l.Previous = nil, nil },
	} {
		l := letter("1", 7)
		spoil(&l)
		if err := s.store.Put(s.ctx, l); err == nil {
			s.Errorf("a letter with %s was put", name)
		}
	}
	if err := s.open(letters.Key{}).Put(s.ctx, letter("1", 7)); err == nil {
		s.Error("a store of all processors put a letter")
	}
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	if err := s.store.Put(ended, letter("1", 7)); !errors.Is(err, context.Canceled) {
		s.Errorf("put after its context ended: %v", err)
	}
	s.wantItems("after refused letters", s.read(letters.Query{}))
}

func putTogether(s *suite) {
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() { errs[i] = s.store.Put(s.ctx, letter("1", 7)) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
	s.only()
}
