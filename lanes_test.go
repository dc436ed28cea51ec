package changefeed

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// lanes is a handler that records what it handles by key, and fails the test if two calls
// have the same key at a time, a key's changes come out of order, or too many calls are under
// way.
type lanes struct {
	t *testing.T
	// most is the largest number of calls at a time, and took returns how long a call lasts.
	// fails returns the error of a call, and may be nil.
	most  int
	took  func(key string) time.Duration
	fails func(key string, b *Batch) error

	mu sync.Mutex // guards the fields below
	// working has the keys whose changes are being handled. peak is the largest number of them.
	working map[string]bool
	peak    int
	// last has the last LSN of each key, and times how often each LSN was handled.
	last  map[string]int64
	times map[int64]int
}

func newLanes(t *testing.T, most int, took func(key string) time.Duration) *lanes {
	return &lanes{t: t, most: most, took: took, working: map[string]bool{}, last: map[string]int64{}, times: map[int64]int{}}
}

func each(d time.Duration) func(string) time.Duration { return func(string) time.Duration { return d } }

func (h *lanes) Handle(ctx context.Context, b *Batch) error {
	key, err := keyOf(b.Changes[0])
	for _, c := range b.Changes {
		if other, _ := keyOf(c); other != key || err != nil {
			h.t.Errorf("a batch has the keys %q and %q, %v", key, other, err)
		}
	}
	h.mu.Lock()
	if h.working[key] {
		h.t.Errorf("two calls at a time for %q", key)
	}
	h.working[key] = true
	h.peak = max(h.peak, len(h.working))
	if len(h.working) > h.most {
		h.t.Errorf("%d calls at a time", len(h.working))
	}
	h.mu.Unlock()
	ended := !sleep(ctx, h.took(key)*time.Duration(len(b.Changes)))
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.working, key)
	if ended {
		return context.Cause(ctx)
	}
	if h.fails != nil {
		if err := h.fails(key, b); err != nil {
			return err
		}
	}
	for _, c := range b.Changes {
		if c.LSN <= h.last[key] && h.times[c.LSN] == 0 {
			h.t.Errorf("LSN %d of %q comes after %d", c.LSN, key, h.last[key])
		}
		h.last[key] = max(h.last[key], c.LSN)
		h.times[c.LSN]++
	}
	return nil
}

// handled returns the LSNs that were handled, in order, and how many were handled twice.
func (h *lanes) handled() (lsns []int64, twice int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for lsn, n := range h.times {
		lsns = append(lsns, lsn)
		twice += n - 1
	}
	slices.Sort(lsns)
	return lsns, twice
}

// failFor makes the handler fail with err for a key until mended is called.
func (h *lanes) failFor(key string, err error) (mended func()) {
	h.fails = func(k string, _ *Batch) error {
		if k == key {
			return err
		}
		return nil
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.fails = nil
	}
}

// keyOf returns the key of a change of fakeSource.
func keyOf(c feed.Change) (string, error) {
	var key string
	_, err := fmt.Sscanf(string(c.Current), `{"id":%q`, &key)
	return key, err
}

// keys returns n keys, cycling through k different ones.
func keys(n, k int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("key-%d", i%k)
	}
	return all
}
