package engine

import (
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// bucket is the provisioned throughput of a container, or that of a database, which its
// containers without throughput of their own share. It is a token bucket that holds the
// throughput of one second. A request is admitted while the bucket is not empty. The cost
// of a request is known only afterwards, so a request may leave a debt. Later requests
// wait until the debt is paid.
type bucket struct {
	mu     sync.Mutex // guards all fields
	rate   float64    // RU per second; 0 means unlimited
	tokens float64
	at     time.Time // the store's time at which tokens was last refilled
}

// provision sets the rate in RU per second; 0 means unlimited. A bucket that was
// unlimited before starts full.
func (b *bucket) provision(rate int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate == 0 {
		b.tokens, b.at = float64(rate), now
	}
	b.rate = float64(rate)
	b.tokens = min(b.tokens, b.rate)
}

// admit returns nil if a request may run. If earlier requests have used up the
// throughput, it returns a *feed.ThrottledError with the time after which to retry.
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
	// The protocol has whole milliseconds, so the time is rounded up.
	wait := time.Duration(-b.tokens / b.rate * float64(time.Second))
	return &feed.ThrottledError{RetryAfter: wait.Truncate(time.Millisecond) + time.Millisecond}
}

// spend takes the charge of a finished request from the bucket.
func (b *bucket) spend(charge float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate > 0 {
		b.tokens -= charge
	}
}

// settle replaces the charge that a finished read has taken, taken, by its whole charge. If
// other requests have used up the throughput meanwhile, it takes the charge of a refused
// request and returns a *feed.ThrottledError.
func (b *bucket) settle(taken, charge float64, now time.Time) error {
	b.spend(-taken)
	if err := b.admit(now); err != nil {
		b.spend(ThrottledShare * charge)
		return err
	}
	b.spend(charge)
	return nil
}

// ThrottledShare is the charge of a request that is refused because the throughput is used
// up, as a share of what the request would have cost.
const ThrottledShare = 0.01

// throughput returns the bucket from which the container's requests take their charges.
func (c *Container) throughput() *bucket {
	if c.dedicated.Load() {
		return &c.bucket
	}
	return c.shared
}

func (c *Container) spend(charge float64) { c.throughput().spend(charge) }

// Settle replaces the charge that a read has taken, taken, by its charge, if no method of the
// store knows the latter. It returns a *feed.ThrottledError if other requests have used up the
// throughput while the read was running. The read must then be refused, and costs
// [ThrottledShare] of its charge. So of many expensive reads at once only some succeed,
// although all begin while there is throughput left.
func (c *Container) Settle(taken, charge float64) error {
	return c.throughput().settle(taken, charge, c.db.clock.now())
}

func (b *bucket) fill(now time.Time) {
	b.tokens = min(b.rate, b.tokens+b.rate*now.Sub(b.at).Seconds())
	b.at = now
}
