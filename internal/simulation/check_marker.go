package simulation

import (
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// markFloor is the LSN of each partition when the marker was created. Changes of the keys
// with greater LSNs must be delivered, if the start is now.
type markFloor struct {
	keys     []feed.Range
	counters []counter
}

// markedLSN returns the LSN of a key when the marker was created. After a discard, that
// is the next marker. The caller holds c.mu.
func (c *checker) markedLSN(k *keyLog) int64 {
	for _, f := range slices.Backward(c.floors) {
		if !slices.ContainsFunc(f.keys, func(r feed.Range) bool { return r.Holds(k.epk) }) {
			continue
		}
		for _, n := range f.counters {
			if n.keys.Holds(k.epk) {
				return n.lsn
			}
		}
	}
	return 0
}

// marked records that the marker was written. initialised reports whether the marker
// exists now.
func (c *checker) marked(initialised bool) {
	counters := c.world.engine.counters()
	c.mu.Lock()
	defer c.mu.Unlock()
	if initialised && !c.marker {
		c.markedAt, c.started = time.Now(), false
		c.floors = append(c.floors, markFloor{c.unmarked, counters})
		c.unmarked = nil
	}
	c.marker = initialised
}

// initialised reports whether the marker exists.
func (c *checker) initialised() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marker
}
