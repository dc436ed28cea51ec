package simulation

import (
	"context"

	"github.com/changefeed-go/changefeed/lease"
)

// feature is one kind of configuration, event or fault that a seed may have. Every seed
// has hosts that join and leave, writes, splits, merges and, except in calm seeds,
// crashes. Features come on top.
//
// A feature draws from a stream of its own. So a new feature at the end of the table
// changes only the seeds that have it.
type feature struct {
	name string
	text string // what happens in a seed that has the feature
	// share is the share of the seeds that meet the needs.
	share float64
	needs []need
	// counted reports whether the run counts how often the feature occurred, by
	// world.occurs. The other features occur once in each seed that has them.
	counted bool
	// mutant is the name of the mutant that the seeds with the feature find.
	mutant string

	// These functions are called in seeds that have the feature. Each may be nil.
	set  func(s *scenario, d *draw) // draws the configuration and the events
	host func(r *run, h *host)      // changes the settings of a host that joins
	at   stages
}

// stages are what a feature does at the stages of a run.
type stages map[stage]func(*run, context.Context)

// stage is a moment of every run.
type stage int

// These are the stages, in their order.
const (
	whenOpened    stage = iota // the run begins, and nothing has been written
	whenPrepared               // the first changes have been written, and hosts may join
	whenActed                  // the events are over, but the faults are not
	whenCalm                   // the faults are over
	whenRecovered              // all keys should be covered again
	whenMended                 // what features have repaired since has been covered, too
	whenHandled                // all changes should have been handled
	whenLeft                   // all hosts have left
	whenEnded                  // nothing runs any more, and the engine is closed next
)

// reaches lets the features of the run act at a stage.
func (r *run) reaches(ctx context.Context, at stage) {
	for _, f := range r.scenario.plan.features {
		if act := f.at[at]; act != nil && r.scenario.has(f.name) {
			act(r, ctx)
		}
	}
}

// configure lets the features of the run change the settings of a host that joins.
func (r *run) configure(h *host) {
	for _, f := range r.scenario.plan.features {
		if f.host != nil && r.scenario.has(f.name) {
			f.host(r, h)
		}
	}
}

// need is a condition that a seed must meet to have a feature.
type need struct {
	text string
	met  func(s *scenario) bool
}

var allFaults = need{"all kinds of faults", func(s *scenario) bool { return s.faultLevel == rough }}

// features is the table of the features that the runs of users have. The seeds of this
// package's tests have more, which features_test.go lists.
//
// The order matters: a feature's needs may ask for features before it.
var features = []feature{
	// Leases.
	{
		name: latestVersionLeases, share: 0.15, mutant: "431-java-range-lease-of-a-partition",
		text: "The leases have Java's dialect handleLatestVersionChanges.",
		set:  func(s *scenario, _ *draw) { s.dialect = lease.JavaLatestVersion },
	},
	{
		name: tornListings, share: 1, needs: []need{allFaults}, counted: true, mutant: "433-gap-healed-at-once",
		text: "A listing shows some leases at one moment, but the others at a later one.",
		set:  func(s *scenario, d *draw) { s.odds.torn = 0.1 * d.float() },
		at:   stages{whenOpened: func(r *run, _ context.Context) { r.world.torn = r.torn }},
	},
	{
		name: leaseOutages, share: 0.3, needs: []need{allFaults}, counted: true, mutant: "39-throttled-is-lost",
		text: "The lease store cannot be reached for a time.",
		set:  func(s *scenario, d *draw) { s.add(d, 1, eventLeaseOutage, 0, 0.8) },
	},
	{
		name: editedLeases, share: 0.67, needs: []need{allFaults}, counted: true, mutant: "44-foreign-properties-dropped",
		text: "Another tool writes a property to a lease.",
		set:  func(s *scenario, d *draw) { s.add(d, d.between(1, 2), eventEdit, 0, 0.95) },
	},
	{
		name: deletedLeases, share: 0.35, needs: []need{allFaults}, counted: true, mutant: "14-healing-at-once",
		text: "An operator deletes a lease document.",
		set:  func(s *scenario, d *draw) { s.add(d, 1, eventDeleteLease, 0, 0.9) },
	},

	// Handlers and checkpoints.
	{
		name: failingHandlers, share: 0.7, needs: []need{allFaults}, counted: true, mutant: "32-failed-batch-is-done",
		text: "Handlers return errors, panic, or call runtime.Goexit.",
		set:  func(s *scenario, d *draw) { s.odds.fails, s.odds.panics = 0.05*d.float(), 0.01*d.float() },
	},
	{
		name: slowHandlers, share: 0.5, needs: []need{allFaults}, counted: true, mutant: "434-handler-delays-the-renewal",
		text: "Handlers take up to twice the expiration interval, and some ignore their context.",
		set:  func(s *scenario, d *draw) { s.odds.slow, s.odds.ignoresContext = 0.03*d.float(), 0.4*d.float() },
	},

	// The change feed and its partitions.
	{
		name: waitingReads, share: 0.3, mutant: "435-waiting-read-delays-the-renewal",
		text: "Feed reads wait for changes, in every second run for up to three quarters of the expiration.",
		set: func(s *scenario, d *draw) {
			s.waits = true
			if d.chance(0.5) {
				s.times.poll = d.span(s.times.expiration/4, 3*s.times.expiration/4)
			}
		},
	},
	{
		name: sourceOutages, share: 0.3, needs: []need{allFaults}, counted: true, mutant: "437-reads-end-after-five-failures",
		text: "The change feed cannot be reached for a time.",
		set:  func(s *scenario, d *draw) { s.add(d, 1, eventSourceOutage, 0, 0.8) },
	},

	// Splits and merges.
	{
		name: startMoves, share: 0.08, counted: true, mutant: "350-new-lease-without-children",
		text: "Partitions split and merge while hosts start: between the listings, creating the leases, and the marker.",
		set:  (*scenario).drawStartMoves,
		at:   stages{whenOpened: func(r *run, _ context.Context) { r.world.arrived = r.startMoves }},
	},
	{
		name: splitChains, share: 0.08, mutant: "351-a-split-has-three-children-at-most",
		text: "A partition splits, and its children split or merge before or while hosts handle the first split. Up to eight splits and eight merges happen.",
		set:  (*scenario).drawChains,
	},
	{
		name: mergedRanges, share: 0.08, mutant: "352-piece-cut-at-one-border",
		text: "Partitions merge, split and merge again, so that leases for ranges split and merge, and children merge back.",
		set:  (*scenario).drawMergedRanges,
	},
	{
		name: unattendedMoves, share: 0.06, counted: true, mutant: "353-one-piece-reaches-beyond",
		text: "Partitions split and merge while no host runs. Hosts join later.",
		set:  (*scenario).drawUnattended,
	},

	// Hosts.
	{
		name: requestFaults, share: 1, needs: []need{allFaults}, counted: true, mutant: "438-unknown-write-counts-as-stored",
		text: "Requests are slow, throttled, refused or lost. A write arrives late or twice, or is applied although its answer is an error.",
		set:  func(s *scenario, d *draw) { s.odds.request = 0.24 * d.float() * d.float() },
	},
	{
		name: pauses, share: 0.75, needs: []need{allFaults}, counted: true, mutant: "02-trust-from-the-answer",
		text: "A host freezes, as a virtual machine does, and continues later.",
		set:  func(s *scenario, d *draw) { s.add(d, d.between(1, 3), eventPause, 0, 0.95) },
	},
}
