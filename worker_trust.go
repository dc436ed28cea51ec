package changefeed

import (
	"context"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// trust is a host's right to use one lease: to read its range, to deliver its batches,
// and to write its document.
//
// Trust begins with a write of the document that succeeds. It counts from the START of
// that write, because the store may have stamped the document then. It ends E - M later,
// before another host may take the lease as expired. E is the expiration and M the margin
// of protocol.Terms. It ends by itself, without an answer from anywhere. It is given up
// before a release or a delete is sent, because another host may begin after that. Once
// ended it does not come back. A late success is ignored, and the host must acquire the
// lease again.
//
// The context of handlers lives as long as the trust. One timer ends it, and each renewal
// resets the timer. The context has no deadline, because a deadline cannot be moved. The
// timer runs outside the worker. So a worker that is blocked, for instance by a user's
// notification function, does not prolong the use of the lease.
//
// The timer may fire after the worker has read the clock and before it acts on the reading.
// So renewed asks the timer: once it has fired, the trust is over, whatever the reading says.
// Otherwise the worker would keep the lease and call its handlers with an ended context.
//
// Timers follow the monotonic clock, which stands still while a machine is suspended. So
// after a suspension only a look at the wall clock shows that trust has ended, and the
// worker looks every clockCheck while a call of the user's code may use the context.
type trust struct {
	terms   protocol.Terms
	attempt protocol.Reading
	held    bool

	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// clockCheck is the longest time for which the context of a running handler outlives a trust
// that has ended by the wall clock alone.
const clockCheck = time.Second

// newTrust returns the trust in a lease whose acquire was sent at attempt. The handlers'
// context carries the values of ctx, which must not end.
func newTrust(ctx context.Context, terms protocol.Terms, attempt, now protocol.Reading) *trust {
	t := &trust{terms: terms, held: true}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.attempt = attempt
	t.timer = time.AfterFunc(t.end()-now.Mono, func() { t.cancel(lease.ErrLost) })
	return t
}

// end returns the time at which the trust ends, by the monotonic clock.
func (t *trust) end() time.Duration {
	return t.attempt.Mono + t.terms.Expiration - t.terms.Margin()
}

// holds reports whether the lease may be used at now, by the monotonic and the wall
// clock.
func (t *trust) holds(now protocol.Reading) bool {
	return t.held && t.terms.Trusted(t.attempt, now)
}

// lasts reports whether the trust has not ended. Unlike holds, it may be called by any
// goroutine, and it notices a jump of the wall clock only after the worker has.
func (t *trust) lasts() bool { return t.ctx.Err() == nil }

// renewed prolongs the trust after a write succeeded that was sent at attempt. It reports
// whether the trust lasts: it returns false if the timer has fired since the worker found at
// now that the trust holds. The trust must not have been given up.
func (t *trust) renewed(attempt, now protocol.Reading) bool {
	if !t.timer.Stop() {
		t.held = false
		return false
	}
	t.attempt = attempt
	t.timer.Reset(t.end() - now.Mono)
	return true
}

// giveUp ends the trust and the handlers' context at once.
func (t *trust) giveUp() {
	t.held = false
	t.timer.Stop()
	t.cancel(lease.ErrLost)
}
