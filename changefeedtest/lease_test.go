package changefeedtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

type payment struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

func TestAHandlerWithManualCheckpointsIsTestedWithoutAProcessor(t *testing.T) {
	l := changefeedtest.NewLease(t)
	errBroke := errors.New("broke")
	var kept *changefeed.Batch
	sum := 0
	handler := changefeed.Batches(func(ctx context.Context, changes []changefeed.Change[payment], b *changefeed.Batch) error {
		for _, c := range changes {
			if c.Current.Amount < 0 {
				return errBroke
			}
			sum += c.Current.Amount
		}
		if kept = b; sum < 10 {
			return nil // later
		}
		return b.Checkpoint(ctx)
	})
	if err := l.Handle(handler, payment{"1", 3}, []byte(`{"id":"2","amount":4}`)); err != nil || l.Position() != 0 {
		t.Errorf("%v; the position is %d", err, l.Position())
	}
	if err := l.Handle(handler, payment{"3", -1}); !errors.Is(err, errBroke) || l.Position() != 0 {
		t.Errorf("%v; the position is %d", err, l.Position())
	}
	if kept.Attempt != 1 {
		t.Errorf("the first delivery is attempt %d", kept.Attempt)
	}
	if err := l.Handle(handler, payment{"4", 5}); err != nil || l.Position() != 4 || sum != 12 {
		t.Errorf("%v; the position is %d, and the sum %d", err, l.Position(), sum)
	}
	if err := l.Batch(feed.Change{LSN: 2, Current: []byte(`{"id":"0"}`)}).Checkpoint(t.Context()); err != nil || l.Position() != 4 {
		t.Errorf("an older checkpoint: %v; the position is %d", err, l.Position())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := l.Batch(payment{"5", 1}).Checkpoint(ended); !errors.Is(err, context.Canceled) || l.Position() != 4 {
		t.Errorf("with a context that has ended: %v; the position is %d", err, l.Position())
	}
	l.Lose()
	if err := kept.Checkpoint(t.Context()); !errors.Is(err, lease.ErrLost) {
		t.Errorf("after the loss: %v", err)
	}
	err := l.Handle(changefeed.HandlerFunc(func(ctx context.Context, _ *changefeed.Batch) error { return context.Cause(ctx) }), payment{"6", 1})
	if !errors.Is(err, lease.ErrLost) {
		t.Errorf("the context of a handler without a lease ends with %v", err)
	}
}

// A batch that a test makes by itself can be checkpointed, too.
func TestABatchOfNoLeaseCanBeCheckpointed(t *testing.T) {
	b := &changefeed.Batch{}
	if err := b.Checkpoint(t.Context()); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := b.Checkpoint(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
