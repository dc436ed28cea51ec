package engine

import (
	"math"
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

// Request unit (RU) charges. What the service documents ("Optimize request cost in
// Azure Cosmos DB", at session consistency) are two points of each: a point read of
// 1 KB costs 1 RU and of 100 KB 10 RU, a write of 1 KB 5 RU and of 100 KB 50 RU. The
// formulas are the straight line through them, and the value of 1 KB below it, cut to hundredths.
// The service charges for indexing and consistency beside; the store has neither.
const (
	chargeKB       = 1024
	readBase       = 1.0
	readPerKB      = (10.0 - 1.0) / (100 - 1)
	writeReadRatio = 5.0
)

// readCharge is the charge of a point read of an item of size bytes, or of one
// that finds nothing (0).
func readCharge(size int) float64 { return hundredths(readUnits(size)) }

// writeCharge is the charge of a create, replace or delete of an item of size
// bytes; of a replace, the larger of old and new.
func writeCharge(size int) float64 { return hundredths(writeReadRatio * readUnits(size)) }

func readUnits(size int) float64 {
	return readBase + readPerKB*max(0, float64(size)/chargeKB-1)
}

func hundredths(ru float64) float64 { return math.Round(ru*100) / 100 }
