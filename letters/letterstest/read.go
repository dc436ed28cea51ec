package letterstest

import (
	"context"
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// readCases returns the cases about reading letters.
func readCases() []testCase {
	return []testCase{
		{name: "a range of hashes includes its lower end only", run: rangeOfHashes},
		{name: "the letters of a key are in the order of its changes", run: orderWithinKey},
		{name: "letters are sorted by hash and key", run: sortedByHash},
		{name: "a group or an id selects letters", run: groupAndID},
		{name: "processors and sources see their own letters only", run: ownLetters},
		{name: "a session token lets another store read what was put", run: sessionToken},
		{name: "a letter that does not exist is not found", run: getMissing},
		{name: "a read ends when its caller breaks or its context ends", run: readEnds},
		{name: "thousands of letters are read once each", run: thousands},
		{
			name: "a split of the letters container moves no letter", run: splitMovesNothing,
			needs: func(f Fixture) string { return missing(f.Split == nil, "Split") },
		},
	}
}

// missing returns name if a function is missing.
func missing(is bool, name string) string {
	if is {
		return name
	}
	return ""
}

func rangeOfHashes(s *suite) {
	for i, hash := range []string{"01", "0A", "0AFF", "0B", "0B00", "3F"} {
		s.put(of(letter(hash, 1), hash, float64(i)))
	}
	for _, c := range []struct {
		r    feed.Range
		want []string
	}{
		{feed.Range{}, []string{"01@1", "0A@1", "0AFF@1", "0B@1", "0B00@1", "3F@1"}},
		{feed.Full(), []string{"01@1", "0A@1", "0AFF@1", "0B@1", "0B00@1", "3F@1"}},
		{feed.Range{Min: "0A", Max: "0B"}, []string{"0A@1", "0AFF@1"}},
		{feed.Range{Min: "", Max: "0A"}, []string{"01@1"}},
		{feed.Range{Min: "0B00", Max: feed.MaxEPK}, []string{"0B00@1", "3F@1"}},
		{feed.Range{Min: "10", Max: "20"}, nil},
	} {
		s.wantItems(c.r.String(), s.read(letters.Query{Range: c.r}), c.want...)
	}
}

func orderWithinKey(s *suite) {
	first, second, third := letter("t", 9), letter("a", 9), letter("a", 9)
	first.Index, second.Index, third.Index, third.Place = 0, 1, 2, 1
	s.put(letter("z", 1000), third, letter("b", 10), second, letter("c", 2), first)
	s.wantItems("the letters of a key", s.read(letters.Query{}), "c@2", "t@9", "a@9", "a@9", "b@10", "z@1000")
	for i := range 8 { // one transaction, from its end
		l := of(letter(fmt.Sprint("item", 7-i), 5), "0C", "cat")
		l.Index = 7 - i
		s.put(l)
	}
	s.wantItems("the letters of a transaction", s.read(letters.Query{Group: mailer.Group(feed.PartitionKey{"cat"})}),
		"item0@5", "item1@5", "item2@5", "item3@5", "item4@5", "item5@5", "item6@5", "item7@5")
	if all := s.read(letters.Query{Group: mailer.Group(feed.PartitionKey{"ada"})}); len(all) != 6 || all[2].Place != 0 || all[3].Place != 1 {
		s.Errorf("the letters of a key are %+v", all)
	}
}

func sortedByHash(s *suite) {
	s.put(of(letter("c", 2), "0B", "cat"), of(letter("a", 3), "0A", "ada"), of(letter("c", 1), "0B", "cat"), of(letter("d", 1), "0C", "dan"))
	s.wantItems("sorted by hash", s.read(letters.Query{}), "a@3", "c@1", "c@2", "d@1")
	// Two keys may have one hash. Their letters do not alternate.
	s.put(of(letter("x", 1), "0B", "xia"), of(letter("x", 2), "0B", "xia"))
	all := s.read(letters.Query{Range: feed.Range{Min: "0B", Max: "0C"}})
	if len(all) != 4 || all[0].Group != all[1].Group || all[2].Group != all[3].Group || all[0].LSN > all[1].LSN || all[2].LSN > all[3].LSN {
		s.Errorf("the letters of two keys with one hash alternate: %+v", all)
	}
}

func groupAndID(s *suite) {
	s.put(letter("1", 1), letter("2", 2), of(letter("3", 3), "0C", "cat"))
	all := s.read(letters.Query{})
	s.wantItems("of a key", s.read(letters.Query{Group: all[0].Group}), "1@1", "2@2")
	s.wantItems("of a key outside the range", s.read(letters.Query{Group: all[0].Group, Range: feed.Range{Min: "0C", Max: "FF"}}))
	s.wantItems("with an id", s.read(letters.Query{ID: all[1].ID}), "2@2")
	s.wantItems("with an id of another key", s.read(letters.Query{ID: all[1].ID, Group: all[2].Group}))
}

func ownLetters(s *suite) {
	s.put(letter("mine", 1))
	for i, k := range others() {
		other := s.open(k)
		s.wantItems("another store before it put a letter", s.readFrom(other, letters.Query{}))
		if err := other.Put(s.ctx, letter(fmt.Sprint("other", i), 1)); err != nil {
			s.Fatal(err)
		}
		s.wantItems("another store", s.readFrom(other, letters.Query{}), fmt.Sprintf("other%d@1", i))
	}
	s.wantItems("the store", s.read(letters.Query{}), "mine@1")
	if all := s.readFrom(s.open(letters.Key{Processor: "ignored"}), letters.Query{}); len(all) != 1+len(others()) {
		s.Errorf("a store of all processors has %d letters; want %d", len(all), 1+len(others()))
	}
}

func sessionToken(s *suite) {
	s.put(letter("1", 1))
	other := s.open(mailer)
	other.Session(s.store.Session(""))
	s.wantItems("with the token of a put", s.readFrom(other, letters.Query{}), "1@1")
	finds := s.open(mailer)
	if err := finds.Put(s.ctx, letter("1", 1)); err != nil {
		s.Fatal(err)
	}
	third := s.open(mailer)
	if merged := third.Session(finds.Session("")); merged != third.Session("") {
		s.Errorf("the session is %q after a merge that returned %q", third.Session(""), merged)
	}
	s.wantItems("with the token of a put that found the letter", s.readFrom(third, letters.Query{}), "1@1")
}

func getMissing(s *suite) {
	s.put(letter("1", 1))
	l := s.only()
	_, err := s.store.Get(s.ctx, l.Group, "absent")
	s.wantNotFound("get an absent id", err)
	_, err = s.store.Get(s.ctx, mailer.Group(feed.PartitionKey{"ben"}), l.ID)
	s.wantNotFound("get an id in another group", err)
}

func readEnds(s *suite) {
	s.put(letter("1", 1), letter("2", 2))
	n := 0
	for _, err := range s.store.Read(s.ctx, letters.Query{}) {
		if err != nil {
			s.Error(err)
		}
		n++
		break
	}
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	for _, err := range s.store.Read(ended, letters.Query{}) {
		n++
		if !errors.Is(err, context.Canceled) {
			s.Errorf("a read after its context ended: %v", err)
		}
	}
	if n != 2 {
		s.Errorf("two reads that end at once returned %d letters and errors; want 2", n)
	}
}

func thousands(s *suite) {
	const keys, each = 50, 25
	for i := range keys * each {
		s.put(of(letter("1", int64(i+1)), fmt.Sprintf("%02X", i%keys+1), float64(i%keys)))
	}
	all := s.read(letters.Query{})
	if len(all) != keys*each {
		s.Fatalf("%d letters were read; want %d", len(all), keys*each)
	}
	for i, l := range all[1:] {
		if before := all[i]; before.Hash > l.Hash || before.Hash == l.Hash && before.LSN >= l.LSN {
			s.Fatalf("LSN %d with hash %s comes before LSN %d with hash %s", before.LSN, before.Hash, l.LSN, l.Hash)
		}
	}
}

func splitMovesNothing(s *suite) {
	for i := range 20 {
		s.put(of(letter("1", int64(i+1)), fmt.Sprintf("%02X", i+1), float64(i)))
	}
	before := s.read(letters.Query{})
	if err := s.Split(s.ctx); err != nil {
		s.Fatal(err)
	}
	s.put(of(letter("1", 21), "15", 20.0))
	other := s.open(mailer)
	other.Session(s.store.Session(""))
	after := s.readFrom(other, letters.Query{})
	if len(after) != len(before)+1 {
		s.Fatalf("after a split there are %d letters; want %d", len(after), len(before)+1)
	}
	for i, l := range before {
		s.wantSame("a letter after a split", after[i], l)
	}
}
