package engine

import (
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// bucket is a container's provisioned throughput: a token bucket that holds one
// second of it. A request is let in while there is anything in the bucket, and may
// leave it in debt, since what it costs is known afterwards only; the next ones
// wait until the debt is paid.
type bucket struct {
	mu     sync.Mutex // guards all fields
	rate   float64    // RU per second; 0: unlimited
	tokens float64
	at     time.Time // of the store's clock, when tokens was right
}

// provision sets the rate. The bucket starts full when it had none.
func (b *bucket) provision(rate int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate == 0 {
		b.tokens, b.at = float64(rate), now
	}
	b.rate = float64(rate)
	b.tokens = min(b.tokens, b.rate)
}

// admit lets a request in, or returns *feed.ThrottledError with the time after
// which the bucket is out of debt.
func (b *bucket) admit(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate == 0 {
		return nil
	}
	b.fill(now)
	if b.tokens > 0 {
		return nil
	}
	// A whole millisecond more than needed: the protocol counts in those.
	wait := time.Duration(-b.tokens / b.rate * float64(time.Second))
	return &feed.ThrottledError{RetryAfter: wait.Truncate(time.Millisecond) + time.Millisecond}
}

// spend takes what a request cost.
func (b *bucket) spend(charge float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate > 0 {
		b.tokens -= charge
	}
}

func (b *bucket) fill(now time.Time) {
	b.tokens = min(b.rate, b.tokens+b.rate*now.Sub(b.at).Seconds())
	b.at = now
}
