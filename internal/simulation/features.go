package simulation

import (
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
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
	// users reports whether runs of a user's handler have the feature, too.
	users bool
	// counted reports whether the run counts how often the feature occurred, by
	// world.occurs. The other features occur once in each seed that has them.
	counted bool
	// mutant is the name of the mutant that the seeds with the feature find.
	mutant string
	set    func(s *scenario, d *draw)
}

// need is a condition that a seed must meet to have a feature.
type need struct {
	text string
	met  func(s *scenario) bool
}

// These are the needs of features.
var (
	inMemory        = need{"data in memory", func(s *scenario) bool { return s.plan.where == inProcess && !s.has(onStore) }}
	storeData       = need{"the embedded store", func(s *scenario) bool { return s.has(onStore) }}
	hierarchical    = need{"hierarchical keys", func(s *scenario) bool { return s.has(hierarchicalKeys) }}
	overNoHTTP      = need{"no HTTP", func(s *scenario) bool { return s.plan.where == inProcess }}
	onlyOurs        = need{"no hosts of .NET or Java", func(s *scenario) bool { return len(s.foreign) == 0 }}
	storeTime       = need{"a lease store that returns its time", func(s *scenario) bool { return !s.has(noStoreClock) }}
	noDeletes       = need{"no deleted leases", func(s *scenario) bool { return !s.has(deletedLeases) }}
	allFaults       = need{"all kinds of faults", func(s *scenario) bool { return s.faultLevel == rough }}
	allVersionsMode = need{"all versions and deletes mode", func(s *scenario) bool { return s.mode == feed.AllVersionsAndDeletes }}
	latestMode      = need{"latest version mode", func(s *scenario) bool { return s.mode == feed.LatestVersion }}
	manualOnes      = need{"manual checkpoints", func(s *scenario) bool { return s.checkpoint.Manual }}
	noManual        = need{"no manual checkpoints", func(s *scenario) bool { return !s.checkpoint.Manual }}
	startNow        = need{"a start from now", func(s *scenario) bool { return s.startKind == feed.StartNow }}
	wideLeases      = need{"no leases of handleChanges", func(s *scenario) bool { return s.dialect != lease.JavaHandleChanges }}
	startTime       = need{"a start time", func(s *scenario) bool { return s.startKind == feed.StartTime }}
	anyPartitions   = need{"no continuation as the start", func(s *scenario) bool { return s.startKind != feed.StartContinuation }}
	dotNetLease     = need{".NET's lease dialect", func(s *scenario) bool { return s.dialect == lease.DotNet }}
	withForeign     = need{"hosts of .NET and Java", func(s *scenario) bool { return len(s.foreign) > 0 }}
	withLetters     = need{"letters", func(s *scenario) bool { return s.has(lettersOfHosts) }}
	lateOnes        = need{"late checkpoints", func(s *scenario) bool { return s.has(lateCheckpoints) }}
)

