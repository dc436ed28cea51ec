package changefeedtest

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Simulation is one run of a handler under everything that can happen to a
// processor. The zero value of every field but Handler is its default.
type Simulation struct {
	// Seed decides what happens: how many hosts and partitions there are, when
	// hosts join, leave, crash and pause, which requests are slow, lost, refused
	// or arrive late, which batches fail. The same seed is the same run.
	Seed uint64
	// Handler makes the handler of one host. It is called once per host, whose
	// name (h1, h2, ...) it is given; a host that crashed comes back under a new
	// one. Required.
	//
	// A crash doesn't stop a call that is under way, since nothing can stop a goroutine;
	// but what the call returns is not counted, as if the host had died before it
	// could say so. The handler runs on the bubble's fake time, and must not wait
	// for anything outside of the bubble.
	Handler func(host string) changefeed.Handler
	// Document makes the n-th document that is written, from 1, with its
	// partition key. Its "id" is a text. The same id again is a new version.
	// Default: {"id": "item-N", "pk": "key-M"}, about a third of them new
	// versions of old items.
	Document func(n int) (key feed.PartitionKey, document map[string]any)
	// Mode is the change feed's. Default: latest version.
	Mode feed.Mode
	// Checkpoint is as in [changefeed.Config]; with Manual the handler calls
	// [changefeed.Batch.Checkpoint]. Default: after every batch.
	Checkpoint changefeed.Checkpointing
}

// Report tells what a simulation contained.
type Report struct {
	// Hosts, Partitions (at the start), Changes, Splits (merges included),
	// Crashes and Faults are counts.
	Hosts, Partitions, Changes, Splits, Crashes, Faults int
	// Moves is how often a lease came to another host.
	Moves int
	// Redelivered is how many changes were handled again after they had been
	// handled: at least once is not exactly once.
	Redelivered int
	// Time is how much fake time went by.
	Time time.Duration
}

// Simulate runs a handler in a simulation, in a testing/synctest bubble of its
// own, and returns when everything has come to rest and all hosts have stopped.
// Every change (in all versions and deletes mode: every change since the first
// host began) was then given to some host's handler, which returned nil for it,
// in the order of its partition key, and perhaps again after a crash. What the
// handlers made of it is the caller's to check.
//
// A violated promise of the processor is a test error, with the seed and the
// trace of what happened.
func Simulate(t *testing.T, s Simulation) Report {
	t.Helper()
	if s.Handler == nil {
		t.Fatal("a Simulation needs a Handler")
	}
	sc := newScenario(s.Seed, nil)
	sc.mode, sc.startKind, sc.checkpoint, sc.filter, sc.refuses = s.Mode, feed.StartBeginning, s.Checkpoint, false, false
	if s.Mode == feed.AllVersionsAndDeletes {
		sc.dialect = lease.DotNet // one of the others has no leases for this mode
		sc.startKind = feed.StartNow
		// A lease that is deleted by hand starts again from now, and versions are lost.
		sc.events = slices.DeleteFunc(sc.events, func(e event) bool { return e.kind == eventDeleteLease })
	}
	sc.handler, sc.document = s.Handler, s.Document
	if sc.document == nil {
		sc.document = defaultDocuments(s.Seed)
	}
	var r summary
	synctest.Test(t, func(t *testing.T) {
		r = sc.simulate(t.Context(), sc.memory(), true)
	})
	if len(r.violations) > 0 {
		t.Logf("\n%s", tail(r.trace))
		t.Error(sc)
	}
	for _, v := range r.violations {
		t.Errorf("seed %d: %s", s.Seed, v)
	}
	return Report{
		Hosts: r.hosts, Partitions: r.partitions, Changes: r.changes, Splits: r.topology, Crashes: r.crashes,
		Faults: r.faults, Moves: r.moves, Redelivered: r.redelivered, Time: r.simulated,
	}
}

// defaultDocuments are the documents of a simulation that brings none.
func defaultDocuments(seed uint64) func(n int) (feed.PartitionKey, map[string]any) {
	d := newDraw(seed, 0, "documents")
	return func(n int) (feed.PartitionKey, map[string]any) {
		if d.chance(0.3) {
			n = 1 + d.intn(n)
		}
		key := fmt.Sprintf("key-%d", mix(uint64(n))%50)
		return feed.PartitionKey{key}, map[string]any{"id": fmt.Sprintf("item-%d", n), "pk": key}
	}
}

// tail is the end of a long trace.
func tail(trace string) string {
	const most = 60_000
	if len(trace) <= most {
		return trace
	}
	return "...\n" + trace[len(trace)-most:]
}
