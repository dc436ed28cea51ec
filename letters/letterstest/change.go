package letterstest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// changeCases returns the cases about updates and deletes.
func changeCases() []testCase {
	return []testCase{
		{name: "an update stores the fields that it names", run: updateStores},
		{name: "an update changes nothing else", run: updateKeeps},
		{name: "an update with an old ETag is a conflict", run: updateOld},
		{name: "a letter without an ETag is updated and deleted as it is", run: anyETag},
		{name: "an update of a letter that does not exist is not found", run: updateMissing},
		{name: "an update needs a state", run: updateNoState},
		{name: "a deleted letter is gone", run: deletedGone},
		{name: "the first letter of a key is deleted and the rest stay in order", run: deletedFirst},
		{name: "a delete with an old ETag is a conflict", run: deleteOld},
		{name: "an ETag never comes back", run: etagNeverBack},
		{name: "of updates at the same time one succeeds", run: updateTogether},
	}
}

// changed returns l with other values in all fields that an update stores.
func changed(l letters.Letter) letters.Letter {
	l.State, l.Error, l.Stack, l.Attempts, l.Host, l.Lease = letters.Redriving, "still no address", "goroutine 2", 4, "host/2", "05-FF"
	l.Last = written.Add(time.Hour)
	return l
}

func updateStores(s *suite) {
	put := letter("1", 7)
	s.put(put)
	head := s.only()
	after := s.update(changed(head))
	s.wantSame("the listed letter after an update", s.only(), listed(after))
	s.wantSame("the whole letter after an update", s.get(head), stored(changed(put), after))
	s.wantSame("the listed letter after a second update", listed(s.update(listed(after))), listed(s.only()))
}

func updateKeeps(s *suite) {
	put := letter("1", 7)
	s.put(put)
	l := s.get(s.only())
	other := changed(l)
	other.ItemID, other.LSN, other.Hash, other.PartitionKey, other.Place, other.Index, other.Sequence = "2", 8, "0C", feed.PartitionKey{"ben"}, 1, 1, "9"
	other.Current, other.Previous, other.Operation, other.Time, other.First = nil, nil, feed.Create, written.Add(1), written
	after := s.update(other)
	s.wantSame("the letter after an update of all fields", s.get(l), stored(changed(put), letters.Letter{
		ID: l.ID, Group: l.Group, Sequence: l.Sequence, ETag: after.ETag,
	}))
}

func updateOld(s *suite) {
	s.put(letter("1", 7))
	old := s.only()
	current := s.update(changed(old))
	old.State = letters.Parked
	_, err := s.store.Update(s.ctx, old)
	s.wantConflict("update with an old ETag", err, s.get(old))
	s.wantSame("the letter after a refused update", s.only(), listed(current))
}

func anyETag(s *suite) {
	s.put(letter("1", 7))
	l := changed(s.only())
	l.ETag = ""
	s.wantSame("the letter after an update without an ETag", listed(s.update(l)), s.only())
	s.delete(l)
	s.wantItems("after a delete without an ETag", s.read(letters.Query{}))
}

func updateMissing(s *suite) {
	s.put(letter("1", 7))
	l := s.only()
	s.delete(l)
	_, err := s.store.Update(s.ctx, changed(l))
	s.wantNotFound("update a deleted letter", err)
	l.ETag = ""
	_, err = s.store.Update(s.ctx, changed(l))
	s.wantNotFound("update a deleted letter without an ETag", err)
	s.wantItems("after an update of a deleted letter", s.read(letters.Query{}))
}

func updateNoState(s *suite) {
	s.put(letter("1", 7))
	l := s.only()
	l.State = "lost"
	if _, err := s.store.Update(s.ctx, l); err == nil {
		s.Error("a letter was updated to a state that does not exist")
	}
}

func deletedGone(s *suite) {
	s.put(letter("1", 7), letter("2", 8))
	l := s.read(letters.Query{})[0]
	s.delete(l)
	s.wantItems("after a delete", s.read(letters.Query{}), "2@8")
	_, err := s.store.Get(s.ctx, l.Group, l.ID)
	s.wantNotFound("get a deleted letter", err)
	s.delete(l) // what does not exist counts as deleted
}

func deletedFirst(s *suite) {
	parked := func(item string, lsn int64) letters.Letter {
		l := letter(item, lsn)
		l.State, l.Error, l.Stack, l.Attempts = letters.Parked, "", "", 0
		return l
	}
	s.put(letter("1", 7), parked("2", 8), parked("1", 9), parked("3", 10))
	all := s.read(letters.Query{})
	s.delete(all[0])
	rest := s.read(letters.Query{Group: all[0].Group})
	s.wantItems("the rest", rest, "2@8", "1@9", "3@10")
	for i, l := range rest {
		s.wantSame("a letter of the rest", l, all[i+1])
	}
}

func deleteOld(s *suite) {
	s.put(letter("1", 7))
	old := s.only()
	s.update(changed(old))
	s.wantConflict("delete with an old ETag", s.store.Delete(s.ctx, old), s.get(old))
	s.only()
}

func etagNeverBack(s *suite) {
	seen := map[string]bool{}
	for range 3 {
		s.put(letter("1", 7))
		l := s.only()
		for range 2 {
			if seen[l.ETag] {
				s.Fatalf("the ETag %s came back", l.ETag)
			}
			seen[l.ETag] = true
			l = s.update(l)
		}
		s.delete(l)
	}
}

func updateTogether(s *suite) {
	s.put(letter("1", 7))
	l := s.only()
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		mine := changed(l)
		mine.Host = fmt.Sprint("host/", i)
		all.Go(func() { _, errs[i] = s.store.Update(s.ctx, mine) })
	}
	all.Wait()
	won := 0
	for i, err := range errs {
		var conflict *letters.ConflictError
		switch {
		case err == nil:
			won++
			if host := s.only().Host; host != fmt.Sprint("host/", i) {
				s.Errorf("host/%d won, and the letter has %s", i, host)
			}
		case !errors.As(err, &conflict):
			s.Errorf("an update beside others: %v", err)
		}
	}
	if won != 1 {
		s.Errorf("%d of %d updates of one version succeeded; want 1", won, len(errs))
	}
}
