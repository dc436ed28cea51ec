package changefeed

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// The pauses between attempts: 1 s doubling to 30 s, +- 20 %.
const (
	backoffFirst  = time.Second
	backoffMost   = 30 * time.Second
	backoffSpread = 0.2
	// longestRetryAfter bounds what a service asks for; sums of more would overflow.
	longestRetryAfter = 24 * time.Hour
)

// jitter spreads what several leases and hosts do in the same rhythm. There is no
// shared stream of random numbers: every number hangs on the seed, on what it is
// for, and on how often that asked before. So a simulated run can be repeated,
// and concurrent goroutines don't disturb each other's numbers.
type jitter struct {
	seed uint64
	n    uint64
}

// newJitter makes the numbers of the thing that words name.
func newJitter(seed uint64, words ...string) jitter {
	for _, w := range words {
		seed = hashWord(seed, w)
	}
	return jitter{seed: seed}
}

// next returns the next number in [0, 1).
func (j *jitter) next() float64 {
	j.n++
	return float64(scramble(j.seed+j.n*0x9e3779b97f4a7c15)>>11) / (1 << 53)
}

// spread returns d, more or less by the part of it.
func (j *jitter) spread(d time.Duration, part float64) time.Duration {
	return d + time.Duration(float64(d)*part*(2*j.next()-1))
}

// less returns d, or less by up to the part of it.
func (j *jitter) less(d time.Duration, part float64) time.Duration {
	return d - time.Duration(float64(d)*part*j.next())
}

// hashWord is FNV-1a over w, mixed into seed.
func hashWord(seed uint64, w string) uint64 {
	h := seed ^ 14695981039346656037
	for i := range len(w) {
		h = (h ^ uint64(w[i])) * 1099511628211
	}
	return scramble(h)
}

// scramble is the finalizer of SplitMix64.
func scramble(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// backoff is the pauses between the attempts at one thing.
type backoff struct {
	// first and most bound the pauses; zero: the defaults.
	first, most time.Duration
	// yields: the pause doubles also while a service throttles. Of those that ask
	// again and again for more than there is, these leave it to the others.
	yields   bool
	jitter   jitter
	failures int
}

// after returns the pause after an attempt that failed with err: what the service
// asked for when it throttled, and up to a fifth more; else a pause that doubles
// with each failure.
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

// doubled counts a failure, and returns first doubled with each one before it, up
// to the most.
func (b *backoff) doubled(first time.Duration) time.Duration {
	most := b.most
	if most == 0 {
		most = backoffMost
	}
	pause := min(float64(first)*math.Pow(2, float64(min(b.failures, 32))), float64(most))
	b.failures++
	return time.Duration(pause)
}

// done forgets the failures: an attempt succeeded.
func (b *backoff) done() { b.failures = 0 }

// sleep waits for d; it returns early, with false, when ctx ends.
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

// retry tries do until it succeeds, ctx ends or final says that trying again is
// of no use. It returns do's last error. failed is told of each failure.
func retry(ctx context.Context, b backoff, do func() error, final func(error) bool, failed func(error)) error {
	for {
		err := do()
		if err == nil || ctx.Err() != nil || final(err) {
			return err
		}
		failed(err)
		if !sleep(ctx, b.after(err)) {
			return err
		}
	}
}
