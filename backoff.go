package changefeed

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/seeded"
)

// The delays between attempts double from 1 s to 30 s, plus or minus 20 %.
const (
	backoffFirst  = time.Second
	backoffMost   = 30 * time.Second
	backoffSpread = 0.2
	// longestRetryAfter bounds the delay that a service asks for. Sums with longer delays
	// would overflow.
	longestRetryAfter = 24 * time.Hour
)

// jitter returns random numbers that spread the actions of several leases and hosts over
// time. There is no shared stream of random numbers. Every number depends on the seed, on
// its purpose, and on how often that purpose has drawn one. So a simulated run can be
// repeated, and concurrent goroutines do not change each other's numbers.
type jitter struct {
	seed uint64
	n    uint64
}

// newJitter returns the random numbers of one purpose. words name the purpose, for
// instance a lease's ID and "read".
func newJitter(seed uint64, words ...string) jitter {
	for _, w := range words {
		seed = seeded.Mix(seeded.Hash(seed, w))
	}
	return jitter{seed: seed}
}

// next returns the next number in [0, 1).
func (j *jitter) next() float64 {
	j.n++
	return seeded.Float(seeded.Mix(j.seed + j.n*seeded.Golden))
}

// spread returns d plus or minus a random share of d, up to part.
func (j *jitter) spread(d time.Duration, part float64) time.Duration {
	return d + time.Duration(float64(d)*part*(2*j.next()-1))
}

// less returns d minus a random share of d, up to part.
func (j *jitter) less(d time.Duration, part float64) time.Duration {
	return d - time.Duration(float64(d)*part*j.next())
}

// backoff computes the delays between the attempts at one operation.
type backoff struct {
	// first is the first delay and most is the longest one. If zero, backoffFirst and
	// backoffMost are used.
	first, most time.Duration
	// yields makes the delay double after throttled attempts too. So an operation of low
	// priority leaves the service's capacity to the others.
	yields   bool
	jitter   jitter
	failures int
}

// after returns the delay after an attempt that failed with err. If the service throttled
// the attempt, that is the delay that the service asked for, plus up to a fifth. After
// any other error the delay doubles with each failure.
func (b *backoff) after(err error) time.Duration {
	if throttled, ok := errors.AsType[*feed.ThrottledError](err); ok && throttled.RetryAfter > 0 {
		pause := min(throttled.RetryAfter, longestRetryAfter)
		if b.yields {
			pause = max(pause, b.doubled(pause))
		}
		return pause + b.jitter.less(pause/5, 1)
	}
	first := b.first
	if first == 0 {
		first = backoffFirst
	}
	return b.jitter.spread(b.doubled(first), backoffSpread)
}

// doubled counts a failure and returns the delay after it. The delay is first, doubled
// once for each earlier failure, but at most b.most.
func (b *backoff) doubled(first time.Duration) time.Duration {
	most := b.most
	if most == 0 {
		most = backoffMost
	}
	pause := min(float64(first)*math.Pow(2, float64(min(b.failures, 32))), float64(most))
	b.failures++
	return time.Duration(pause)
}

// done resets the count of failures after a success.
func (b *backoff) done() { b.failures = 0 }

// sleep waits for d and returns true. If ctx ends first, it returns false at once.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// retry calls do until it succeeds, ctx ends, or final returns true for its error. Before
// each further call it passes the error to failed and waits for the delay of b. It
// returns the last error of do. If the end of ctx has interrupted a further call, that is
// the error before, which says more.
func retry(ctx context.Context, b backoff, do func() error, final func(error) bool, failed func(error)) error {
	var last error
	for {
		err := do()
		if ctx.Err() != nil && err != nil && last != nil {
			return last
		}
		if err == nil || ctx.Err() != nil || final(err) {
			return err
		}
		failed(err)
		if !sleep(ctx, b.after(err)) {
			return err
		}
		last = err
	}
}
