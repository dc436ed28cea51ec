package protocol

import (
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// Stop says that the handler has stopped a lease: nothing of it is delivered until an
// operator resumes it. The zero Stop means that the lease is not stopped.
//
// The lease's properties hold it, so that it outlives a restart, a hand-over and a split.
// Resuming is a write of its own, by somebody who need not own the lease, and does not
// remove the stop. If it did, an owner whose write of the stop is in doubt would take the
// resumed lease for one that has no stop yet, and write it once more.
type Stop struct {
	// At is when the handler stopped the lease, by its host's clock. It tells stops apart.
	At time.Time
	// Reason is the text of the handler's error. Only its beginning is stored.
	Reason string
}

// These are the keys of the lease's properties that hold a stop.
const (
	// propertyStopped is the time of the stop (RFC 3339, UTC), a space, and the reason.
	propertyStopped = "stopped"
	// propertyResumed is the time of the last stop that an operator has ended.
	propertyResumed = "resumed"
)

// longestReason is the length in bytes to which a stored reason is cut. It shows an operator
// what to look for, while lease documents stay small.
const longestReason = 300

// IsZero reports whether the lease is not stopped.
func (s Stop) IsZero() bool { return s.At.IsZero() }

// StopOf returns the stop of l. It returns the zero Stop if l is not stopped, or if it was
// resumed. A text that is no stop counts as absent.
func StopOf(l lease.Lease) Stop {
	at, reason, _ := strings.Cut(l.Properties[propertyStopped], " ")
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil || l.Properties[propertyResumed] == at {
		return Stop{}
	}
	return Stop{At: t, Reason: reason}
}

// Stopped returns l with the stop s. If s is zero, l has no stop afterwards, and no trace
// of an earlier one.
func Stopped(l lease.Lease, s Stop) lease.Lease {
	if s.IsZero() {
		return without(without(l, propertyStopped), propertyResumed)
	}
	reason := strings.ToValidUTF8(s.Reason[:min(len(s.Reason), longestReason)], "")
	text := s.id() + " " + reason
	if l.Properties[propertyStopped] == text {
		return l
	}
	return with(l, propertyStopped, text)
}

// Resumed returns l, which has a stop, with that stop ended. The owner delivers again once
// it has seen this, and then removes both properties.
func Resumed(l lease.Lease) lease.Lease {
	return with(l, propertyResumed, StopOf(l).id())
}

// EndedBy reports whether l says that an operator has ended the stop.
func (s Stop) EndedBy(l lease.Lease) bool { return l.Properties[propertyResumed] == s.id() }

// id returns the text of the time of the stop, which tells stops apart.
func (s Stop) id() string { return s.At.UTC().Format(time.RFC3339Nano) }
