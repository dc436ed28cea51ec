package changefeed

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/seeded"
)

func TestPollingIsQuickAfterChangesAndSlowAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := onePartition(10)
		start(t, Config{Source: source, Leases: newFakeStore(), Handler: &collector{}, Start: fromBeginning, PollInterval: 8 * time.Second})
		pause(time.Second) // reads at 0, 0, 0.4, 0.8 s
		if n := len(source.requests()); n < 3 || n > 5 {
			t.Errorf("%d reads in the first second", n)
		}
		pause(40 * time.Second) // the delay is the whole interval after 32 s without changes
		if n := len(source.requests()); n < 15 || n > 23 {
			t.Errorf("%d reads until the interval was reached", n)
		}
		before := len(source.requests())
		pause(800 * time.Second)
		if n := len(source.requests()) - before; n < 99 || n > 101 {
			t.Errorf("%d reads in 800 s at rest", n)
		}
	})
}

// lateness records, for each change, the time from its write to the call of the handler.
type lateness struct {
	mu      sync.Mutex // guards the field all
	written []time.Time
	waited  []time.Duration
}

func (l *lateness) write(s *fakeSource) {
	l.mu.Lock()
	l.written = append(l.written, time.Now())
	l.mu.Unlock()
	s.write("0", 1)
}

func (l *lateness) Handle(_ context.Context, b *Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range b.Changes {
		l.waited = append(l.waited, time.Since(l.written[c.LSN-1]))
	}
	return nil
}

// percentile returns the delay within which a share p of the changes was handled. p is
// between 0 and 1.
func (l *lateness) percentile(p float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.waited)
	return l.waited[int(p*float64(len(l.waited)-1))]
}

// One change a second is written on average, either evenly or at random with gaps of four
// seconds and more. With default settings 99 in 100 changes must reach the handler within
// a second.
func TestOneWriteASecondIsHandledWithinASecondAt99Percent(t *testing.T) {
	const writes = 1000
	for name, gap := range map[string]func(n int) time.Duration{
		"evenly": func(int) time.Duration { return time.Second },
		"at random": func(n int) time.Duration {
			u := seeded.Float(seeded.Mix(seeded.Hash(uint64(n), "gap")))
			return time.Duration(-math.Log(1-u) * float64(time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, h := onePartition(0), &lateness{}
				start(t, Config{Source: source, Leases: newFakeStore(), Handler: h})
				pause(time.Minute) // no writes for a minute, so that the delay reaches its maximum
				before := len(source.requests())
				for n := range writes {
					pause(gap(n))
					h.write(source)
				}
				pause(10 * time.Second)
				if len(h.waited) != writes {
					t.Fatalf("%d of %d writes were handled", len(h.waited), writes)
				}
				if p99 := h.percentile(0.99); p99 > time.Second {
					t.Errorf("p99 is %s", p99)
				}
				t.Logf("p50 %s, p99 %s, %.1f reads per change", h.percentile(0.5), h.percentile(0.99),
					float64(len(source.requests())-before)/writes)
			})
		})
	}
}
