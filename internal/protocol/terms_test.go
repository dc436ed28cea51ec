package protocol

import (
	"math"
	"testing"
	"time"
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	times = Terms{Expiration: 60 * time.Second, Acquire: 17 * time.Second}
)

// With an expiration of 60 s the margin is 6 s. Trust must end after 54 s, by whichever
// of the host's two clocks is first.
func TestTrustEndsByEitherClock(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name       string
		mono, wall time.Duration // the time since the attempt began, by each clock
		trusted    bool
	}{
		{"at once", 0, 0, true},
		{"just before the end", 54*s - 1, 54*s - 1, true},
		{"at the end", 54 * s, 54 * s, false},
		{"suspended: the monotonic clock stopped", 2 * s, time.Hour, false},
		{"suspended to just before the end", 2 * s, 54*s - 1, true},
		{"both clocks stopped: not detectable", 3 * s, 3 * s, true},
		{"the wall clock was set forward", 3 * s, 24 * time.Hour, false},
		{"the wall clock was set back", 3 * s, -24 * time.Hour, true},
		{"set back after the end", 54 * s, -24 * time.Hour, false},
	} {
		attempt := Reading{Mono: 7 * time.Minute, Wall: noon}
		now := Reading{Mono: attempt.Mono + c.mono, Wall: noon.Add(c.wall)}
		if times.Trusted(attempt, now) != c.trusted {
			t.Errorf("%s: trusted is %t", c.name, !c.trusted)
		}
	}
}

func TestTrustEndsBeforeAnotherHostMayAcquireTheLease(t *testing.T) {
	for e := 3 * time.Second; e < 5*time.Minute; e += time.Second {
		terms := Terms{Expiration: e}
		if m := terms.Margin(); m < 2*time.Second || m < e/10 {
			t.Errorf("with E %v the margin is %v", e, m)
		}
		// This is the worst case for Takeover. The owner writes at the end of a second of
		// the store's clock, and another host checks at the start of one. Meanwhile the
		// clocks drift apart by the margin.
		written := noon.Add(999_999_999)
		stamped := written.Truncate(time.Second)
		taken := stamped.Add(terms.Takeover())
		drift := terms.Margin()
		if end := written.Add(e - terms.Margin() + drift); end.After(taken) {
			t.Errorf("with E %v trust ends at %v and the lease is taken at %v", e, end, taken)
		}
	}
}

func TestLeaseIsLiveUntilItIsExpiredByTheStoresClock(t *testing.T) {
	terms := Terms{Expiration: time.Minute}
	for _, c := range []struct {
		name, owner string
		now         time.Time
		live        bool
	}{
		{"owned", "host", noon, true},
		{"owned for E and almost a second more", "host", noon.Add(time.Minute + time.Second - 1), true},
		{"expired", "host", noon.Add(time.Minute + time.Second), false},
		{"free", "", noon, false},
		{"owned, in a store without a clock", "host", time.Time{}, true},
		{"written after the listing", "host", noon.Add(-time.Hour), true},
	} {
		if terms.Live(c.owner, noon, c.now) != c.live {
			t.Errorf("%s: live is %t", c.name, !c.live)
		}
	}
}

// With the longest expiration, the sum in Takeover must not overflow. Otherwise every
// lease would count as expired, and hosts would acquire leases that others hold.
func TestTheLongestExpirationExpiresNoLease(t *testing.T) {
	if age := (Terms{Expiration: math.MaxInt64}).Takeover(); age != math.MaxInt64 {
		t.Errorf("a lease is expired at the age %s", age)
	}
}
