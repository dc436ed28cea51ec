package estimator

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Unknown stands for a number or a time that can't be told.
const Unknown = -1

// Lag is how far the work on one lease is behind.
type Lag struct {
	// LeaseToken names the lease.
	LeaseToken string
	// Range holds the lease's keys; zero when neither the document nor the engine tells.
	Range feed.Range
	// Partition is the physical partition that holds the lease's range; empty when it is
	// in several, or not known.
	Partition string
	// Owner is the owner text of the host that holds the lease; empty: nobody.
	Owner string
	// Continuation is the position checkpointed; empty: there is none yet.
	Continuation feed.Continuation
	// Modified is when the lease was last written, by its container's clock.
	Modified time.Time

	// LSNs is how many transactions of the partition are not read yet; 0: none is;
	// [Unknown]: it can't be told.
	LSNs int64
	// Age is for how long the oldest unread change has been waiting, by whole seconds of
	// the engine's clock; 0: nothing waits; [Unknown]: it can't be told.
	Age time.Duration
	// Oldest is when the oldest unread change was written; zero: nothing waits, or it
	// can't be told.
	Oldest time.Time
	// Unstarted tells that the lease has no position and, in it, no start.
	Unstarted bool
	// Splitting tells that the lease's partition was split or merged, and no host has
	// made the leases that take over; or that they are there, and it isn't deleted yet.
	Splitting bool
	// Err is what kept the lag from being read: nil when it was read, and when it is
	// unknown by its nature. A *feed.HistoryLostError tells that unread changes can't be
	// read any more, a *lease.DialectError that the position is one in a container that was
	// deleted and made anew since.
	Err error
	// Charge is what the read has cost, in request units.
	Charge float64
}

// Known reports whether the lag is known.
func (l Lag) Known() bool { return l.LSNs != Unknown }

// Reference is the number that the .NET estimator gives for the lease: 1 where the lag
// can't be told, or isn't looked for because there is no position.
func (l Lag) Reference() int64 {
	if !l.Known() || l.Continuation == "" {
		return 1
	}
	return l.LSNs
}

// measured fills in what a page tells: the first one behind the lease's position.
func (l Lag) measured(page feed.Page, now time.Time) Lag {
	l.Charge = page.Charge
	if len(page.Changes) == 0 {
		l.LSNs, l.Age = 0, 0
		return l
	}
	first := page.Changes[0]
	if page.End >= 0 && first.LSN > 0 {
		l.LSNs = max(0, page.End-first.LSN+1)
	}
	if !first.Time.IsZero() {
		l.Oldest = first.Time
		l.Age = max(0, now.Sub(first.Time)).Truncate(time.Second)
	}
	return l
}
