package changefeed

import (
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// claim is the wait between the steal of a lease and its use.
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
	// until is the end of the wait, by the host's monotonic clock.
	until time.Duration
}

// acquisition is a lease that a cycle has acquired. Its worker starts from it.
type acquisition struct {
	lease lease.Lease
	// attempt is the start of the write that acquired the lease.
	attempt lease.Reading
	// stolen reports whether the lease had a live foreign owner. If so, it must not be
	// used before until.
	stolen bool
	until  time.Duration
}

func newClaim(w *worker, a acquisition) claim {
	return claim{w: w, waiting: a.stolen, until: a.until}
}

// begin notifies that work on the lease begins, or logs that a claim does.
func (c *claim) begin() {
	if c.waiting {
		w := c.w
		w.cfg.Logger.Info("lease stolen from a foreign owner; it is used when that owner has stopped", "processor", w.cfg.Processor,
			"instance", w.owner, "lease", w.writer.doc.Token, "wait", max(0, c.until-w.now.Mono))
		return
	}
	c.w.notify(Notification{Event: Acquired, LeaseToken: c.w.writer.doc.Token})
}

// due reports whether the wait is over, so that the confirming renewal is due.
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

// renewed records a renewal that succeeded.
func (c *claim) renewed(attempt lease.Reading) {
	if c.waiting && attempt.Mono >= c.until {
		c.waiting = false
		c.begin()
	}
}

// end notifies that work on the lease has ended, if it began. err is set if r is
// Abandoned.
func (c *claim) end(r Reason, err error) {
	w := c.w
	if c.waiting {
		w.cfg.Logger.Info("claim of a stolen lease ended before its use", "processor", w.cfg.Processor,
			"instance", w.owner, "lease", w.writer.doc.Token, "reason", r.String())
		return
	}
	w.notify(Notification{Event: Released, LeaseToken: w.writer.doc.Token, Reason: r, Err: err})
}
