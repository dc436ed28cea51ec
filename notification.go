package changefeed

// Reason tells why work on a lease ended.
type Reason int

// The reasons.
const (
	// Shutdown: Run's context ended.
	Shutdown Reason = iota
	// HandedOver: another host asked for the lease, for balance.
	HandedOver
	// Lost: the lease could no longer be trusted, or somebody else has it.
	Lost
	// Gone: the partition was split or merged; other leases took over.
	Gone
	// Shadowed: a lease of a range that holds this one's exists, whose owner has
	// yet to finish a split.
	Shadowed
)

// String names the reason for messages.
func (r Reason) String() string {
	switch r {
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
	}
	return "unknown"
}

// Event tells what a [Notification] is about.
type Event int

// The events.
const (
	// Acquired: work on the lease begins.
	Acquired Event = iota
	// Released: work on the lease has ended; Reason says why.
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
	// Reason is set with Released.
	Reason Reason
	// Err is set with Failed: a *HandlerError, *SourceError or *LeaseStoreError
	// tells whose it is.
	Err error
}
