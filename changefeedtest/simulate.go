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

// Simulation configures one run of a handler or an observer under faults. Either Handler
// or Observer is required. The zero value of every other field is its default.
type Simulation struct {
	// Seed determines the run: the number of hosts and partitions, when hosts join,
	// leave, crash and pause, which requests are slow, lost, refused or late, and which
	// batches fail. The same seed gives the same run.
	Seed uint64
	// Handler returns the handler of one host. It is called once per host with the host's
	// name (h1, h2, ...). A host that joins after a crash has a new name.
	//
	// A crash does not stop a handler call in progress, because nothing can stop a
	// goroutine. The result of that call is ignored, as if the host had died first. The
	// handler runs in the bubble's fake time and must not wait for anything outside the
	// bubble.
	Handler func(host string) changefeed.Handler
	// Observer returns the observer of a worker, which is the processor's work on one
	// lease. It is called with the name of the host whenever that host begins to work on
	// a lease. A crashed host starts no further method of its observers, Close included.
	// The comment of Handler about crashes and fake time applies to observers, too.
	Observer func(host string, l lease.Lease) (changefeed.Observer, error)
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
	switch {
	case s.Handler == nil && s.Observer == nil:
		t.Fatal("Simulation has neither a Handler nor an Observer; set one of them")
	case s.Handler != nil && s.Observer != nil:
		t.Fatal("Simulation has a Handler and an Observer; set only one of them")
	}
	return Report(simulation.Run(t, simulation.Options(s)))
}

// Seed makes the jitter of a processor and the random suffix of its name in leases
// reproducible, for tests. Two running processors with the same Config.Instance must not
// share a seed. With a seed of zero, both are random, as without Seed.
func Seed(cfg *changefeed.Config, n uint64) { hook.SetSeed(cfg, n) }
