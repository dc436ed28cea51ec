package estimator

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Unknown is the value of a number or duration that cannot be determined.
const Unknown = -1

// Lag is the lag of one lease.
type Lag struct {
	// LeaseToken names the lease.
	LeaseToken string
	// Range holds the lease's keys. It is zero if neither the document nor the engine has
	// it.
	Range feed.Range
	// Partition is the physical partition that holds the lease's range. It is empty if
	// the range is in several partitions, or the partition is unknown.
	Partition string
	// Owner is the owner text of the host that holds the lease. It is empty for a free
	// lease.
	Owner string
	// Continuation is the checkpointed position. It is empty before the first checkpoint.
	Continuation feed.Continuation
	// Start is where reading of the lease resumes: after Continuation, or else at the start
	// in its document. It is [feed.Now] if the document has none, since the configuration of
	// the hosts then decides.
	Start feed.Start
	// Modified is the time of the lease's last write, by its container's clock.
	Modified time.Time

	// LSNs is the number of unread transactions in the partition, or [Unknown]. After a
	// merge it may be too high or too low, because the merged partition goes on from the
	// higher LSN of its parents, until all positions from before the merge are passed. It is
	// Unknown if the source does not report the end of the feed. An empty page that does
	// not advance, or has no LSN or End, counts as the end.
	LSNs int64
	// Age is the time since the oldest unread change was written, in whole seconds of the
	// engine's clock. It is 0 if no change is unread, and may be [Unknown].
	Age time.Duration
	// Oldest is the time of the oldest unread change. It is zero if no change is unread,
	// or the time is unknown.
	Oldest time.Time
	// Unstarted reports whether the lease has neither a position nor a start.
	Unstarted bool
	// Splitting reports whether the lease's partition was split or merged, and the lease
	// has not been replaced and deleted yet.
	Splitting bool
	// Shadowed reports whether another lease contains the range of this one. No host uses
	// a shadowed lease. If the other lease is Splitting, this one is to replace it.
	// Otherwise this one is left over, for instance from a create that arrived late. The
	// lag of such a lease grows for good, so it does not count in the totals.
	Shadowed bool
	// Err is the error of reading the lag. It is a *feed.HistoryLostError if unread changes are
	// lost, or if the feed ends before the position. It is a *lease.DialectError if the
	// container was recreated after the position was written.
	Err error
	// Charge is the cost of the read, in request units.
	Charge float64
}

// Known reports whether the lag is known.
func (l Lag) Known() bool { return l.LSNs != Unknown }

// Reference returns the lag of the .NET estimator: 1 if the lag is unknown, or the lease
// has no position.
func (l Lag) Reference() int64 {
	if !l.Known() || l.Continuation == "" {
		return 1
	}
	return l.LSNs
}

// measured returns l with its lag. page is the first page after the lease's position, and
// now is the present time by the lease store's clock.
func (l Lag) measured(page feed.Page, now time.Time) Lag {
	l.Charge = page.Charge
	if len(page.Changes) == 0 {
		l.LSNs, l.Age = 0, 0
		return l
	}
	first := page.Changes[0]
	if page.End >= 0 && first.LSN > 0 {
		l.LSNs = max(0, page.End-first.LSN+1-page.Unused)
	}
	if !first.Time.IsZero() {
		l.Oldest = first.Time
		l.Age = max(0, now.Sub(first.Time)).Truncate(time.Second)
	}
	return l
}
