package protocol

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

func TestJudgeReturnsTheVerdictsOfTheTable(t *testing.T) {
	me, other := NewOwner("me", 0x11111111), NewOwner("other", 0x22222222)
	conflict := func(owner string, at feed.Continuation) error {
		return fmt.Errorf("wrapped: %w", &lease.ConflictError{Current: lease.Lease{Owner: owner, Continuation: at}})
	}
	for _, c := range []struct {
		name        string
		err         error
		acked, sent feed.Continuation
		want        Verdict
	}{
		{"success", nil, "7", "8", Applied},
		{"the write had succeeded", conflict(me, "8"), "7", "8", Mine},
		{"properties were written before it", conflict(me, "7"), "7", "8", Mine},
		{"a renewal had succeeded", conflict(me, "7"), "7", "7", Mine},
		{"no position yet", conflict(me, ""), "", "8", Mine},
		{"a first position", conflict(me, "8"), "", "8", Mine},
		{"an operator moved it", conflict(me, "3"), "7", "8", Moved},
		{"an operator erased it", conflict(me, ""), "7", "8", Moved},
		{"another of our hosts owns it", conflict(other, "8"), "7", "8", Lost},
		{"a foreign host stole it", conflict("WORKER-7", "7"), "7", "8", Lost},
		{"a foreign host cleared the owner", conflict("", "7"), "7", "8", Lost},
		{"my name, another run", conflict(NewOwner("me", 0x99999999), "7"), "7", "8", Lost},
		{"deleted", fmt.Errorf("wrapped: %w", feed.ErrNotFound), "7", "8", Absent},
		{"throttled", fmt.Errorf("wrapped: %w", &feed.ThrottledError{}), "7", "8", Refused},
		{"timeout", context.DeadlineExceeded, "7", "8", Unknown},
		{"anything else", errors.New("503"), "7", "8", Unknown},
	} {
		got, current := Judge(c.err, me, c.acked, c.sent)
		if got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
		if c.want == Mine && current.Owner != me {
			t.Errorf("%s: the document is missing", c.name)
		}
	}
	if got, _ := Judge(conflict("", ""), "", "", ""); got != Lost {
		t.Errorf("a free lease and an empty owner text: %s", got)
	}
}
