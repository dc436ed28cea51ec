package leasetest

import (
	"errors"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// writeCases returns the cases that test compare-and-set: the effect of each write and
// the lease or error that it returns.
func writeCases() []testCase {
	return []testCase{
		{name: "a new store is empty", run: newStoreEmpty},
		{name: "a created lease is listed", run: createdListed},
		{name: "create of an existing lease is a conflict", run: createExisting},
		{name: "an update is listed and has a new ETag", run: updateListed},
		{name: "an update that changes nothing has a new ETag", run: idleUpdate},
		{name: "an update with an old ETag is a conflict", run: updateOld},
		{name: "an update of an absent lease is not found", run: updateAbsent},
		{name: "a deleted lease is not listed", run: deletedUnlisted},
		{name: "a delete with an old ETag is a conflict", run: deleteOld},
		{name: "a recreated lease never gets an old ETag", run: etagNeverBack},
		{name: "the same write sent twice is recognised as mine", run: sentTwice},
		{name: "a lease put back has its owner and position", run: putBack},
	}
}

func newStoreEmpty(s *suite) {
	l := s.list()
	if len(l.Leases) != 0 || !l.Initialized.IsZero() {
		s.Fatalf("a new store has %d leases and a marker of %v", len(l.Leases), l.Initialized)
	}
}

func createdListed(s *suite) {
	a := s.create(s.whole("0"))
	b := s.create(s.part("05C1", "0BF3"))
	if a.ID == b.ID {
		s.Fatalf("two leases have the id %s", a.ID)
	}
	s.wantListed(a, b)
}

func createExisting(s *suite) {
	first := s.create(protocol.At(s.whole("0"), `"1"`))
	_, err := s.store.Create(s.ctx, protocol.At(s.whole("0"), `"2"`))
	s.wantConflict("create of an existing lease", err, first)
	s.wantListed(first)
	mine := protocol.Acquired(first, owner(1))
	mine = s.update(mine)
	_, err = s.store.Create(s.ctx, protocol.PutBack(mine))
	s.wantConflict("put back of an existing lease", err, mine)
	s.wantListed(mine)
}

func updateListed(s *suite) {
	other := s.create(s.whole("1"))
	l := s.create(s.whole("0"))
	for _, next := range []func(lease.Lease) lease.Lease{
		func(l lease.Lease) lease.Lease { return protocol.Acquired(l, owner(1)) },
		func(l lease.Lease) lease.Lease { return protocol.At(l, `"24"`) },
		func(l lease.Lease) lease.Lease { return protocol.Wanted(l, owner(2)) },
		func(l lease.Lease) lease.Lease { return protocol.Released(l, `"25"`) },
		func(l lease.Lease) lease.Lease { return protocol.Acquired(l, owner(2)) },
	} {
		l = s.update(next(l))
		s.wantListed(l, other)
	}
	if l.Owner != owner(2) || l.Continuation != `"25"` || l.Wanted() != "" {
		s.Errorf("after five updates the lease is %+v", l)
	}
}

// idleUpdate checks that an update changes the ETag even if it changes nothing else. A
// later write with the old ETag must fail.
func idleUpdate(s *suite) {
	l := s.create(s.whole("0"))
	seen := map[string]bool{l.ETag: true}
	old := l
	for range 5 {
		l = s.update(l)
		if seen[l.ETag] {
			s.Fatalf("ETag %s was used before", l.ETag)
		}
		seen[l.ETag] = true
	}
	_, err := s.store.Update(s.ctx, old)
	s.wantConflict("update with the ETag of the create", err, l)
}

func updateOld(s *suite) {
	created := s.create(s.whole("0"))
	mine := s.update(protocol.At(protocol.Acquired(created, owner(1)), `"3"`))
	_, err := s.store.Update(s.ctx, protocol.Acquired(created, owner(2)))
	s.wantConflict("acquire with an old ETag", err, mine)
	s.wantListed(mine)
	never := mine
	never.ETag = `"never"`
	_, err = s.store.Update(s.ctx, protocol.At(never, `"4"`))
	s.wantConflict("update with an ETag that never existed", err, mine)
	s.wantListed(mine)
	var conflict *lease.ConflictError
	if errors.As(err, &conflict) {
		mine = s.update(protocol.At(conflict.Current, `"5"`)) // a conflict's Current is the base of the next write
	}
	s.wantListed(mine)
}

func updateAbsent(s *suite) {
	l := s.create(s.whole("0"))
	s.delete(l)
	_, err := s.store.Update(s.ctx, protocol.At(l, `"1"`))
	s.wantNotFound("update of a deleted lease", err)
	s.wantListed()
}

func deletedUnlisted(s *suite) {
	a, b := s.create(s.whole("0")), s.create(s.whole("1"))
	s.delete(a)
	s.wantListed(b)
	s.wantNotFound("delete of a deleted lease", s.store.Delete(s.ctx, a))
	s.wantListed(b)
}

func deleteOld(s *suite) {
	created := s.create(s.whole("0"))
	mine := s.update(protocol.Acquired(created, owner(1)))
	s.wantConflict("delete with an old ETag", s.store.Delete(s.ctx, created), mine)
	s.wantListed(mine)
	s.delete(mine)
	s.wantListed()
}

func etagNeverBack(s *suite) {
	first := s.create(s.whole("0"))
	s.delete(first)
	second := s.create(s.whole("0"))
	if second.ETag == first.ETag {
		s.Fatalf("the recreated lease has the ETag %s of the deleted one", first.ETag)
	}
	_, err := s.store.Update(s.ctx, protocol.Acquired(first, owner(1)))
	s.wantConflict("update with the ETag of a deleted lease", err, second)
	s.wantConflict("delete with the ETag of a deleted lease", s.store.Delete(s.ctx, first), second)
	s.wantListed(second)
}

// sentTwice checks a checkpoint that is sent again because its response was lost. The
// second write must be a conflict, which shows the first one.
func sentTwice(s *suite) {
	l := s.update(protocol.At(protocol.Acquired(s.create(s.whole("0")), owner(1)), `"7"`))
	sent := protocol.At(l, `"8"`)
	s.update(sent)
	_, err := s.store.Update(s.ctx, sent)
	var conflict *lease.ConflictError
	if !errors.As(err, &conflict) {
		s.Fatalf("the same write again: %v; want a conflict", err)
	}
	if v, _ := protocol.Judge(err, owner(1), l.Continuation, sent.Continuation); v != protocol.Mine {
		s.Errorf("the writer's own earlier write is judged as %v", v)
	}
}

func putBack(s *suite) {
	l := s.update(protocol.At(protocol.Acquired(s.create(s.whole("0")), owner(1)), `"9"`))
	wanted := s.update(protocol.Wanted(l, owner(2)))
	s.delete(wanted)
	back := s.create(protocol.PutBack(wanted))
	if back.ID != l.ID || back.Owner != owner(1) || back.Continuation != `"9"` || back.Wanted() != "" {
		s.Errorf("the lease that was put back is %+v; want the owner and position of %+v", back, l)
	}
	s.wantListed(back)
}
