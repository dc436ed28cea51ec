package simulation

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/lease"
)

// A handler calls Checkpoint with a context that does not end. The lease store cannot be
// reached, so the trust in the lease ends. Once the call never returned. Then the worker
// waited for its handler and the handler for the worker, and the host never acquired the
// lease again.
func TestCheckpointInAHandlerReturnsWhenTheLeaseIsLost(t *testing.T) {
	play(t, func(s *scene) {
		h := s.join("host")
		s.initialised()
		down := time.Now().Add(2 * s.times.expiration)
		s.setFaults(func(c call, _ *draw, f *fault) {
			if isLeaseOp(c.op) && time.Now().Before(down) {
				f.refusal = errUnavailable
			}
		})
		var lost []time.Duration
		s.setHandle(func(*simObserver, *changefeed.Batch, int) handling {
			return handling{takes: time.Millisecond, checkpoint: true, call: func(ctx context.Context, b *changefeed.Batch) error {
				if err := b.Checkpoint(context.WithoutCancel(ctx)); errors.Is(err, lease.ErrLost) {
					lost = append(lost, time.Until(down))
				}
				return nil
			}}
		})
		s.add(1)
		s.sleep(s.times.expiration)
		if len(lost) != 1 {
			t.Errorf("%d calls of Checkpoint returned ErrLost %s after the lease store went down; want 1", len(lost), s.times.expiration)
		}
		s.sleep(s.times.expiration + s.times.recovery())
		if s.owned(h) != 1 {
			t.Errorf("the host owns %d leases after the lease store came back; want 1", s.owned(h))
		}
	}, partitions(1), manual())
}

// The observer's Close checkpoints the last batch, as a user may who does not look at the
// reason. The partition is gone, so the position cannot move. Once the call never
// returned. Then the lease of the split partition was never deleted, and the leases of
// its children were never acquired.
func TestCheckpointInCloseReturnsWhenThePartitionIsGone(t *testing.T) {
	play(t, func(s *scene) {
		s.join("host")
		s.initialised()
		s.mu.Lock()
		s.atClose = func(*simObserver) bool { return true }
		s.mu.Unlock()
		s.setHandle(func(*simObserver, *changefeed.Batch, int) handling { return handling{takes: time.Millisecond} })
		s.add(5)
		s.sleep(2 * s.times.poll)
		s.setHandle(func(*simObserver, *changefeed.Batch, int) handling {
			return handling{takes: time.Millisecond, checkpoint: true}
		})
		s.split("0")
		s.sleep(s.times.recovery())
		if got, want := s.tokens(), "1 2"; got != want {
			t.Errorf("the leases are %s after the split; want %s", got, want)
		}
	}, partitions(1), manual())
}

// The function that creates observers returns a nil pointer and an error, which is a
// non-nil interface. Once the processor kept that pointer and called its Open.
func TestObserverIsCreatedAgainAfterAnError(t *testing.T) {
	play(t, func(s *scene) {
		first := nth(1)
		s.failsOpens(func(_ *host, _ lease.Lease, what string) opening {
			if what == "observer" && first() {
				return opening{err: errHandler}
			}
			return opening{}
		})
		s.join("host")
		s.initialised()
		s.add(1)
		s.sleep(2 * s.times.poll)
		if n := s.missing(); n > 0 {
			t.Errorf("%d changes are not handled", n)
		}
	}, partitions(1))
}
