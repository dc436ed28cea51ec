package letterstest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/changefeed-go/changefeed/letters"
)

// partCases returns the cases about letters that are too large for one document.
func partCases() []testCase {
	both := func(f Fixture) string {
		return missing(f.Documents == nil || f.Remove == nil, "Documents and Remove")
	}
	return []testCase{
		{name: "a letter of any size is stored whole", run: anySize},
		{name: "a large letter is updated and deleted as any other", run: largeChanged, needs: both},
		{name: "parts without a head do not exist", run: partsWithoutHead, needs: both},
		{name: "a large letter that is put twice is one letter", run: largeTwice, needs: both},
		{name: "a delete removes parts that an earlier one left", run: partsLeft, needs: both},
		{name: "a letter that lacks a part is an error", run: lacksPart, needs: both},
		{name: "items may be nested as deeply as the source allows", run: deeplyNested},
		{name: "texts fit beside items of any size", run: textsFit},
	}
}

// item returns an item of about size bytes, with all kinds of characters.
func item(size int) json.RawMessage {
	var b strings.Builder
	b.WriteString(`{"id":"1","customer":"ada","text":"`)
	r := rand.New(rand.NewPCG(1, uint64(size)))
	for b.Len() < size {
		b.WriteString([]string{"plain text ", `\"quoted\" `, `back\\slash `, `\n`, "é", "漢字", "😀", "</script>&", "\u2028", `\u0001`}[r.IntN(10)])
	}
	b.WriteString(`"}`)
	return json.RawMessage(b.String())
}

// large returns a letter that no document can hold. An item has at most 2 MiB.
func large(lsn int64) letters.Letter {
	l := letter("1", lsn)
	l.Current, l.Previous = item(2_000_000), item(1_990_000)
	return l
}

func anySize(s *suite) {
	for i, size := range []int{1000, 1_900_000, 2_050_000, 2_096_000} {
		l := letter("1", int64(i+1))
		l.Current, l.Previous = item(size), nil
		s.put(l)
		got := s.get(s.read(letters.Query{})[i])
		s.wantSame(fmt.Sprintf("a letter with an item of %d bytes", size), got, stored(l, got))
	}
	s.put(large(100))
	all := s.read(letters.Query{})
	got := s.get(all[len(all)-1])
	s.wantSame("a letter with two large items", got, stored(large(100), got))
	if got.Parts == 0 || len(all) != 5 {
		s.Errorf("a letter with two items of 2 MB has %d parts, and %d letters are listed; want 5", got.Parts, len(all))
	}
}

func largeChanged(s *suite) {
	s.put(large(7))
	head := s.only()
	after := s.update(changed(head))
	s.wantSame("a large letter after an update", s.get(head), stored(changed(large(7)), after))
	s.wantConflict("delete a large letter with an old ETag", s.store.Delete(s.ctx, head), s.get(head))
	s.wantSame("a large letter after a refused delete", s.get(head), stored(changed(large(7)), after))
	s.delete(after)
	if n := s.documents(); n != 0 {
		s.Errorf("after the delete of a large letter %d documents are left", n)
	}
	s.put(large(7))
	s.get(s.only())
}

func partsWithoutHead(s *suite) {
	s.put(large(7))
	head := s.only()
	if err := s.Remove(s.ctx, head.Group, head.ID); err != nil {
		s.Fatal(err)
	}
	s.wantItems("parts without a head", s.read(letters.Query{}))
	s.wantItems("parts without a head, by key", s.read(letters.Query{Group: head.Group}))
	s.wantItems("parts without a head, of all processors", s.readFrom(s.open(letters.Key{}), letters.Query{}))
	_, err := s.store.Get(s.ctx, head.Group, head.ID)
	s.wantNotFound("get a letter without a head", err)
	before := s.documents()
	s.put(large(7))
	again := s.only()
	s.wantSame("a large letter that was put again", s.get(again), stored(large(7), again))
	if n := s.documents(); n != before+1 {
		s.Errorf("a put over old parts made %d documents of %d; want the head alone", n, before)
	}
}

func largeTwice(s *suite) {
	s.put(large(7))
	before := s.documents()
	head := s.only()
	s.put(large(7))
	s.wantSame("a large letter that was put twice", s.only(), head)
	if n := s.documents(); n != before {
		s.Errorf("a second put made %d documents of %d", n, before)
	}
}

func partsLeft(s *suite) {
	s.put(large(7))
	head := s.only()
	if err := s.Remove(s.ctx, head.Group, head.ID); err != nil { // as by a delete that crashed after the head
		s.Fatal(err)
	}
	s.delete(head)
	if n := s.documents(); n != 0 {
		s.Errorf("a repeated delete left %d documents", n)
	}
}

func lacksPart(s *suite) {
	s.put(large(7))
	head := s.only()
	if err := s.Remove(s.ctx, head.Group, fmt.Sprintf("%s-2-%d", head.ID, head.Parts)); err != nil {
		s.Fatal(err)
	}
	if got, err := s.store.Get(s.ctx, head.Group, head.ID); err == nil || !strings.Contains(err.Error(), "part 2") {
		s.Errorf("a letter that lacks a part is %d bytes and %v; want an error that names the part", len(got.Current), err)
	}
	s.delete(head)
	if n := s.documents(); n != 0 {
		s.Errorf("the delete of a letter that lacks a part left %d documents", n)
	}
}

func deeplyNested(s *suite) {
	for i, depth := range []int{1, 126, 127, 128} {
		l := letter("1", int64(i+1))
		l.Current = json.RawMessage(`{"id":"[[[[\"[[","x":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`)
		if depth == 1 {
			l.Current = json.RawMessage(`{"id":"1"}`)
		}
		l.Previous = l.Current
		s.put(l)
		got := s.get(s.read(letters.Query{})[i])
		s.wantSame(fmt.Sprintf("a letter with an item of %d levels", depth), got, stored(l, got))
	}
}

// textsFit puts letters whose items leave less and less room for the texts of the error, which
// an update then makes as long as they get.
func textsFit(s *suite) {
	for i := range 4 {
		l := letter("1", int64(i+1))
		l.Current, l.Previous = item(2_096_000-10_000*i), nil
		l.Error, l.Stack = "", ""
		s.put(l)
		head := s.read(letters.Query{})[i]
		head.Error, head.Stack = strings.Repeat("\x01", 20_000), strings.Repeat("\x01", 20_000)
		s.update(head)
	}
}
