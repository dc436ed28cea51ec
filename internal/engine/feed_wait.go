package engine

import (
	"context"
	"sync"
	"time"
)

// signal wakes the readers that wait for a partition to change. It remembers
// the last LSN that was published, so that nobody sleeps through a change that
// came between its read and its wait.
type signal struct {
	mu   sync.Mutex    // guards all fields
	end  int64         // the partition's last published LSN
	gone bool          // retired, or deleted with its container
	ch   chan struct{} // made by the first waiter, closed by the next change
}

// advance tells of a published LSN.
func (s *signal) advance(end int64) { s.wake(end, false) }

// retire tells that the partition is gone.
func (s *signal) retire() { s.wake(0, true) }

func (s *signal) wake(end int64, gone bool) {
	s.mu.Lock()
	s.end = max(s.end, end)
	s.gone = s.gone || gone
	ch := s.ch
	s.ch = nil
	s.mu.Unlock()
	if ch != nil {
		close(ch)
	}
}

// beyond returns a channel that is closed when the partition changed after end;
// nil: it has.
func (s *signal) beyond(end int64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || s.end > end {
		return nil
	}
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// await blocks until the partition changed after end (true), d has passed
// (false), ctx ended or the store is closed (an error).
func (db *DB) await(ctx context.Context, s *signal, end int64, d time.Duration) (bool, error) {
	ch := s.beyond(end)
	if ch == nil {
		return true, nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ch:
		return true, nil
	case <-timer.C:
		return s.beyond(end) == nil, nil // both at the same instant: the change counts
	case <-ctx.Done():
		return false, ctx.Err()
	case <-db.closing:
		return false, ErrClosed
	}
}
