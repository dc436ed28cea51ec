package leasetest

import (
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
)

// markerCases returns the cases that test the marker, which records that a store is
// initialised.
func markerCases() []testCase {
	return []testCase{
		{name: "the marker is created and listed", run: markerShown},
		{name: "an existing marker does not change", needs: needs{advance: true}, run: markerStays},
		{name: "the marker is removed", run: markerRemoved},
		{name: "the marker and the leases do not affect each other", run: markerApart},
	}
}

func (s *suite) mark(initialised bool) {
	s.Helper()
	if err := s.store.SetInitialized(s.ctx, initialised); err != nil {
		s.Fatalf("mark %t: %v", initialised, err)
	}
}

func markerShown(s *suite) {
	s.mark(true)
	made := s.list().Initialized
	if made.IsZero() {
		s.Fatal("there is no marker")
	}
	if !made.Equal(made.Truncate(time.Second)) {
		s.Errorf("the marker's time is %v; want whole seconds", made)
	}
	s.mark(true)
	if again := s.list().Initialized; again.IsZero() {
		s.Error("a second mark removed the marker")
	}
}

// markerStays checks that marking a store twice keeps the time of the first marker.
// Leases that replace lost ones start at that time.
func markerStays(s *suite) {
	s.mark(true)
	made := s.list().Initialized
	s.Advance(90 * time.Second)
	s.mark(true)
	if again := s.list().Initialized; !again.Equal(made) {
		s.Errorf("a second mark changed the marker's time from %v to %v", made, again)
	}
}

func markerRemoved(s *suite) {
	s.mark(false) // must succeed although there is no marker
	s.mark(true)
	s.mark(false)
	if l := s.list(); !l.Initialized.IsZero() {
		s.Errorf("the removed marker still exists: %v", l.Initialized)
	}
	s.mark(false)
	s.mark(true)
	if s.list().Initialized.IsZero() {
		s.Error("the marker cannot be created again")
	}
}

func markerApart(s *suite) {
	a := s.create(s.whole("0"))
	b := s.create(s.part("05C1", "0BF3"))
	s.mark(true)
	s.wantListed(a, b)
	a = s.update(protocol.Acquired(a, owner(1)))
	s.delete(b)
	if s.list().Initialized.IsZero() {
		s.Error("writes of leases have removed the marker")
	}
	s.mark(false)
	s.wantListed(a)
}
