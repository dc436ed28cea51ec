package engine

import (
	"math"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// bucket is a container's provisioned throughput. It is a token bucket that holds the
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

func (b *bucket) fill(now time.Time) {
	b.tokens = min(b.rate, b.tokens+b.rate*now.Sub(b.at).Seconds())
	b.at = now
}

// Request unit (RU) charges. The service documents two points of each charge, in
// "Optimize request cost in Azure Cosmos DB" at session consistency. A point read of 1 KB
// costs 1 RU, and of 100 KB 10 RU. A write of 1 KB costs 5 RU, and of 100 KB 50 RU. The
// formulas are straight lines through these points. Below 1 KB they have the value of 1
// KB. Results are rounded to hundredths. The service also charges for indexing and
// consistency. The store has neither.
const (
	chargeKB       = 1024
	readBase       = 1.0
	readPerKB      = (10.0 - 1.0) / (100 - 1)
	writeReadRatio = 5.0
)

// readCharge returns the charge of a point read of an item of size bytes. For a read that
// finds no item, size is 0.
func readCharge(size int) float64 { return hundredths(readUnits(size)) }

// writeCharge returns the charge of a create, replace or delete of an item of size bytes.
// For a replace, size is the larger of the old and the new size.
func writeCharge(size int) float64 { return hundredths(writeReadRatio * readUnits(size)) }

func readUnits(size int) float64 {
	return readBase + readPerKB*max(0, float64(size)/chargeKB-1)
}

func hundredths(ru float64) float64 { return math.Round(ru*100) / 100 }
