package lease

import (
	"math"
	"time"
)

// Reading is one look at a host's two clocks, taken together. They disagree
// after a suspend (the monotonic clock stands still) and when somebody sets the
// wall clock; trust ends when either says so.
type Reading struct {
	// Mono is the monotonic clock, counted from any fixed moment of the process.
	Mono time.Duration
	// Wall is the wall clock. Its monotonic part, if it has one, is not looked at.
	Wall time.Time
}

// Terms are the times that all hosts of one processor agree on.
type Terms struct {
	// Expiration (E) is how long a lease stays live after its owner's last write.
	Expiration time.Duration
	// Acquire is the time between two regular looks at the leases. A gap counts
	// only while listings are at most two of them apart.
	Acquire time.Duration
}

// Margin (M) is how much earlier than the expiration an owner stops to trust its
// lease: max(E/10, 2 s). It covers the drift of two clocks over E and the
// difference between the clock that stamps _ts and the one that tells Now.
func (t Terms) Margin() time.Duration { return max(t.Expiration/10, 2*time.Second) }

// Trusted reports whether a host may still use a lease, where attempt was read
// when the last successful write was started: less than E - M later by both clocks.
func (t Terms) Trusted(attempt, now Reading) bool {
	span := t.Expiration - t.Margin()
	// Round strips the monotonic part, by which Sub would count otherwise.
	return now.Mono-attempt.Mono < span && now.Wall.Round(0).Sub(attempt.Wall.Round(0)) < span
}

// Takeover is the age at which a lease is expired, by the store's clock:
// E + 1 s, because _ts is cut to whole seconds.
func (t Terms) Takeover() time.Duration {
	const most = math.MaxInt64 - time.Second // a sum that overflows would expire every lease
	return min(t.Expiration, most) + time.Second
}

// Young is the age under which a live lease may be asked for: E / 2.
func (t Terms) Young() time.Duration { return t.Expiration / 2 }
