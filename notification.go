package changefeed

// Reason is why work on a lease ended. Its zero value means none: a notification
// that does not end work has no reason.
type Reason int

// The reasons.
const (
	// Shutdown: Run's context ended, and the lease was released.
	Shutdown Reason = iota + 1
	// HandedOver: another host asked for the lease, for balance.
	HandedOver
	// Lost: the lease could no longer be trusted, or somebody else has it.
	Lost
	// Gone: the partition was split or merged; other leases took over.
	Gone
	// Shadowed: a lease of a range that holds this one's exists, whose owner has
	// yet to finish a split.
	Shadowed
	// Abandoned: the lease was to be released or deleted, and was not. Its handler had
	// not returned when the drain timeout was over, or the lease store did not answer
	// in time. The lease keeps its owner text until it expires; then any host takes it.
	Abandoned
)

// String returns the name of the reason for messages, "none" for the zero value.
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

// Event tells what a [Notification] is about.
type Event int

// The events.
const (
	// Acquired: work on the lease begins.
	Acquired Event = iota
	// Released: work on the lease has ended. Reason is why, and whether the lease is
	// free for other hosts at once.
	Released
	// Failed: Err happened. Work goes on.
	Failed
)

// String names the event for messages.
func (e Event) String() string {
	switch e {
	case Acquired:
		return "acquired"
	case Released:
		return "released"
	case Failed:
		return "failed"
	}
	return "unknown"
}

// Notification tells of a lease acquired or released, or of an error. Losing a
// lease to balancing is not an error.
type Notification struct {
	Event Event
	// LeaseToken names the lease; empty when the error concerns none.
	LeaseToken string
	// Reason is set with Released, and zero otherwise.
	Reason Reason
	// Err is set with Failed: a *HandlerError, *SourceError or *LeaseStoreError names
	// the part that failed. With Released it is set if Reason is Abandoned: a
	// *HandlerError if a call of the handler had not returned, else a *LeaseStoreError.
	Err error
}
