package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/internal/seeded"
)

// trace records the events of one run of a seed.
//
// Its hash doesn't depend on the order of entries of the same instant, because
// testing/synctest runs the goroutines of one instant in any order. The text of entries is
// kept only when the seed is replayed.
type trace struct {
	origin time.Time
	keep   bool

	mu      sync.Mutex // guards the fields below
	sum     uint64
	entries []traceEntry
}

type traceEntry struct {
	at    time.Duration
	actor string
	text  string
}

func newTrace(keep bool) *trace { return &trace{origin: time.Now(), keep: keep} }

// add records that actor did verb to object, with an outcome and a number.
func (t *trace) add(actor, verb, object, outcome string, n int64) {
	at := time.Since(t.origin)
	h := seeded.Mix(uint64(at) ^ seeded.Mix(seeded.Hash(0, actor)))
	h = seeded.Mix(h ^ seeded.Hash(0, verb))
	h = seeded.Mix(h ^ seeded.Hash(0, object))
	h = seeded.Mix(h ^ seeded.Hash(0, outcome) ^ uint64(n)*seeded.Golden)
	var text string
	if t.keep {
		text = fmt.Sprintf("%-9s %-10s %-24s %s", actor, verb, object, outcome)
		if n != 0 {
			text += fmt.Sprintf(" %d", n)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum += h
	if t.keep {
		t.entries = append(t.entries, traceEntry{at: at, actor: actor, text: text})
	}
}

// hash returns the hash of all entries so far.
func (t *trace) hash() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum
}

// String lists the kept entries in order of time.
func (t *trace) String() string {
	t.mu.Lock()
	entries := slices.Clone(t.entries)
	t.mu.Unlock()
	slices.SortStableFunc(entries, func(a, b traceEntry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.actor, b.actor), strings.Compare(a.text, b.text))
	})
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%14.6f %s\n", e.at.Seconds(), e.text)
	}
	return b.String()
}
