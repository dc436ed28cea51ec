package estimator

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Unknown stands for a number or duration that cannot be determined.
const Unknown = -1

// Lag tells how far the processor is behind on one lease.
type Lag struct {
	// LeaseToken names the lease.
	LeaseToken string
	// Range holds the lease's keys, or is zero if neither the document nor the engine has
	// it.
	Range feed.Range
	// Partition is the physical partition that holds the lease's range, or empty if there
	// are several or it is unknown.
	Partition string
	// Owner is the lease's host, as it signs its leases, or empty for a free lease.
	Owner string
	// Continuation is the checkpointed position, or empty before the first checkpoint.
	Continuation feed.Continuation
	// Start is where a host would resume: after Continuation, or else at the start in the
	// lease's document. If that has none, Start is [feed.Now], although the hosts'
	// configuration decides.
	Start feed.Start
	// Modified is when the lease was last written, by its container's clock.
	Modified time.Time

	// LSNs is how many transactions in the partition are unread, or [Unknown] if the source
	// does not report where its feed ends. After a merge it may be too high or too low,
	// because the merged partition goes on from its parents' higher LSN; it is right again
	// once all positions from before the merge are passed. An empty page that does not
	// advance, or has no LSN or End, counts as the end.
	LSNs int64
	// Age is the time since the oldest unread change was written, in whole seconds of the
	// engine's clock: 0 if nothing is unread, or [Unknown].
	Age time.Duration
	// Oldest is when the oldest unread change was written, or zero if nothing is unread or
	// the time is unknown.
	Oldest time.Time
	// Unstarted reports whether the lease has neither a position nor a start.
	Unstarted bool
	// Splitting reports whether the lease's partition was split or merged but no host has
	// replaced the lease yet.
	Splitting bool
	// Stopped is the reason for which the lease's handler has stopped it, or empty if it
	// runs. A stopped lease's lag grows until an operator resumes it; see changefeed.Stop.
	Stopped string
	// Letters is how many letters the lease's range has, and ParkedKeys how many of its keys
	// have a change that waits behind a letter. A key with dead letters only is not counted,
	// although its later changes may have to wait, too. Both are [Unknown] unless a [Report]
	// has counted letters, and even then if Range is unknown. A shadowed lease has none, because
	// the other one has them.
	Letters, ParkedKeys int
	// Shadowed reports whether another lease contains this one's range. No host uses a
	// shadowed lease. If the other one is Splitting, this one is to replace it; otherwise it
	// is left over, for instance from a create that arrived late, and since its lag grows
	// for good, the totals leave it out.
	Shadowed bool
	// Err tells why the lag could not be read: a *feed.HistoryLostError if unread changes
	// are lost or the feed ends before the position, and a *lease.DialectError if the
	// container was recreated after the position was written.
	Err error
	// Charge is what the read cost, in request units.
	Charge float64
}

// Known reports whether the lag is known.
func (l Lag) Known() bool { return l.LSNs != Unknown }

// Reference returns what the .NET estimator would report, which is 1 if the lag is
// unknown or the lease has no position. Use it to compare the two, or for a scaler that
// expects .NET's number.
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
