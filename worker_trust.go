package changefeed

import (
	"context"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// trust is a host's right to use one lease: to read its range, to have a batch of
// it in a handler, and to write its document.
//
// It starts with an attempt to write the document that was answered with success,
// and counts from when that attempt was STARTED, because the store may have
// stamped the document then. It ends E - M later, before anybody else may take
// the lease for expired: by itself, with no answer from anywhere. It is given up
// before a release or a delete is sent, because from then on somebody else may
// begin. Once ended it does not come back; a late success is ignored, and the
// host acquires the lease anew like anybody else.
//
// The context that handlers get lives as long as the trust. One timer ends it,
// and each renewal sets the timer again; the context has no deadline, which could
// not be moved. The timer runs beside the worker, so that a worker that is held
// up (by a user's notification function) doesn't prolong the use of the lease.
type trust struct {
	terms   lease.Terms
	attempt lease.Reading
	held    bool

	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// newTrust is the trust in a lease whose acquire was started at attempt. ctx is
// what the handlers' context carries the values of; it must not end.
func newTrust(ctx context.Context, terms lease.Terms, attempt, now lease.Reading) *trust {
	t := &trust{terms: terms, held: true}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.attempt = attempt
	t.timer = time.AfterFunc(t.end()-now.Mono, func() { t.cancel(lease.ErrLost) })
	return t
}

// end is when trust ends by the monotonic clock.
func (t *trust) end() time.Duration {
	return t.attempt.Mono + t.terms.Expiration - t.terms.Margin()
}

// holds reports whether the lease may be used, by both clocks.
func (t *trust) holds(now lease.Reading) bool {
	return t.held && t.terms.Trusted(t.attempt, now)
}

// renewed prolongs the trust, which holds: the attempt was answered with success.
func (t *trust) renewed(attempt, now lease.Reading) {
	t.attempt = attempt
	t.timer.Reset(t.end() - now.Mono)
}

// giveUp ends the trust. Whatever of the handler still looks at its context
// learns that the lease is no longer ours.
func (t *trust) giveUp() {
	t.held = false
	t.timer.Stop()
	t.cancel(lease.ErrLost)
}
