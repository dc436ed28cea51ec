package simulation

import (
	"math/bits"
	"time"

	"github.com/changefeed-go/changefeed/internal/seeded"
)

// draw is a stream of random numbers that belongs to one object: one call of one host,
// one batch of one handler, one part of a plan.
//
// No two objects share a stream. With a shared stream, the numbers of one goroutine would
// depend on the earlier draws of others, and so on the scheduler. A draw is seeded from
// the seed and the object's name, so the same object gets the same numbers in every run
// of the seed. The generator is SplitMix64.
type draw struct{ state uint64 }

// newDraw returns the stream of the object that words and n name.
func newDraw(seed, n uint64, words ...string) draw {
	h := seeded.Mix(seed ^ seeded.Mix(n+seeded.Golden))
	for _, w := range words {
		h = seeded.Mix(h ^ seeded.Hash(0, w))
	}
	return draw{state: h}
}

func (d *draw) next() uint64 {
	d.state += seeded.Golden
	return seeded.Mix(d.state)
}

// intn returns a number in [0, n). It returns 0 if n is not positive.
func (d *draw) intn(n int) int {
	if n <= 0 {
		return 0
	}
	hi, _ := bits.Mul64(d.next(), uint64(n))
	return int(hi)
}

// between returns a number in [low, high].
func (d *draw) between(low, high int) int { return low + d.intn(high-low+1) }

// float returns a number in [0, 1).
func (d *draw) float() float64 { return seeded.Float(d.next()) }

// chance reports true with probability p.
func (d *draw) chance(p float64) bool { return d.float() < p }

// span returns a duration in [low, high) with a resolution of a nanosecond.
func (d *draw) span(low, high time.Duration) time.Duration {
	return low + time.Duration(d.intn(int(high-low)))
}
