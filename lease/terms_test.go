package lease

import (
	"math"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// TestTrustEndsByEitherClock: E 60 s, M 6 s, so trust lasts for less than 54 s.
func TestTrustEndsByEitherClock(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name       string
		mono, wall time.Duration // since the attempt was started
		trusted    bool
	}{
		{"at once", 0, 0, true},
		{"just before the end", 54*s - 1, 54*s - 1, true},
		{"at the end", 54 * s, 54 * s, false},
		{"suspended: the monotonic clock stood still", 2 * s, time.Hour, false},
		{"suspended to just before the end", 2 * s, 54*s - 1, true},
		{"frozen together with both clocks: nothing is noticed here", 3 * s, 3 * s, true},
		{"somebody set the wall clock forward", 3 * s, 24 * time.Hour, false},
		{"somebody set the wall clock back", 3 * s, -24 * time.Hour, true},
		{"set back, and time is over", 54 * s, -24 * time.Hour, false},
	} {
		attempt := Reading{Mono: 7 * time.Minute, Wall: noon}
		now := Reading{Mono: attempt.Mono + c.mono, Wall: noon.Add(c.wall)}
		if times.Trusted(attempt, now) != c.trusted {
			t.Errorf("%s: trusted is %t", c.name, !c.trusted)
		}
	}
}

func TestTrustIsOverBeforeAnybodyMayTakeTheLease(t *testing.T) {
	for e := 3 * time.Second; e < 5*time.Minute; e += time.Second {
		terms := Terms{Expiration: e}
		if m := terms.Margin(); m < 2*time.Second || m < e/10 {
			t.Errorf("with E %v the margin is %v", e, m)
		}
		// The owner started its write late in a second of the store's clock; the
		// taker judges at the first moment of one. Clocks drift apart by the margin.
		written := noon.Add(999_999_999)
		stamped := written.Truncate(time.Second)
		taken := stamped.Add(terms.Takeover())
		drift := terms.Margin()
		if end := written.Add(e - terms.Margin() + drift); end.After(taken) {
			t.Errorf("with E %v trust ends at %v and the lease is taken at %v", e, end, taken)
		}
	}
}

func TestJudgeOfConflicts(t *testing.T) {
	at := func(owner string, c feed.Continuation) Lease { return Lease{Owner: owner, Continuation: c} }
	for _, c := range []struct {
		name        string
		current     Lease
		acked, sent feed.Continuation
		want        Verdict
	}{
		{"the write had arrived", at(me, "8"), "7", "8", Mine},
		{"somebody wrote properties before it", at(me, "7"), "7", "8", Mine},
		{"a renewal had arrived", at(me, "7"), "7", "7", Mine},
		{"no position yet", at(me, ""), "", "8", Mine},
		{"a first position", at(me, "8"), "", "8", Mine},
		{"an operator moved it", at(me, "3"), "7", "8", Moved},
		{"an operator erased it", at(me, ""), "7", "8", Moved},
		{"another of ours has it", at(other, "8"), "7", "8", Lost},
		{"a foreign host stole it", at("WORKER-7", "7"), "7", "8", Lost},
		{"a foreign host cleared the owner", at("", "7"), "7", "8", Lost},
		{"my name, another run", at(NewOwner("me", 0x99999999), "7"), "7", "8", Lost},
	} {
		if got := Judge(c.current, me, c.acked, c.sent); got != c.want {
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
	if got := Judge(Lease{}, "", "", ""); got != Lost {
		t.Errorf("nobody's lease without an owner text is %v", got)
	}
}

// A sum that overflows would expire every lease, and live ones would be taken.
func TestTheLongestExpirationExpiresNoLease(t *testing.T) {
	if age := (Terms{Expiration: math.MaxInt64}).Takeover(); age != math.MaxInt64 {
		t.Errorf("a lease is expired at the age %s", age)
	}
}
