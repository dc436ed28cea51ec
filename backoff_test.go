package changefeed

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

func TestBackoffDoublesUpToItsLimitAndResetsAfterSuccess(t *testing.T) {
	b := backoff{jitter: newJitter(7, "test")}
	failure := errors.New("no")
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
		want *= time.Second
		if got := b.after(failure); got < want*8/10 || got > want*12/10 {
			t.Errorf("pause %s, want %s +- 20 %%", got, want)
		}
	}
	b.done()
	if got := b.after(failure); got > 1200*time.Millisecond {
		t.Errorf("after a success the first pause is %s", got)
	}
	for range 10_000 {
		if got := b.after(failure); got <= 0 || got > 36*time.Second {
			t.Fatalf("pause %s", got)
		}
	}
}

func TestBackoffBoundsAnExcessiveRetryAfter(t *testing.T) {
	for _, yields := range []bool{false, true} {
		b := backoff{jitter: newJitter(7, "test"), yields: yields}
		for range 100 {
			if got := b.after(&feed.ThrottledError{RetryAfter: math.MaxInt64}); got < 24*time.Hour || got > 29*time.Hour {
				t.Fatalf("yields %t: delay of %s; want a day and up to a fifth more", yields, got)
			}
		}
	}
}

func TestBackoffHonoursRetryAfter(t *testing.T) {
	b := backoff{jitter: newJitter(7, "test")}
	throttled := fmt.Errorf("wrapped: %w", &feed.ThrottledError{RetryAfter: 3 * time.Second})
	for range 100 {
		if got := b.after(throttled); got < 3*time.Second || got > 3600*time.Millisecond {
			t.Fatalf("pause %s, asked for 3s", got)
		}
	}
	if got := b.after(&feed.ThrottledError{}); got < 800*time.Millisecond || got > 1200*time.Millisecond {
		t.Errorf("without a time: %s", got)
	}
}

// A host that lists again exactly after the delay that the service asked for would use up
// the capacity that the lease writes need. So each further throttled listing is delayed
// for longer.
func TestYieldingBackoffGrowsWhileTheServiceThrottles(t *testing.T) {
	b := backoff{jitter: newJitter(7, "test"), most: time.Second, yields: true}
	for _, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		want *= time.Millisecond
		if got := b.after(&feed.ThrottledError{RetryAfter: 100 * time.Millisecond}); got < want || got > want*12/10 {
			t.Errorf("pause %s, want %s and up to a fifth more", got, want)
		}
	}
	if got := b.after(&feed.ThrottledError{RetryAfter: time.Minute}); got < time.Minute || got > 72*time.Second {
		t.Errorf("pause %s, asked for 1m", got)
	}
}

// The random delays of two hosts, and of two leases, must differ, so that they do not all
// act at once. The same seed must give the same delays, so that a simulated run can be
// repeated.
func TestJitterDiffersByNameAndRepeatsBySeed(t *testing.T) {
	numbers := func(seed uint64, words ...string) string {
		j := newJitter(seed, words...)
		return fmt.Sprint(j.next(), j.next(), j.next())
	}
	if first, again := numbers(1, "lease", "read"), numbers(1, "lease", "read"); first != again {
		t.Error("the same name and seed give different numbers")
	}
	seen := map[string]bool{}
	for _, n := range []string{numbers(1, "a", "b"), numbers(2, "a", "b"), numbers(1, "a", "c"), numbers(1, "b", "a")} {
		if seen[n] {
			t.Error("two names give the same numbers")
		}
		seen[n] = true
	}
	j, sum := newJitter(3, "mean"), 0.0
	for range 10_000 {
		x := j.next()
		if x < 0 || x >= 1 {
			t.Fatal(x)
		}
		sum += x
	}
	if mean := sum / 10_000; mean < 0.48 || mean > 0.52 {
		t.Errorf("mean %f", mean)
	}
}
