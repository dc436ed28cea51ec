package changefeed

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// All handlers wait for their checkpoints, and these wait for changes that no call has begun
// with. The waiting calls must make room for others.
func TestHandlersThatWaitForCheckpointsBlockNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		source.writeKeys("0", keys(300, 100)...)
		h := newLanes(t, 300, each(time.Millisecond))
		checkpoints := 0
		h.fails = func(_ string, b *Batch) error {
			checkpoints++
			h.mu.Unlock()
			defer h.mu.Lock()
			err := b.Checkpoint(t.Context())
			return err
		}
		r, _ := idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning, Concurrency: 2, MaxItems: 100, Checkpoint: Checkpointing{Manual: true}})
		pause(10 * time.Second)
		if lsns, twice := h.handled(); len(lsns) != 300 || twice > 0 || checkpoints == 0 {
			t.Errorf("%d changes were handled, %d twice, with %d checkpoints", len(lsns), twice, checkpoints)
		}
		if err := r.end(); err != nil || leases.doc("0").Continuation != "300" {
			t.Errorf("Run returned %v, and the position is %s", err, leases.doc("0").Continuation)
		}
	})
}

// A batch cannot be checkpointed while an earlier one waits for a retry. Its changes are
// acknowledged all the same.
func TestCheckpointReportsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		source.writeKeys("0", "a", "bad", "c", "d")
		h := newLanes(t, 4, each(time.Second))
		var errs []error
		bad := errors.New("no")
		h.fails = func(key string, b *Batch) error {
			if key == "bad" && bad != nil {
				return bad
			}
			h.mu.Unlock()
			defer h.mu.Lock()
			if key == "d" {
				time.Sleep(10 * time.Second) // the failure is known before this call asks
			}
			errs = append(errs, b.Checkpoint(t.Context()))
			return nil
		}
		cfg := Config{
			Source: source, Handler: h, Start: fromBeginning, Concurrency: 4, MaxItems: 1, Checkpoint: Checkpointing{Manual: true},
			Failure: Failure{Delay: time.Minute},
		}
		idle(t, leases, cfg)
		pause(20 * time.Second)
		slices.SortFunc(errs, func(a, b error) int { return len(fmt.Sprint(a)) - len(fmt.Sprint(b)) })
		if len(errs) != 3 || errs[0] != nil || !errors.Is(errs[1], ErrGap) || !errors.Is(errs[2], ErrGap) {
			t.Errorf("the checkpoints of a, c and d returned %v", errs)
		}
		if at := leases.doc("0").Continuation; at != "1" {
			t.Errorf("the position is %s", at)
		}
		h.mu.Lock()
		bad = nil
		h.mu.Unlock()
		pause(2 * time.Minute)
		if at := leases.doc("0").Continuation; at != "4" {
			t.Errorf("after the retry, the position is %s", at)
		}
	})
}

// With manual checkpoints, the position passes no change that the user has not checkpointed,
// even if the handler has returned.
func TestManualCheckpointsOfSeveralCallsMoveThePositionWithoutGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		source.writeKeys("0", keys(20, 20)...)
		batches := make([]*Batch, 21)
		h := newLanes(t, 20, each(time.Millisecond))
		h.fails = func(_ string, b *Batch) error { batches[b.Changes[0].LSN] = b; return nil }
		idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning, Concurrency: 20, MaxItems: 1, Checkpoint: Checkpointing{Manual: true}})
		answers := make(chan int64, 20)
		for lsn := int64(20); lsn > 1; lsn-- {
			go func() {
				if err := batches[lsn].Checkpoint(t.Context()); err != nil {
					t.Errorf("LSN %d: %v", lsn, err)
				}
				answers <- lsn
			}()
		}
		pause(time.Minute)
		if at := leases.doc("0").Continuation; at != "" || len(answers) > 0 {
			t.Errorf("the position is %s, and %d checkpoints have returned", at, len(answers))
		}
		if err := batches[1].Checkpoint(t.Context()); err != nil {
			t.Error(err)
		}
		pause(time.Second)
		if at := leases.doc("0").Continuation; at != "20" || len(answers) != 19 {
			t.Errorf("the position is %s, and %d checkpoints have returned", at, len(answers))
		}
	})
}
