package changefeed

import (
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// claim is the time between a steal and the use of what was stolen.
//
// A lease is stolen from a live foreign owner only: a host of another
// implementation, which obeys no request and has no trust that ends by itself. The
// steal changes the document's ETag, so the victim can't renew, and finds out at its
// next write. Until when, nobody knows but by the clock: a victim that is alive has
// written again before its last write expired. So the thief
//
//	waits    until the victim's last write is E + 1 s old, and renews meanwhile;
//	confirms by one renewal, begun after the wait and answered with success;
//	uses     the lease only then.
//
// While it waits and confirms it
//
//	does not read, deliver or open the observer   the victim may still work
//	does not obey a request                       who takes a free lease doesn't wait
//	does not release, whatever happens            the same: if it must stop, the lease expires
//	does not put the document back                a deletion ends the claim. Somebody else may
//	                                              have made it anew, and the confirming renewal,
//	                                              which is refused then, is how we learn of it
//
// When trust ends, or a write finds another owner, the claim is lost like a lease.
type claim struct {
	w       *worker
	waiting bool
	// until is when the wait is over, by the host's monotonic clock.
	until time.Duration
}

// acquisition is a lease that a cycle has acquired: what its worker begins with.
type acquisition struct {
	lease lease.Lease
	// attempt is when the write was started that acquired it.
	attempt lease.Reading
	// stolen: a live foreign owner had it, and it is to be used from until on.
	stolen bool
	until  time.Duration
}

func newClaim(w *worker, a acquisition) claim {
	return claim{w: w, waiting: a.stolen, until: a.until}
}

// begin says that work on the lease begins, or that a claim does.
func (c *claim) begin() {
	if c.waiting {
		w := c.w
		w.cfg.Logger.Info("lease stolen from a foreign owner; it is used when that owner has stopped", "processor", w.cfg.Processor,
			"instance", w.owner, "lease", w.writer.doc.Token, "wait", max(0, c.until-w.now.Mono))
		return
	}
	c.w.notify(Notification{Event: Acquired, LeaseToken: c.w.writer.doc.Token})
}

// due reports whether the wait is over and the confirming renewal is to be sent.
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

// renewed takes a renewal that was answered with success.
func (c *claim) renewed(attempt lease.Reading) {
	if c.waiting && attempt.Mono >= c.until {
		c.waiting = false
		c.begin()
	}
}

// end notifies that work on the lease has ended, if it ever began. err is set if r is
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
