package leasetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// raceCases returns the cases in which several hosts write at the same time.
func raceCases() []testCase {
	return []testCase{
		{name: "of many updates with one ETag exactly one wins", run: updateRace},
		{name: "of many creates of one lease exactly one wins", run: createRace},
		{name: "of an update and a delete exactly one wins", run: deleteRace},
		{name: "of many deletes exactly one wins", run: deletesRace},
		{name: "counting by compare-and-set loses nothing", run: countRace},
		{name: "listings during writes are complete", run: listRace},
		{name: "many hosts create the marker at once", run: markRace},
	}
}

const racers = 8

// race calls f concurrently, once for each racer, with the racer's number and a store of
// its own. It returns the errors of the calls.
func (s *suite) race(f func(n int, store lease.Store) error) [racers]error {
	s.Helper()
	var stores [racers]lease.Store
	for n := range stores {
		stores[n] = s.open(key("projector"))
	}
	var errs [racers]error
	var all sync.WaitGroup
	start := make(chan struct{})
	for n := range racers {
		all.Go(func() {
			<-start
			errs[n] = f(n, stores[n])
		})
	}
	close(start)
	all.Wait()
	return errs
}

// wantOneWinner checks that exactly one racer has no error, and that others returns true
// for the errors of the rest. It returns the winner's number.
func (s *suite) wantOneWinner(errs [racers]error, others func(err error) bool) int {
	s.Helper()
	winner := -1
	for n, err := range errs {
		switch {
		case err == nil && winner >= 0:
			s.Fatalf("racers %d and %d both won", winner, n)
		case err == nil:
			winner = n
		case !others(err):
			s.Fatalf("racer %d: %v", n, err)
		}
	}
	if winner < 0 {
		s.Fatal("nobody won")
	}
	return winner
}

func isConflict(err error) bool {
	var conflict *lease.ConflictError
	return errors.As(err, &conflict)
}

func updateRace(s *suite) {
	l := s.create(s.whole("0"))
	for round := range 20 {
		errs := s.race(func(n int, store lease.Store) error {
			_, err := store.Update(s.ctx, protocol.Acquired(l, owner(uint32(n))))
			return err
		})
		winner := s.wantOneWinner(errs, isConflict)
		l = s.find(s.token("0"))
		if l.Owner != owner(uint32(winner)) {
			s.Fatalf("round %d: %d won, and the owner is %s", round, winner, l.Owner)
		}
		for _, err := range errs {
			var conflict *lease.ConflictError
			if errors.As(err, &conflict) {
				s.wantSame("a loser's Current", conflict.Current, l)
			}
		}
	}
}

func createRace(s *suite) {
	for round := range 20 {
		token := fmt.Sprint(round)
		errs := s.race(func(n int, store lease.Store) error {
			_, err := store.Create(s.ctx, protocol.Acquired(s.whole(token), owner(uint32(n))))
			return err
		})
		winner := s.wantOneWinner(errs, isConflict)
		if l := s.find(s.token(token)); l.Owner != owner(uint32(winner)) {
			s.Fatalf("round %d: %d won, and the owner is %s", round, winner, l.Owner)
		}
	}
}

func deleteRace(s *suite) {
	for round := range 20 {
		token := fmt.Sprint(round)
		l := s.create(s.whole(token))
		errs := s.race(func(n int, store lease.Store) error {
			if n%2 == 0 {
				return store.Delete(s.ctx, l)
			}
			_, err := store.Update(s.ctx, protocol.Acquired(l, owner(uint32(n))))
			return err
		})
		winner := s.wantOneWinner(errs, func(err error) bool { return isConflict(err) || errors.Is(err, feed.ErrNotFound) })
		there := false
		for _, x := range s.list().Leases {
			there = there || x.Token == s.token(token)
		}
		if there != (winner%2 == 1) {
			s.Fatalf("round %d: %d won (even numbers delete), and the lease exists: %t", round, winner, there)
		}
	}
}

func deletesRace(s *suite) {
	for range 20 {
		l := s.create(s.whole("0"))
		errs := s.race(func(_ int, store lease.Store) error { return store.Delete(s.ctx, l) })
		s.wantOneWinner(errs, func(err error) bool { return errors.Is(err, feed.ErrNotFound) })
	}
}

// countRace checks that no concurrent update is lost. Each racer repeatedly adds one to a
// number in the same lease. After a conflict it retries from the conflict's Current.
func countRace(s *suite) {
	const each = 25
	count := func(l lease.Lease) (n int) {
		if _, err := fmt.Sscanf(string(l.Continuation), `"%d"`, &n); err != nil {
			return 0
		}
		return n
	}
	first := s.create(s.whole("0"))
	errs := s.race(func(_ int, store lease.Store) error {
		l := first
		for range each {
			for {
				next, err := store.Update(s.ctx, protocol.At(l, feed.Continuation(fmt.Sprintf(`"%d"`, count(l)+1))))
				if err == nil {
					l = next
					break
				}
				var conflict *lease.ConflictError
				if !errors.As(err, &conflict) {
					return err
				}
				l = conflict.Current
			}
		}
		return nil
	})
	for n, err := range errs {
		if err != nil {
			s.Fatalf("racer %d: %v", n, err)
		}
	}
	if got := count(s.find(s.token("0"))); got != racers*each {
		s.Fatalf("%d racers added 1 %d times each, and the sum is %d", racers, each, got)
	}
}

// listRace checks listings that run while a lease is written. Each must contain the lease
// once, in a state that it has had.
func listRace(s *suite) {
	for i := range racers {
		s.create(s.whole(fmt.Sprint(i)))
	}
	errs := s.race(func(n int, store lease.Store) error {
		for range 20 {
			l, err := store.List(s.ctx)
			if err != nil {
				return err
			}
			if len(l.Leases) != racers {
				return fmt.Errorf("a listing has %d leases; want %d", len(l.Leases), racers)
			}
			for _, x := range l.Leases {
				if x.Owner != "" && string(x.Continuation) != x.Owner {
					return fmt.Errorf("a listing has owner %s with the position of %s", x.Owner, x.Continuation)
				}
				if x.Token == s.token(fmt.Sprint(n)) {
					mine := protocol.At(protocol.Acquired(x, owner(uint32(n))), feed.Continuation(owner(uint32(n))))
					if _, err := store.Update(s.ctx, mine); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
	for n, err := range errs {
		if err != nil {
			s.Errorf("racer %d: %v", n, err)
		}
	}
}

func markRace(s *suite) {
	for _, initialised := range []bool{true, false, true} {
		errs := s.race(func(_ int, store lease.Store) error { return store.SetInitialized(s.ctx, initialised) })
		for n, err := range errs {
			if err != nil {
				s.Errorf("racer %d: mark %t: %v", n, initialised, err)
			}
		}
		if marked := !s.list().Initialized.IsZero(); marked != initialised {
			s.Errorf("after all marked %t the marker exists: %t", initialised, marked)
		}
	}
}
