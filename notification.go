package changefeed

import "time"

// Reason is why work on a lease ended. The zero value means none.
type Reason int

// The reasons why work on a lease ends.
const (
	// Shutdown: Run's context ended, and the lease was released.
	Shutdown Reason = iota + 1
	// HandedOver: another host wanted the lease, for balance.
	HandedOver
	// Lost: the host could no longer trust the lease, or another host has it.
	Lost
	// Gone: the partition was split or merged, and its children's leases replace the lease.
	Gone
	// Shadowed: there is a lease whose range contains this one's, and its owner has not
	// finished a split yet.
	Shadowed
	// Abandoned: the lease could not be released or deleted, because its handler had not
	// returned when the drain timeout was over, or the lease store did not answer in time.
	// The lease keeps its owner text until it expires; then any host may take it.
	Abandoned
)

// String returns the name of the reason for messages: "none" for the zero value.
func (r Reason) String() string {
	switch r {
	case 0:
		return "none"
	case Shutdown:
		return "shutdown"
	case HandedOver:
		return "handed over"
	case Lost:
		return "lost"
	case Gone:
		return "gone"
	case Shadowed:
		return "shadowed"
	case Abandoned:
		return "abandoned"
	}
	return "unknown"
}

// Event is what a [Notification] reports. The zero value is none.
type Event int

// What a [Notification] may report.
const (
	// Acquired: work on the lease begins.
	Acquired Event = iota + 1
	// Released: work on the lease has ended, for Reason, which shows whether other hosts can
	// take the lease at once.
	Released
	// Failed: an operation failed with Err. It is retried, unless it was an observer's Close or
	// only an operator can mend it.
	Failed
	// Stopped: the handler has stopped the lease with Err; see [Stop]. It is also notified,
	// with the reason that the lease document holds, when work on a stopped lease begins.
	Stopped
	// Resumed: an operator has resumed the lease, and what had failed is delivered again.
	Resumed
	// GivenUp: the handler could not process a change, for Err, and its letter was written to
	// [Failure.Letters]. The position may pass it.
	GivenUp
	// Paused: so many letters were written that it means an outage ([Failure.Breaker]). The
	// host writes none, and repeats what fails; Err is the handler's last error.
	Paused
	// Unpaused: the handler has handled a change, so the host writes letters again.
	Unpaused
)

// String returns the name of the event for messages.
func (e Event) String() string {
	switch e {
	case 0:
		return "none"
	case Acquired:
		return "acquired"
	case Released:
		return "released"
	case Failed:
		return "failed"
	case Stopped:
		return "stopped"
	case Resumed:
		return "resumed"
	case GivenUp:
		return "given up"
	case Paused:
		return "paused"
	case Unpaused:
		return "unpaused"
	}
	return "unknown"
}

// Notification reports a lease that was acquired, released, stopped or resumed, a change that was
// given up, or an error. Losing a lease to balancing is not an error.
type Notification struct {
	Event Event
	// LeaseToken names the lease, or is empty if the error concerns no lease.
	LeaseToken string
	// Reason is set only if Event is Released.
	Reason Reason
	// Err is set if Event is Failed, to a *HandlerError, *SourceError, *LeaseStoreError or
	// *LettersError, depending on what failed. If Reason is Abandoned, Err is a *HandlerError
	// if the handler had not returned, and a *LeaseStoreError otherwise. If Event is Stopped,
	// Err stopped the lease, and if Event is GivenUp, Err is the handler's last error.
	Err error
	// Attempt is set if Event is Failed, Stopped or GivenUp and the handler failed with a
	// batch: the number of times that this host has delivered it. See [Batch].
	Attempt int
	// Delay is set if Event is Failed because the handler failed, or because the observer could
	// not be opened: the time until the call is repeated.
	Delay time.Duration

	// takeover is for the log, if Event is Acquired. final reports, if Event is Failed, that
	// the operation is not retried.
	takeover takeover
	final    bool
}
