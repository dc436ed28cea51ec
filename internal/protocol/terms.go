package protocol

import (
	"math"
	"time"
)

// Reading is one reading of a host's two clocks. The clocks differ after a suspend, which
// stops the monotonic clock, and after a change of the wall clock. Trust ends when either
// clock reaches the end.
type Reading struct {
	// Mono is the monotonic clock. It counts from any fixed moment of the process.
	Mono time.Duration
	// Wall is the wall clock. Its monotonic part is ignored.
	Wall time.Time
}

// Terms are the durations that all hosts of one processor share.
type Terms struct {
	// Expiration (E) is the time for which a lease stays live after its owner's last
	// write.
	Expiration time.Duration
	// Acquire is the time between two regular listings. A gap counts only while listings
	// are at most two such times apart.
	Acquire time.Duration
}

// Margin (M) returns the time by which an owner's trust ends before the expiration:
// max(E/10, 2 s). It covers the drift of two clocks during E. It also covers the
// difference between the clock that stamps _ts and the clock that returns Now.
func (t Terms) Margin() time.Duration { return max(t.Expiration/10, 2*time.Second) }

// Trusted reports whether a host may still use a lease. attempt was read at the start of
// the last successful write. The answer is true if less than E - M has passed by both
// clocks.
func (t Terms) Trusted(attempt, now Reading) bool {
	span := t.Expiration - t.Margin()
	// Round(0) strips the monotonic reading of Wall, which Sub would otherwise use.
	return now.Mono-attempt.Mono < span && now.Wall.Round(0).Sub(attempt.Wall.Round(0)) < span
}

// Takeover returns the age at which a lease has expired by the store's clock. It is E + 1
// s, because _ts is in whole seconds.
func (t Terms) Takeover() time.Duration {
	const most = math.MaxInt64 - time.Second // without this limit the sum would overflow and expire every lease
	return min(t.Expiration, most) + time.Second
}

// Live reports whether a host may be working on a lease. written is when the document was last
// written, and now what the store's clock shows, or zero if the store has none. Any owner counts
// then, because a dead one cannot be recognised.
func (t Terms) Live(owner string, written, now time.Time) bool {
	return owner != "" && (now.IsZero() || now.Sub(written) < t.Takeover())
}

// Young returns the age below which another host may want a live lease: E / 2.
func (t Terms) Young() time.Duration { return t.Expiration / 2 }
