package changefeed

import (
	"fmt"
	"sync"
	"time"
)

// Breaker tells poison from an outage. If the handler fails with everything, because what it
// writes to is down, every change would become a letter. So after more than Letters of them
// within Window, a host gives no more up: it repeats what fails, with growing delays, until a
// change was handled and the window has room again. If a key is parked already, its changes
// still become letters, and do not count. [Paused] and [Unpaused] are notified, and meanwhile
// [Processor.Healthy] returns an error.
type Breaker struct {
	// Letters is how many letters a host may write within Window. If zero, 100 is used. -1
	// switches the breaker off.
	Letters int
	// Window is the time in which they are counted. If zero, a minute is used.
	Window time.Duration
}

// These are the default values of Breaker.
const (
	defaultBreakerLetters = 100
	defaultBreakerWindow  = time.Minute
)

// breaker counts a host's letters. It is safe for concurrent use. Times are readings of the host's
// monotonic clock.
type breaker struct {
	limit  int // -1 if it is off
	window time.Duration

	mu sync.Mutex // guards the fields below; held for lookups only
	// written has the times of the letters within the window.
	written []time.Duration
	// open reports whether no letters are written, and since says when that began. success
	// reports whether the handler has handled a change since.
	open, success bool
	since         time.Duration
}

func newBreaker(b Breaker) *breaker { return &breaker{limit: b.Letters, window: b.Window} }

// allow reports whether n more letters may be written at now, and counts them. changed reports
// whether that was different for the letters before.
func (b *breaker) allow(now time.Duration, n int) (allowed, changed bool) {
	if b.limit < 0 {
		return true, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	changed = b.close(now)
	if b.open {
		return false, false
	}
	b.forget(now)
	if len(b.written) > 0 && len(b.written)+n > b.limit { // the letters of one transaction may exceed the limit
		b.open, b.success, b.since = true, false, now
		return false, !changed
	}
	for range n {
		b.written = append(b.written, now)
	}
	return true, changed
}

// forget forgets the letters that were written before the window.
func (b *breaker) forget(now time.Duration) {
	for len(b.written) > 0 && now-b.written[0] >= b.window {
		b.written = b.written[1:]
	}
}

// succeeded records at now that the handler has handled a change. changed reports whether letters
// may be written again from now on.
func (b *breaker) succeeded(now time.Duration) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.success = true
	return b.close(now)
}

// close ends a pause if the handler has succeeded since, and the window has room for a letter.
func (b *breaker) close(now time.Duration) (closed bool) {
	if !b.open || !b.success {
		return false
	}
	b.forget(now)
	b.open = len(b.written) >= b.limit
	return !b.open
}

// lasts returns for how long no letters have been written, or 0 if they are.
func (b *breaker) lasts(now time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return 0
	}
	return max(now-b.since, 1)
}

// problem describes the state in which no letters are written, for messages.
func (b *breaker) problem() string {
	return fmt.Sprintf("no letters are written, because the handler has failed with everything since more than %d of them within %s", b.limit, b.window)
}
