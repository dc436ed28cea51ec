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
	// Shadowed: an ancestor of the lease exists.
	Shadowed
)

// String names the reason for messages.
func (r Reason) String() string {
	return [...]string{"shutdown", "handed over", "lost", "gone", "shadowed"}[r]
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

// Notification tells of a lease acquired or released, or of an error. Losing a
// lease to balancing is not an error.
type Notification struct {
	Event Event
	// LeaseToken names the lease; empty when the error concerns none.
	LeaseToken string
	// Reason is set with Released.
	Reason Reason
	// Err is set with Failed: a *HandlerError, *SourceError or *LeaseStoreError tells whose it is.
	Err error
}
