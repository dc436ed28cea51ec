package leasetest

import (
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
)

// clockCases returns the cases that test the store's clock. slack is the maximum
// difference between the clock that stamps Modified and the clock that returns Now. It
// includes the rounding to seconds. The processor's margin covers it.
func clockCases() []testCase {
	return []testCase{
		{name: "the store stamps every write in whole seconds", run: storeStamps},
		{name: "the store's clock runs", needs: needs{advance: true}, run: clockRuns},
		{name: "an unwritten lease ages", needs: needs{advance: true}, run: leaseAges},
	}
}

const slack = 2 * time.Second

// storeStamps checks that Modified comes from the store's clock, even if the caller's
// clock is wrong.
func storeStamps(s *suite) {
	before := s.clock()
	l := s.whole("0")
	for _, wrong := range []time.Time{{}, time.Unix(0, 0), time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC)} {
		l.Modified, l.Timestamp = wrong, wrong
		if l.ETag == "" {
			l = s.create(l)
		} else {
			l = s.update(l)
		}
		after := s.clock()
		if l.Modified.Before(before.Add(-slack)) || l.Modified.After(after.Add(slack)) {
			s.Errorf("a write between %v and %v is stamped %v", before, after, l.Modified)
		}
		if !l.Modified.Equal(l.Modified.Truncate(time.Second)) {
			s.Errorf("a write is stamped %v; want whole seconds", l.Modified)
		}
		s.wantListed(l)
	}
}

// clock returns the present time of the store's clock. If the store has no clock, it
// skips the case.
func (s *suite) clock() time.Time {
	s.Helper()
	now := s.list().Now
	if now.IsZero() {
		s.Skip("the store has no clock")
	}
	return now
}

func clockRuns(s *suite) {
	for range 3 {
		before := s.clock()
		s.Advance(90 * time.Second)
		if passed := s.clock().Sub(before); passed < 90*time.Second-slack {
			s.Errorf("after 90 s, %v have passed by the store's clock", passed)
		}
	}
}

func leaseAges(s *suite) {
	s.clock()
	l := s.create(s.whole("0"))
	other := s.create(s.whole("1"))
	s.Advance(61 * time.Second)
	if listed := s.find(s.token("0")); !listed.Modified.Equal(l.Modified) {
		s.Errorf("an unwritten lease was modified at %v; want %v", listed.Modified, l.Modified)
	}
	if age := s.clock().Sub(l.Modified); age < 61*time.Second {
		s.Errorf("61 s after its write a lease is %v old", age)
	}
	renewed := s.update(protocol.Acquired(l, owner(1)))
	if age := s.clock().Sub(renewed.Modified); age > time.Minute {
		s.Errorf("a lease just renewed is %v old", age)
	}
	terms := protocol.Terms{Expiration: time.Minute}
	if s.clock().Sub(s.find(other.Token).Modified) < terms.Takeover() {
		s.Error("a lease unwritten for E + 1 s may not be taken over")
	}
}