// features is the table of all features. The order matters: a feature's needs may ask for
// features before it.
var features = []feature{
	// The mode of the change feed. Many features need one of the two modes.
	{
		name: allVersions, share: 0.25, mutant: "322-dropped-delete",
		text: "The change feed has all versions and deletes, but starts now.",
		set:  func(s *scenario, _ *draw) { s.mode, s.startKind = feed.AllVersionsAndDeletes, feed.StartNow },
	},

	// Hosts of other implementations. Many features need that there are none.
	{
		name: foreignHosts, share: 0.2, mutant: "05-no-wait-after-a-steal",
		text: "Hosts of .NET and Java join. They take leases from live hosts, release leases before their handlers end, write old positions back, and remove properties.",
		set:  func(s *scenario, d *draw) { s.drawForeign(d) },
	},
	{
		name: overwrittenLeases, share: 0.4, needs: []need{withForeign}, counted: true, mutant: "400-older-document-is-written-over",
		text: "After a split, a .NET host writes the leases that it created without a condition, so that it takes them back from other hosts, writes older positions, and removes properties.",
		set:  func(s *scenario, d *draw) { s.addOverwriter(d) },
	},

	// Engines.
	{
		name: onStore, share: 1.0 / storeEvery, needs: []need{overNoHTTP}, mutant: "60-page-cuts-a-transaction",
		text: "The data is in the embedded store, in process.",
		set:  func(s *scenario, _ *draw) { s.offset, s.rate = 0, 0 },
	},
	{
		name: powerLosses, share: 0.67, needs: []need{allFaults, storeData}, counted: true, mutant: "63-acknowledged-before-the-sync",
		text: "The store loses everything that it has not synced, and is opened again.",
		set:  func(s *scenario, d *draw) { s.add(d, d.between(1, 2), eventPowerLoss, 0, 0.95) },
	},
	{
		name: noStoreClock, share: 0.05, needs: []need{inMemory}, users: true, mutant: "01-no-margin",
		text: "The lease store does not return its time, so hosts measure a lease's age by their own clocks.",
		set:  func(s *scenario, _ *draw) { s.clockless = true },
	},

	// Leases.
	{
		name: latestVersionLeases, share: 0.15, needs: []need{onlyOurs}, users: true, mutant: "431-java-range-lease-of-a-partition",
		text: "The leases have Java's dialect handleLatestVersionChanges.",
		set:  func(s *scenario, _ *draw) { s.dialect = lease.JavaLatestVersion },
	},
	{
		name: handleChangesLeases, share: 0.2, needs: []need{onlyOurs, inMemory, dotNetLease, latestMode}, users: true, mutant: "432-leases-stay-without-ranges",
		text: "The leases have Java's dialect handleChanges, which supports no merges.",
		set:  func(s *scenario, _ *draw) { s.dialect = lease.JavaHandleChanges },
	},
	{
		name: tornListings, share: 1, needs: []need{allFaults}, users: true, counted: true, mutant: "433-gap-healed-at-once",
		text: "A listing shows some leases at one moment, but the others at a later one.",
		set:  func(s *scenario, d *draw) { s.odds.torn = 0.1 * d.float() },
	},
	{
		name: leaseOutages, share: 0.3, needs: []need{allFaults}, users: true, counted: true, mutant: "39-throttled-is-lost",
		text: "The lease store cannot be reached for a time.",
		set:  func(s *scenario, d *draw) { s.add(d, 1, eventLeaseOutage, 0, 0.8) },
	},
	{
		name: editedLeases, share: 0.67, needs: []need{allFaults}, users: true, counted: true, mutant: "44-foreign-properties-dropped",
		text: "Another tool writes a property to a lease.",
		set:  func(s *scenario, d *draw) { s.add(d, d.between(1, 2), eventEdit, 0, 0.95) },
	},
	{
		// A handleChanges host stops if its only lease is deleted, because that looks
		// like an upgrade by a Java host.
		name: deletedLeases, share: 0.35, needs: []need{allFaults, latestMode, wideLeases}, users: true, counted: true, mutant: "14-healing-at-once",
		text: "An operator deletes a lease document.",
		set:  func(s *scenario, d *draw) { s.add(d, 1, eventDeleteLease, 0, 0.9) },
	},

	// Handlers and checkpoints.
	{
		name: manualCheckpoints, share: 0.25, mutant: "12-children-at-the-last-read",
		text: "Handlers checkpoint some batches themselves.",
		set:  func(s *scenario, _ *draw) { s.checkpoint.Manual = true },
	},
	{
		name: deferredCheckpoints, share: 0.2, needs: []need{noManual}, mutant: "33-release-without-position",
		text: "The processor checkpoints after a number of changes or an interval.",
		set:  func(s *scenario, d *draw) { s.checkpoint = drawDeferred(d) },
	},
	{
		name: lateCheckpoints, share: 0.75, needs: []need{manualOnes}, counted: true, mutant: "333-waiting-checkpoints-are-all-answered",
		text: "Other goroutines checkpoint batches after their handlers have returned.",
	},
	{
		name: checkpointsDuringCall, share: 0.5, needs: []need{lateOnes}, counted: true, mutant: "338-handler-waits-for-its-checkpoint",
		text: "Another goroutine checkpoints a batch while its handler runs, and some handlers wait for it.",
	},
	{
		name: checkpointsMinutesLater, share: 0.5, needs: []need{lateOnes}, counted: true, mutant: "334-due-counts-as-stored",
		text: "A goroutine checkpoints a batch minutes after its handler has returned.",
	},
	{
		name: checkpointsOutOfOrder, share: 0.5, needs: []need{lateOnes}, counted: true, mutant: "335-older-checkpoint-moves-the-position-back",
		text: "Several goroutines checkpoint one lease's batches at nearly the same time, in random order.",
	},
	{
		name: checkpointsAfterHandOver, share: 0.5, needs: []need{lateOnes}, counted: true, mutant: "336-checkpoint-after-the-hand-over-succeeds",
		text: "A goroutine checkpoints a batch after another host has acquired the lease.",
	},
	{
		name: checkpointsDuringSplit, share: 0.5, needs: []need{lateOnes}, counted: true, mutant: "260-split-undoes-a-checkpoint",
		text: "A goroutine checkpoints a batch while the host lists the partitions that replace a split one.",
	},
	{
		name: checkpointsAtClose, share: 0.4, needs: []need{manualOnes}, counted: true, mutant: "337-close-waits-for-its-checkpoint",
		text: "An observer checkpoints its last batch in its Close.",
	},
	{
		name: filters, share: 0.15, counted: true, mutant: "34-filter-stalls-checkpoints",
		text: "A filter hides every fourth item from the handlers.",
	},
	{
		name: failingHandlers, share: 0.7, needs: []need{allFaults}, users: true, counted: true, mutant: "32-failed-batch-is-done",
		text: "Handlers return errors, panic, or call runtime.Goexit.",
		set:  func(s *scenario, d *draw) { s.odds.fails, s.odds.panics = 0.05*d.float(), 0.01*d.float() },
	},
	{
		name: slowHandlers, share: 0.5, needs: []need{allFaults}, users: true, counted: true, mutant: "434-handler-delays-the-renewal",
		text: "Handlers take up to twice the expiration interval, and some ignore their context.",
		set:  func(s *scenario, d *draw) { s.odds.slow, s.odds.ignoresContext = 0.03*d.float(), 0.4*d.float() },
	},

	{
		name: failingOpens, share: 0.12, needs: []need{allFaults}, counted: true, mutant: "331-batch-after-a-failed-open",
		text: "Observers cannot be created or opened: the attempt returns an error, panics, or calls runtime.Goexit. For a time most attempts fail.",
		set: func(s *scenario, d *draw) {
			s.odds.open = 0.3 * d.float()
			s.add(d, d.between(1, 2), eventOpenOutage, 0, 0.9)
		},
	},
	{
		name: drainOff, share: 0.15, needs: []need{{"slow handlers", func(s *scenario) bool { return s.has(slowHandlers) }}}, counted: true, mutant: "332-drain-without-limit",
		text: "A stop ends the handlers' contexts at once, because the drain timeout is off.",
		set: func(s *scenario, d *draw) {
			s.times.drain = 0
			s.odds.slow += 0.05
			s.add(d, d.between(1, 3), eventLeave, 0.1, 0.9)
		},
	},

	// The change feed and its partitions.
	{
		name: waitingReads, share: 0.3, users: true, mutant: "435-waiting-read-delays-the-renewal",
		text: "Feed reads wait for changes, in every second run for up to three quarters of the expiration.",
		set: func(s *scenario, d *draw) {
			s.waits = true
			if d.chance(0.5) {
				s.times.poll = d.span(s.times.expiration/4, 3*s.times.expiration/4)
			}
		},
	},
	{
		name: continuationStart, share: 0.1, needs: []need{inMemory, startNow}, mutant: "372-continuation-start-is-now",
		text: "The feed starts after a continuation. Until the first lease exists, the container has one partition.",
		set: func(s *scenario, d *draw) {
			s.startKind, s.startLSN, s.partitions = feed.StartContinuation, int64(d.intn(20)), 1
		},
	},
	{
		name: timeToLive, share: 0.6, needs: []need{storeData}, counted: true, mutant: "380-write-of-an-expired-item-replaces-it",
		text: "Items expire. Writes set, change and remove the time to live of items, and some write an expired item again. A purge deletes expired items.",
		set:  (*scenario).drawLifetimes,
	},
	{
		name: feedRanges, share: 0.1, needs: []need{overNoHTTP, onlyOurs, wideLeases}, mutant: "373-lease-beyond-the-range",
		text: "The processor covers only a key range, whose borders may lie within partitions.",
		set: func(s *scenario, d *draw) {
			first := d.intn(feedCuts)
			s.cuts = [2]int{first, d.between(first, feedCuts-1)}
		},
	},
	{
		name: historyLosses, share: 0.3, needs: []need{overNoHTTP, allVersionsMode}, counted: true, mutant: "374-history-skipped-unasked",
		text: "The source drops changes after a retention, and all hosts are away for longer. A host may then skip the dropped changes, or reads again.",
		set:  (*scenario).dropChanges,
	},
	{
		name: unknownLSNs, share: 0.08, counted: true, mutant: "370-unknown-end-is-the-end",
		text: "The source does not report some pages' LSN, or the partition's end: they are -1.",
		set:  func(s *scenario, d *draw) { s.pages.noLSN, s.pages.noEnd = d.float(), d.float() },
	},
	{
		name: emptyPages, share: 0.1, counted: true, mutant: "371-empty-page-is-the-end",
		text: "The source returns an empty page though more changes follow. The page's position is where the read began, or later.",
		set:  func(s *scenario, d *draw) { s.pages.empty = 0.6 * d.float() },
	},
	{
		name: hierarchicalKeys, share: 0.08, needs: []need{overNoHTTP}, counted: true, mutant: "378-borders-of-two-components",
		text: "The partition keys have two or three components, and partitions split between keys that share the first ones.",
		set: func(s *scenario, d *draw) {
			s.levels = d.between(2, 3)
			s.add(d, d.between(1, 4), eventSplit, 0, 0.95)
			s.add(d, d.intn(3), eventMerge, 0, 0.95)
		},
	},
	{
		name: refusedStart, share: 0.5, needs: []need{inMemory, onlyOurs, startTime}, counted: true, mutant: "436-refused-start-without-a-bound",
		text: "The source refuses start times, so the processor reads from the beginning and discards older changes.",
		set:  func(s *scenario, _ *draw) { s.refuses = true },
	},
	{
		name: refusedMoves, share: 0.7, needs: []need{{"refused-start", func(s *scenario) bool { return s.has(refusedStart) }}}, mutant: "355-release-without-the-bound",
		text: "Hosts join, leave and crash, and partitions split and merge, until shortly after the refused start time.",
		set:  (*scenario).drawRefusedMoves,
	},
	{
		name: sourceOutages, share: 0.3, needs: []need{allFaults}, users: true, counted: true, mutant: "437-reads-end-after-five-failures",
		text: "The change feed cannot be reached for a time.",
		set:  func(s *scenario, d *draw) { s.add(d, 1, eventSourceOutage, 0, 0.8) },
	},

	// Splits and merges.
	{
		name: startMoves, share: 0.08, users: true, counted: true, mutant: "350-new-lease-without-children",
		text: "Partitions split and merge while hosts start: between the listings, creating the leases, and the marker.",
		set:  (*scenario).drawStartMoves,
	},
	{
		name: splitChains, share: 0.08, users: true, mutant: "351-a-split-has-three-children-at-most",
		text: "A partition splits, and its children split or merge before or while hosts handle the first split. Up to eight splits and eight merges happen.",
		set:  (*scenario).drawChains,
	},
	{
		name: mergedRanges, share: 0.08, users: true, mutant: "352-piece-cut-at-one-border",
		text: "Partitions merge, split and merge again, so that leases for ranges split and merge, and children merge back.",
		set:  (*scenario).drawMergedRanges,
	},
	{
		name: unattendedMoves, share: 0.06, needs: []need{onlyOurs}, users: true, counted: true, mutant: "353-one-piece-reaches-beyond",
		text: "Partitions split and merge while no host runs. Hosts join later.",
		set:  (*scenario).drawUnattended,
	},

	// Readers beside the processor.
	{
		name: estimates, share: 0.08, needs: []need{overNoHTTP}, counted: true, mutant: "401-versions-are-not-measured",
		text: "An estimator measures the hosts' lag, and its requests meet the same faults.",
	},
	{
		name: readers, share: 0.08, needs: []need{overNoHTTP}, counted: true, mutant: "402-part-of-a-partition-is-read-whole",
		text: "A feed.Reader follows the feed or a range, and meets the same faults. At times a new one resumes from a stored position.",
	},
	{
		name: prefixReaders, share: 0.4, needs: []need{hierarchical}, counted: true, mutant: "379-key-of-a-reader-is-dropped",
		text: "A feed.Reader follows a partition key, or the keys that share their first components.",
	},

	// Hosts.
	{
		name: refusedDeletes, share: 0.05, needs: []need{inMemory, onlyOurs, {"no deleted leases", func(s *scenario) bool { return !s.has(deletedLeases) }}}, counted: true, mutant: "358-left-over-child-beside-its-parent",
		text: "The lease store refuses every delete, as for a role without that right. Until the right is granted, split leases stay and their children wait.",
		set: func(s *scenario, d *draw) {
			s.remove(eventMerge)
			s.add(d, d.between(1, 3), eventSplit, 0, 0.9)
		},
	},
	{
		name: large, share: 0.03, needs: []need{inMemory, onlyOurs, anyPartitions}, mutant: "356-ten-hosts-at-most",
		text: "Up to 16 hosts share up to 32 partitions.",
		set:  (*scenario).drawLarge,
	},
	{
		name: manyTransactions, share: 0.012, needs: []need{inMemory, anyPartitions, {"not large", func(s *scenario) bool { return !s.has(large) }}}, mutant: "357-every-thousandth-transaction",
		text: "5,000 transactions are written to at most three partitions.",
		set:  (*scenario).drawManyTransactions,
	},
	{
		name: requestFaults, share: 1, needs: []need{allFaults}, users: true, counted: true, mutant: "438-unknown-write-counts-as-stored",
		text: "Requests are slow, throttled, refused or lost. A write arrives late or twice, or is applied although its answer is an error.",
		set:  func(s *scenario, d *draw) { s.odds.request = 0.24 * d.float() * d.float() },
	},
	{
		name: pauses, share: 0.75, needs: []need{allFaults}, users: true, counted: true, mutant: "02-trust-from-the-answer",
		text: "A host freezes, as a virtual machine does, and continues later.",
		set:  func(s *scenario, d *draw) { s.add(d, d.between(1, 3), eventPause, 0, 0.95) },
	},
	{
		name: differentHosts, share: 0.08, mutant: "330-expired-by-the-own-renew-interval",
		text: "The hosts have different intervals, page sizes and checkpoints, but the same expiration interval.",
	},
	{
		name: leaseLimits, share: 0.08, needs: []need{{"no refused deletes", func(s *scenario) bool { return !s.has(refusedDeletes) }}}, counted: true, mutant: "340-left-over-beyond-the-maximum",
		text: "Some hosts have a minimum or a maximum of leases. The feature occurs when all hosts have their maximum, so that leases have no owner until another host joins.",
	},
	{
		name: suspensions, share: 0.1, needs: []need{allFaults, overNoHTTP, onlyOurs}, counted: true, mutant: "375-suspension-is-not-counted",
		text: "A host is suspended, as a laptop is. Since its monotonic clock loses the time, its wall clock must end its trust.",
		set:  func(s *scenario, d *draw) { s.add(d, d.between(1, 3), eventSuspend, 0, 0.95) },
	},
	{
		name: hostClockJumps, share: 0.1, needs: []need{allFaults, overNoHTTP, onlyOurs}, counted: true, mutant: "376-wall-clock-is-ignored",
		text: "A host's wall clock jumps by up to ten minutes, forward or back.",
		set: func(s *scenario, d *draw) {
			s.addJumps(d, d.between(1, 4), eventHostClock, 10*time.Minute, 10*time.Minute)
		},
	},
	{
		// A backward jump makes changes older than the marker, from which a deleted lease
		// is healed.
		name: storeClockJumps, share: 0.12, needs: []need{allFaults, inMemory, onlyOurs, storeTime, noDeletes}, counted: true, mutant: "430-lease-of-the-future-is-expired",
		text: "The store's clock jumps, up to five minutes forward or two minutes back.",
		set: func(s *scenario, d *draw) {
			s.addJumps(d, d.between(1, 3), eventStoreClock, 2*time.Minute, 5*time.Minute)
		},
	},
	{
		name: discards, share: 0.12, needs: []need{overNoHTTP, onlyOurs, noDeletes, anyPartitions, {"no refused deletes", func(s *scenario) bool { return !s.has(refusedDeletes) }}}, counted: true, mutant: "345-start-now-after-a-discard",
		text: "All hosts stop or crash, and one starts with DiscardLeases. While a lease has a live owner, the start is refused and then repeated. The host may crash at any write.",
		set: func(s *scenario, d *draw) {
			s.add(d, 1, eventDiscard, 0.1, 0.5)
			if d.chance(0.5) {
				s.add(d, 1, eventDiscard, 0, 0.03) // in the first start
			}
		},
	},

	{
		name: parallelCalls, share: 0.35, needs: []need{noManual}, mutant: "1150-two-calls-for-one-key",
		text: "Hosts call the handler of a lease for up to 64 partition keys at the same time.",
	},

	{
		name: lettersOfHosts, share: 0.25, needs: []need{allFaults, noManual}, counted: true, mutant: "1180-position-passes-before-the-letter",
		text: "Handlers fail with some items at every attempt, until an item is mended, if it is, and hosts give those changes up after one to five attempts and write letters. The feature occurs when a letter is stored.",
		set: func(s *scenario, d *draw) {
			s.odds.poison, s.park = 0.1*d.float(), changefeed.ParkNone
		},
	},
	{
		name: parkedKeys, share: 0.75, needs: []need{withLetters}, counted: true, mutant: "1270-parked-change-overtakes",
		text: "Later changes of what is a letter become letters, too: those of its key or those of its item.",
		set: func(s *scenario, d *draw) {
			s.park = changefeed.ParkKey
			if d.chance(0.4) {
				s.park = changefeed.ParkItem
			}
		},
	},
	{
		name: redrivenLetters, share: 0.75, needs: []need{withLetters}, counted: true, mutant: "1271-redrive-is-forgotten",
		text: "An operator redrives letters, or drops the first one of a key. The feature occurs when the handler has handled a letter.",
		set: func(s *scenario, d *draw) {
			s.add(d, d.between(1, 6), eventRedrive, 0.1, 0.95)
			s.add(d, d.between(0, 2), eventDropLetter, 0.1, 0.95)
		},
	},

	// The results of handlers.
	{
		name: partialFailures, share: 0.3, needs: []need{allFaults, noManual}, counted: true, mutant: "1061-rest-of-a-batch-is-done",
		text: "Handlers report that they have handled only a part of a batch.",
		set:  func(s *scenario, d *draw) { s.odds.part = 0.1 * d.float() },
	},
	{
		name: stoppedLeases, share: 0.2, needs: []need{allFaults, onlyOurs}, counted: true, mutant: "1062-stop-is-forgotten-by-the-next-owner",
		text: "Handlers stop their leases, and an operator resumes them.",
		set:  func(s *scenario, d *draw) { s.odds.stop = 0.02 * d.float() },
	},
}
