package changefeed

import (
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// claim is the wait between the steal of a lease and its first use.
//
// Only a lease of a live foreign owner is stolen. That is a host of another
// implementation, which obeys no request and has no trust that ends by itself. The steal
// changes the document's ETag. So the victim cannot renew, and learns of the steal at its
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
//	does not obey a request                       because the next owner would take a free lease without a wait
//	does not release                              for the same reason; if it must stop, the lease expires
//	does not put the document back                because a deletion ends the claim. Another host may have
//	                                              recreated the document. The confirming renewal is then
//	                                              refused and shows it
//
// If trust ends, or a write finds another owner, the claim is lost like a lease.
type claim struct {
	w       *worker
	waiting bool
	// until is the time at which the wait ends, by the host's monotonic clock.
	until time.Duration
	// takeover is for the log.
	takeover takeover
}

// acquisition is a lease that a cycle has acquired and for which the supervisor starts a
// worker.
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
}

func newClaim(w *worker, a acquisition) claim {
	return claim{w: w, waiting: a.stolen, until: a.until, takeover: a.takeover}
}

// begin notifies the user that work on the lease begins. If a claim begins, it only
// writes to the log.
func (c *claim) begin() {
	if c.waiting {
		w := c.w
		w.cfg.Logger.Info("lease stolen from a foreign owner; it is used when that owner has stopped", "processor", w.cfg.Processor,
			"instance", w.owner, "lease", w.writer.doc.Token, "wait", max(0, c.until-w.now.Mono))
		return
	}
	c.w.notify(Notification{Event: Acquired, LeaseToken: c.w.writer.doc.Token, takeover: c.takeover})
}

// due reports whether the wait is over, so that the renewal that confirms the claim must
// be sent.
func (c *claim) due() bool {
	if !c.waiting {
		return false
	}
	if c.w.now.Mono < c.until {
		c.w.wake(c.until)
		return false
	}
	return true
}

// renewed handles a renewal that was sent at attempt and succeeded. If it was sent after
// the wait, the claim ends and work begins.
func (c *claim) renewed(attempt protocol.Reading) {
	if c.waiting && attempt.Mono >= c.until {
		c.waiting = false
		c.begin()
	}
}

// end notifies the user that work on the lease has ended, unless it had not begun. err is
// the error that prevented the release; it is set if r is Abandoned.
func (c *claim) end(r Reason, err error) {
	w := c.w
	if c.waiting {
		w.cfg.Logger.Info("claim of a stolen lease ended before its use", "processor", w.cfg.Processor,
			"instance", w.owner, "lease", w.writer.doc.Token, "reason", r.String())
		return
	}
	w.notify(Notification{Event: Released, LeaseToken: w.writer.doc.Token, Reason: r, Err: err})
}
