package simulation

import (
	"errors"
	"time"

	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
)

// stays reports whether a lease is shadowed by another one. The create of such a lease
// arrived after its partition had been split and merged.
func (c *checker) stays(token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shadowed(c.docs[token])
}

// unmeasurable reports whether err is a right answer for a lease at rest. The user has not
// checkpointed it, and the source has lost the changes after its position, or refuses its
// start time.
func (c *checker) unmeasurable(l estimator.Lag) bool {
	_, lost := errors.AsType[*feed.HistoryLostError](l.Err)
	refused := l.Continuation == "" && errors.Is(l.Err, feed.ErrUnsupported) && !c.world.journal.since.IsZero()
	return c.world.checkpoint.Manual && (lost || refused)
}

// estimated checks a report of the estimator against the journal. At rest it must report
// exactly the leases that others shadow as such, and the lag of all others must be known.
// A lease whose read was answered with a GoneError has no partition in the report.
func (c *checker) estimated(s *survey, report estimator.Report, rest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range report.Lags {
		read := s.reads[l.LeaseToken]
		if stays := c.stays(l.LeaseToken); rest && l.Shadowed != stays {
			c.fail(20, "lease %s is reported as shadowed: %t; want %t", l.LeaseToken, l.Shadowed, stays)
		}
		switch {
		case l.Err != nil || !l.Known() && (l.Unstarted || l.Splitting && l.Partition == ""):
			if rest && !l.Shadowed && !c.unmeasurable(l) {
				c.fail(20, "the lag of lease %s is unknown at rest: %+v", l.LeaseToken, l)
			}
		case read == nil:
			c.fail(20, "the lag of lease %s is %d, but nobody read it", l.LeaseToken, l.LSNs)
		case read.from.Continuation() != l.Continuation:
			c.fail(20, "the lag of lease %s is that after %s; the lease is at %s", l.LeaseToken, read.from, l.Continuation)
		case read.told:
			c.measured(l, read, rest)
		}
	}
}

// measured checks the lag of one lease. It must be exact: the formula of package estimator
// over the changes of the journal.
func (c *checker) measured(l estimator.Lag, read *surveyed, rest bool) {
	u := read.unread
	want := read.lag()
	switch {
	case read.page.End < 0 && len(read.page.Changes) > 0:
		if l.Known() {
			c.fail(20, "the lag of lease %s is %d, but the source has not returned the end of the feed", l.LeaseToken, l.LSNs)
		}
	case l.LSNs < u.transactions:
		c.fail(20, "the lag of lease %s is %d; %d transactions are unread", l.LeaseToken, l.LSNs, u.transactions)
	case read.from.Kind() == feed.StartTime:
		return // on a merged partition, older changes may follow the start
	case l.LSNs != want:
		c.fail(20, "the lag of lease %s is %d; want %d, from transaction %d on to %d", l.LeaseToken, l.LSNs, want, u.first, read.end)
	}
	if !l.Oldest.Equal(u.at) {
		c.fail(20, "the oldest unread change of lease %s is of %s; want %s", l.LeaseToken, l.Oldest, u.at)
	}
	// Without a clock of the store, the age is a difference between two clocks. With one,
	// the estimator adds the time since the listing by its own clock, which drifts.
	age := read.now.Sub(u.at) - 2*time.Second
	if u.transactions > 0 && !c.world.clockless && l.Age < age {
		c.fail(20, "the age of lease %s is %s; want at least %s", l.LeaseToken, l.Age, age)
	}
	if rest && u.transactions == 0 && l.Age != 0 {
		c.fail(20, "the age of lease %s is %s, but no change is unread", l.LeaseToken, l.Age)
	}
}
