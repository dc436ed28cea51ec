// Package simulation runs several hosts of the processor in fake time, under faults, and
// judges every step by the processor's guarantees. A seed determines everything.
// Package changefeedtest offers the simulation to users.
package simulation

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/seeded"
	"github.com/changefeed-go/changefeed/lease"
)

// Options are the fields of changefeedtest.Simulation, which describes them.
type Options struct {
	Seed       uint64
	Handler    func(host string) changefeed.Handler
	Observer   func(host string, l lease.Lease) (changefeed.Observer, error)
	Document   func(n int) (key feed.PartitionKey, document map[string]any)
	Mode       feed.Mode
	Checkpoint changefeed.Checkpointing
}

// Report contains the fields of changefeedtest.Report, which describes them.
type Report struct {
	Hosts, Partitions, Changes, Splits, Crashes, Faults int
	Moves                                               int
	Redelivered                                         int
	Time                                                time.Duration
}

// Run runs the user's handler or observer in a testing/synctest bubble of its own. If the
// processor violates a guarantee, the test fails with the seed and a trace of the run.
func Run(t *testing.T, o Options) Report {
	t.Helper()
	sc := newScenario(plan{seed: o.Seed, features: features, rules: rules})
	sc.mode, sc.startKind, sc.checkpoint = o.Mode, feed.StartBeginning, o.Checkpoint
	if o.Mode == feed.AllVersionsAndDeletes {
		sc.dialect = lease.DotNet // handleLatestVersion and handleChanges have no leases for this mode
		sc.startKind = feed.StartNow
		// A lease that is deleted by hand starts again from now, so versions are lost.
		sc.remove(eventDeleteLease)
	}
	sc.handler, sc.observer, sc.document = o.Handler, o.Observer, o.Document
	if sc.document == nil {
		sc.document = defaultDocuments(o.Seed)
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
		t.Errorf("seed %d: %s", o.Seed, v)
	}
	return Report{
		Hosts: r.hosts, Partitions: r.partitions, Changes: r.writes.changes, Splits: r.topology, Crashes: r.crashes,
		Faults: r.faults, Moves: r.moves, Redelivered: r.writes.redelivered, Time: r.simulated,
	}
}

// defaultDocuments returns the function that creates documents if the user has none.
func defaultDocuments(seed uint64) func(n int) (feed.PartitionKey, map[string]any) {
	d := newDraw(seed, 0, "documents")
	return func(n int) (feed.PartitionKey, map[string]any) {
		if d.chance(0.3) {
			n = 1 + d.intn(n)
		}
		key := fmt.Sprintf("key-%d", seeded.Mix(uint64(n))%50)
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
