package changefeedtest

import "time"

// storeClock is the clock of a simulated service: the one that stamps _ts and
// tells a listing's Now. It is off from the hosts' clock by a fixed offset, and
// runs faster or slower by rate. All judgements of the lease protocol compare an
// interval of a host's clock with one of the store's, so a skewed and drifting
// store covers slow and fast hosts alike.
type storeClock struct {
	origin time.Time
	offset time.Duration
	// rate is what the clock gains in a second, in seconds.
	rate float64
}

func newStoreClock(offset time.Duration, rate float64) *storeClock {
	return &storeClock{origin: time.Now(), offset: offset, rate: rate}
}

// now reads the clock, in UTC, without a monotonic part.
func (c *storeClock) now() time.Time {
	elapsed := time.Since(c.origin)
	elapsed += time.Duration(float64(elapsed) * c.rate)
	return c.origin.Add(c.offset + elapsed).Round(0).UTC()
}
