package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// instants gives each party of a run a lattice of instants of its own, so that what two
// parties do never happens at the same instant.
//
// Without it, a seed could run differently twice: testing/synctest wakes the goroutines of
// one instant in any order, so the scheduler would decide whether a host's write arrives
// before or after the operator crashes the host. On the lattices, instants of different
// parties differ by construction. Two goroutines of one party may still wait for the same
// instant. They then continue a nanosecond apart, in the order of their names.
//
// The timers of the processor under test are not on a lattice. They begin at instants that
// are, and nearly all of them have jitter down to the nanosecond.
type instants struct {
	origin time.Time

	mu    sync.Mutex                 // guards the fields below
	due   map[time.Duration][]string // the names of the goroutines that have reserved an instant
	swept time.Duration              // when past instants were last removed
}

// The lattices repeat every latticePeriod. Each party owns turnsEach consecutive
// nanoseconds of it: one for each goroutine that may wait for the same instant.
const (
	latticePeriod = 1024
	turnsEach     = 8
	parties       = latticePeriod / turnsEach
)

// These are the parties besides the hosts. Our hosts have the numbers from 1 on, and
// foreign hosts those from foreignParty on.
const (
	storeParty     = 0 // the embedded store, whose purges begin at multiples of their interval
	foreignParty   = 96
	readerParty    = parties - 3
	estimatorParty = parties - 2
	operatorParty  = parties - 1 // the run: its events, writes, and everything that an operator does
)

// partyOfHost returns the party of our host with number n, which begins at 1.
func partyOfHost(n int) int {
	if n >= foreignParty {
		panic(fmt.Sprintf("a run may have %d hosts", foreignParty-1))
	}
	return n
}

func newInstants(origin time.Time) *instants {
	return &instants{origin: origin, due: map[time.Duration][]string{}}
}

// reserve registers that the goroutine with the given name waits for an instant of its
// party's lattice, about d from now. It returns that instant.
func (i *instants) reserve(party int, name string, d time.Duration) time.Duration {
	if party >= parties {
		panic(fmt.Sprintf("the run has no instants for party %d; it may have %d parties", party, parties))
	}
	now := time.Since(i.origin)
	slot := time.Duration(party * turnsEach)
	at := (now+d)/latticePeriod*latticePeriod + slot
	for at <= now {
		at += latticePeriod
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.due[at] = append(i.due[at], name)
	if now-i.swept > time.Minute {
		i.swept = now
		maps.DeleteFunc(i.due, func(at time.Duration, _ []string) bool { return at < now-latticePeriod })
	}
	return at
}

// turn returns how long the goroutine waits beyond the instant that it has reserved, so
// that others whose names come first continue before it. A goroutine that does not come,
// because its wait was ended before, keeps its place: whether another one reserves the
// instant before or after that end may be up to the scheduler.
func (i *instants) turn(at time.Duration, name string) (wait time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, other := range i.due[at] {
		if other < name {
			wait++
		}
	}
	if wait >= turnsEach {
		panic(fmt.Sprintf("%s waits for an instant of another party, because of %q", name, i.due[at]))
	}
	return wait
}

// wait waits for about d, until an instant of the party's lattice. It returns earlier if
// done or dead is closed. Both may be nil.
func (i *instants) wait(done, dead <-chan struct{}, party int, name string, d time.Duration) {
	at := i.reserve(party, name, d)
	timer := time.NewTimer(at - time.Since(i.origin))
	defer timer.Stop()
	select {
	case <-timer.C:
		time.Sleep(i.turn(at, name))
	case <-done:
	case <-dead:
	}
}

// disturb lets other goroutines run first, if the world is disturbed. A run that depends on
// the scheduler then goes differently each time, and TestSeedRepeatsItself notices.
func (w *world) disturb() {
	if w.disturbed {
		for range rand.IntN(6) {
			runtime.Gosched()
		}
	}
}

// sleep makes a goroutine of the run itself wait for about d.
func (w *world) sleep(name string, d time.Duration) {
	w.instants.wait(nil, nil, operatorParty, name, d)
}
