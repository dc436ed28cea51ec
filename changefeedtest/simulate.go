package changefeedtest

import (
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/hook"
	"github.com/changefeed-go/changefeed/internal/simulation"
	"github.com/changefeed-go/changefeed/lease"
)

// Simulation configures one run under faults. Either Handler or Observer is required; a
// zero field means its default.
type Simulation struct {
	// Seed determines the run: how many hosts and partitions there are, when hosts join,
	// leave, crash and pause, which requests are slow, lost, refused or late, and which
	// batches fail. The same seed gives the same run.
	Seed uint64
	// Handler returns a host's handler. It is called once per host, with the host's name
	// (h1, h2, ...), and a host that joins after a crash has a new one.
	//
	// Since nothing can stop a goroutine, a crash does not stop a handler call in progress,
	// but its result is ignored, as if the host had died first. The handler runs in the
	// bubble's fake time and must not wait for anything outside the bubble.
	Handler func(host string) changefeed.Handler
	// Observer returns the observer of a worker, which is the processor's work on one lease.
	// It is called with the name of the host whenever that host begins to work on a lease. A
	// crashed host starts no further method of its observers, Close included. What is said
	// about crashes and fake time at Handler holds for observers, too.
	Observer func(host string, l lease.Lease) (changefeed.Observer, error)
	// Document returns the n-th document to write, from 1, and its partition key. The
	// document's "id" must be a string. An id that was used before writes a new version
	// of that item. If nil, the documents are {"id": "item-N", "pk": "key-M"}. About a
	// third of them are new versions of earlier items.
	Document func(n int) (key feed.PartitionKey, document map[string]any)
	// Mode is the change feed's mode. The default is latest version mode.
	Mode feed.Mode
	// Checkpoint is as in [changefeed.Config]. If Manual is set, the handler calls
	// [changefeed.Batch.Checkpoint]. The default is a checkpoint after every batch.
	Checkpoint changefeed.Checkpointing
}

// Report contains a simulation's statistics. Check, for instance, that runs over many
// seeds had redeliveries at all.
type Report struct {
	// Hosts, Partitions, Changes, Splits, Crashes and Faults are counts. Partitions is
	// the number at the start. Splits includes merges.
	Hosts, Partitions, Changes, Splits, Crashes, Faults int
	// Moves counts how often a lease got another owner.
	Moves int
	// Redelivered counts the changes that were delivered after they had been handled, which
	// may happen because delivery is at least once.
	Redelivered int
	// Time is how much fake time the run took.
	Time time.Duration
}

// Simulate runs a simulation in a testing/synctest bubble of its own. When it returns,
// all hosts have stopped, and some host's handler has returned nil for every change (in
// all versions and deletes mode, for every change since the first host started). Changes
// with one partition key arrive in order, and may arrive again after a crash. What the
// handlers made of them is for the caller to check.
//
// If the processor violates a guarantee, the test fails with the seed and a trace of the
// run.
func Simulate(t *testing.T, s Simulation) Report {
	t.Helper()
	switch {
	case s.Handler == nil && s.Observer == nil:
		t.Fatal("Simulation has neither a Handler nor an Observer; set one of them")
	case s.Handler != nil && s.Observer != nil:
		t.Fatal("Simulation has a Handler and an Observer; set only one of them")
	}
	return Report(simulation.Run(t, simulation.Options(s)))
}

// Seed makes a processor's jitter, and the random suffix of its name in leases,
// reproducible. Reach for it when a test compares logs or lease documents. Two running
// processors with the same [changefeed.Config.Instance] must not share a seed. With a
// seed of zero, both are random, as without Seed.
func Seed(cfg *changefeed.Config, n uint64) { hook.SetSeed(cfg, n) }
