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

// Simulation configures one run of a handler under faults. Only Handler is required. The
// zero value of every other field is its default.
type Simulation struct {
	// Seed determines the run: the number of hosts and partitions, when hosts join,
	// leave, crash and pause, which requests are slow, lost, refused or late, and which
	// batches fail. The same seed gives the same run.
	Seed uint64
	// Handler returns the handler of one host. It is called once per host with the host's
	// name (h1, h2, ...). A host that joins after a crash has a new name. Handler is
	// required.
	//
	// A crash does not stop a handler call in progress, because nothing can stop a
	// goroutine. The result of that call is ignored, as if the host had died first. The
	// handler runs in the bubble's fake time and must not wait for anything outside the
	// bubble.
	Handler func(host string) changefeed.Handler
	// Document returns the n-th document to write, from 1, and its partition key. The
	// document's "id" must be a string. An id that was used before writes a new version
	// of that item. If nil, the documents are {"id": "item-N", "pk": "key-M"}. About a
	// third of them are new versions of earlier items.
	Document func(n int) (key feed.PartitionKey, document map[string]any)
	// Mode is the mode of the change feed. The default is latest version mode.
	Mode feed.Mode
	// Checkpoint is the field of [changefeed.Config]. If Manual is set, the handler calls
	// [changefeed.Batch.Checkpoint]. The default is a checkpoint after every batch.
	Checkpoint changefeed.Checkpointing
}

// Report contains statistics of a simulation.
type Report struct {
	// Hosts, Partitions, Changes, Splits, Crashes and Faults are counts. Partitions is
	// the number at the start. Splits includes merges.
	Hosts, Partitions, Changes, Splits, Crashes, Faults int
	// Moves is the number of times that a lease got another owner.
	Moves int
	// Redelivered is the number of deliveries of changes that had been handled before. It
	// can be positive, because delivery is at least once.
	Redelivered int
	// Time is the fake time that the run took.
	Time time.Duration
}

// Simulate runs a simulation in a testing/synctest bubble of its own. It returns when all
// hosts have stopped. By then every change was given to some host's handler, and the
// handler returned nil for it. In all versions and deletes mode, this holds for every
// change since the first host started. Changes of one partition key arrive in order, and
// after a crash they may arrive again. The caller checks the results of its handlers.
//
// If the processor violates a guarantee, the test fails with the seed and a trace of the
// run.
func Simulate(t *testing.T, s Simulation) Report {
	t.Helper()
	if s.Handler == nil {
		t.Fatal("Simulation.Handler is nil; it is required")
	}
	sc := newScenario(s.Seed, nil)
	sc.mode, sc.startKind, sc.checkpoint, sc.filter, sc.refuses = s.Mode, feed.StartBeginning, s.Checkpoint, false, false
	if s.Mode == feed.AllVersionsAndDeletes {
		sc.dialect = lease.DotNet // handleLatestVersion and handleChanges have no leases for this mode
		sc.startKind = feed.StartNow
		// A lease that is deleted by hand starts again from now, so versions are lost.
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

// defaultDocuments returns the function that creates documents if the user has none.
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

// tail returns the end of a long trace.
func tail(trace string) string {
	const most = 60_000
	if len(trace) <= most {
		return trace
	}
	return "...\n" + trace[len(trace)-most:]
}
