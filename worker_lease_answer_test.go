package changefeed

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

func TestJudgeReturnsTheOutcomesOfTheTable(t *testing.T) {
	conflict := func(owner string, at feed.Continuation) error {
		return fmt.Errorf("wrapped: %w", &lease.ConflictError{Current: lease.Lease{Owner: owner, Continuation: at}})
	}
	for _, c := range []struct {
		name string
		err  error
		want outcome
	}{
		{"success", nil, applied},
		{"mine, at the acknowledged position", conflict("me", "1"), mine},
		{"mine, at the position just sent", conflict("me", "2"), mine},
		{"mine, at a position I never sent", conflict("me", "3"), moved},
		{"another owner", conflict("you", "1"), taken},
		{"nobody", conflict("", "1"), taken},
		{"deleted", fmt.Errorf("wrapped: %w", feed.ErrNotFound), absent},
		{"throttled", fmt.Errorf("wrapped: %w", &feed.ThrottledError{}), refused},
		{"timeout", context.DeadlineExceeded, unknown},
		{"anything else", errors.New("503"), unknown},
	} {
		got, current := judge(c.err, "me", "1", "2")
		if got != c.want {
			t.Errorf("%s: outcome %d, want %d", c.name, got, c.want)
		}
		if c.want == mine && current.Owner != "me" {
			t.Errorf("%s: the document is missing", c.name)
		}
	}
}
