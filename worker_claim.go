package changefeed

import (
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// acquisition is a lease that a cycle has acquired and for which the supervisor starts a
// worker. If the lease was stolen, the worker claims it first: it waits before it uses it.
//
// Only a lease of a live foreign owner is stolen. That is a host of another
// implementation, which hands no wanted lease over and has no trust that ends by itself.
// The steal changes the document's ETag. So the victim cannot renew, and learns of the steal at its
// next write. Only the clock bounds the time until then: a live victim writes again
// before its last write expires. E is Config.ExpirationInterval. So the thief
//
//	waits    until the victim's last write is E + 1 s old, and renews meanwhile;
//	confirms by one renewal, which begins after the wait and succeeds;
//	uses     the lease only after that.
//
// During the wait and the confirmation the thief
//
//	does not read, deliver or open the observer   because the victim may still work
//	does not hand the lease over if it is wanted  because the next owner would take a free lease without a wait
//	does not release                              for the same reason; if it must stop, the lease expires
//	does not put the document back                because a deletion ends the claim. Another host may have
//	                                              recreated the document. The confirming renewal is then
//	                                              refused and shows it
//
// If trust ends, or a write finds another owner, the claim is lost like a lease.
type acquisition struct {
	lease lease.Lease
	// attempt is the time at which the write that acquired the lease was sent.
	attempt protocol.Reading
	// stolen reports whether the lease was stolen from a live foreign host. If so, the
	// worker must not use it before until.
	stolen bool
	until  time.Duration
	// takeover is the lease's state before.
	takeover takeover
	// unsure reports whether what the lease says of its letters may be out of date; see parking.
	unsure bool
}

// begin notifies the user that work on the lease begins. If a claim begins, it only
// writes to the log.
func (w *worker) begin() {
	if w.phase == phaseClaiming {
		w.log(w.token).Info("lease stolen from a foreign owner; it is used when that owner has stopped",
			"wait", max(0, w.claim.until-w.now.Mono))
		return
	}
	w.notify(Notification{Event: Acquired, LeaseToken: w.token, takeover: w.claim.takeover})
	if stop := w.leaseStop(); !stop.IsZero() {
		w.notifyStopped(fmt.Errorf("%s (since %s)", stop.Reason, stop.At.Format(time.RFC3339)), 0)
	}
}

// confirmDue reports whether the wait is over, so that the renewal that confirms the claim
// must be sent.
func (w *worker) confirmDue() bool {
	if w.phase != phaseClaiming {
		return false
	}
	if w.now.Mono < w.claim.until {
		w.wake(w.claim.until)
		return false
	}
	return true
}

// confirm handles a renewal that was sent at attempt and succeeded. If it was sent after
// the wait, the lease may be used, or, if the worker has to end by now, released.
func (w *worker) confirm(attempt protocol.Reading) {
	switch {
	case attempt.Mono < w.claim.until:
		return
	case w.phase == phaseClaiming:
		w.enter(phaseWorking)
	case w.phase == phaseWithdrawn:
		w.enter(phaseEnding)
	default:
		return
	}
	w.begin()
}

// ended notifies the user that work on the lease has ended, unless it had not begun.
func (w *worker) ended() {
	if w.phase == phaseWithdrawn {
		w.log(w.token).Info("claim of a stolen lease ended before its use", "reason", w.reason.String())
		return
	}
	if !w.leaseStop().IsZero() {
		w.metrics.stops(-1)
	}
	w.metrics.parks(-len(w.parking.units))
	n := Notification{Event: Released, LeaseToken: w.token, Reason: w.reason, Err: w.abandoned}
	if n.Err != nil {
		n.Reason = Abandoned
	}
	w.notify(n)
}
