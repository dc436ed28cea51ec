package simulation

import (
	"context"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// These are the names of the features that only the tests' seeds have.
const (
	onStore             = "embedded-store"
	powerLosses         = "power-loss"
	noStoreClock        = "no-store-clock"
	handleChangesLeases = "java-handle-changes"
	manualCheckpoints   = "manual-checkpoints"
	deferredCheckpoints = "deferred-checkpoints"
	failingOpens        = "failing-open"
	parallelCalls       = "parallel-calls"
	lettersOfHosts      = "letters"
	parkedKeys          = "parked-keys"
	redrivenLetters     = "redriven-letters"
	allVersions         = "all-versions"
	timeToLive          = "time-to-live"
	continuationStart   = "continuation-start"
	historyLosses       = "history-loss"
	unknownLSNs         = "unknown-lsn"
	emptyPages          = "empty-pages"
	refusedStart        = "refused-start"
	refusedMoves        = "refused-start-moves"
	estimates           = "estimates"
	readers             = "readers"
	prefixReaders       = "prefix-readers"
	foreignHosts        = "foreign-hosts"
	overwrittenLeases   = "overwritten-leases"
	large               = "large"
	manyTransactions    = "many-transactions"
	differentHosts      = "different-hosts"
	leaseLimits         = "lease-limits"
	suspensions         = "suspensions"
	hostClockJumps      = "host-clock-jumps"
	storeClockJumps     = "store-clock-jumps"
	discards            = "discard"
)

// planOf returns the plan of a seed with all features, which all rules judge.
func planOf(seed uint64) plan { return plan{seed: seed, features: allFeatures, rules: allRules} }

// users returns a feature that the runs of users have, too. With the features of this
// table before it, it has more needs.
func users(name string, more ...need) feature {
	i := slices.IndexFunc(features, func(f feature) bool { return f.name == name })
	f := features[i]
	f.needs = slices.Concat(f.needs, more)
	return f
}

// These are the needs of features, besides allFaults.
var (
	inMemory        = need{"data in memory", func(s *scenario) bool { return !s.plan.overHTTP && !s.has(onStore) }}
	storeData       = need{"the embedded store", func(s *scenario) bool { return s.has(onStore) }}
	hierarchical    = need{"hierarchical keys", func(s *scenario) bool { return s.has(hierarchicalKeys) }}
	overNoHTTP      = need{"no HTTP", func(s *scenario) bool { return !s.plan.overHTTP }}
	onlyOurs        = need{"no hosts of .NET or Java", func(s *scenario) bool { return !s.has(foreignHosts) }}
	storeTime       = need{"a lease store that returns its time", func(s *scenario) bool { return !s.has(noStoreClock) }}
	noDeletes       = need{"no deleted leases", func(s *scenario) bool { return !s.has(deletedLeases) }}
	allVersionsMode = need{"all versions and deletes mode", func(s *scenario) bool { return s.mode == feed.AllVersionsAndDeletes }}
	latestMode      = need{"latest version mode", func(s *scenario) bool { return s.mode == feed.LatestVersion }}
	manualOnes      = need{"manual checkpoints", func(s *scenario) bool { return s.checkpoint.Manual }}
	noManual        = need{"no manual checkpoints", func(s *scenario) bool { return !s.checkpoint.Manual }}
	startNow        = need{"a start from now", func(s *scenario) bool { return s.startKind == feed.StartNow }}
	wideLeases      = need{"no leases of handleChanges", func(s *scenario) bool { return s.dialect != lease.JavaHandleChanges }}
	startTime       = need{"a start time", func(s *scenario) bool { return s.startKind == feed.StartTime }}
	anyPartitions   = need{"no continuation as the start", func(s *scenario) bool { return s.startKind != feed.StartContinuation }}
	dotNetLease     = need{".NET's lease dialect", func(s *scenario) bool { return s.dialect == lease.DotNet }}
	withForeign     = need{"hosts of .NET and Java", func(s *scenario) bool { return s.has(foreignHosts) }}
	withLetters     = need{"letters", func(s *scenario) bool { return s.has(lettersOfHosts) }}
	lateOnes        = need{"late checkpoints", func(s *scenario) bool { return s.has(lateCheckpoints) }}
)

// allFeatures is the table of the features that the seeds of this package's tests have. The
// order matters, as in features.
var allFeatures = []feature{
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
		set:  (*scenario).drawForeign,
		at:   stages{whenActed: (*run).stopForeignHosts, whenEnded: (*run).countVisits},
	},
	{
		name: overwrittenLeases, share: 0.4, needs: []need{withForeign}, counted: true, mutant: "400-older-document-is-written-over",
		text: "After a split, a .NET host writes the leases that it created without a condition, so that it takes them back from other hosts, writes older positions, and removes properties.",
		set:  (*scenario).addOverwriter,
		at:   stages{whenOpened: (*run).overwrite},
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
		name: noStoreClock, share: 0.05, needs: []need{inMemory}, mutant: "01-no-margin",
		text: "The lease store does not return its time, so hosts measure a lease's age by their own clocks.",
		set:  func(s *scenario, _ *draw) { s.clockless = true },
	},

	// Leases.
	users(latestVersionLeases, onlyOurs),
	{
		name: handleChangesLeases, share: 0.2, needs: []need{onlyOurs, inMemory, dotNetLease, latestMode}, mutant: "432-leases-stay-without-ranges",
		text: "The leases have Java's dialect handleChanges, which supports no merges.",
		set:  func(s *scenario, _ *draw) { s.dialect = lease.JavaHandleChanges },
	},
	users(tornListings),
	users(leaseOutages),
	users(editedLeases),
	// A handleChanges host stops if its only lease is deleted, because that looks like an
	// upgrade by a Java host.
	users(deletedLeases, latestMode, wideLeases),

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
		at:   stages{whenOpened: func(r *run, _ context.Context) { r.world.atClose = r.atClose }},
	},
	{
		name: filters, share: 0.15, counted: true, mutant: "34-filter-stalls-checkpoints",
		text: "A filter hides every fourth item from the handlers.",
	},
	users(failingHandlers),
	users(slowHandlers),

	{
		name: failingOpens, share: 0.12, needs: []need{allFaults}, counted: true, mutant: "331-batch-after-a-failed-open",
		text: "Observers cannot be created or opened: the attempt returns an error, panics, or calls runtime.Goexit. For a time most attempts fail.",
		set:  (*scenario).drawOpenFaults,
		at: stages{
			whenOpened:    func(r *run, _ context.Context) { r.world.failsOpens(r.drawOpening) },
			whenRecovered: func(r *run, _ context.Context) { r.sleep(longestRetryDelay) },
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
	users(waitingReads),
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
		at:   stages{whenOpened: (*run).expire, whenHandled: (*run).expiredAtRest, whenEnded: (*run).endExpiry},
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
		host: (*run).forget,
	},
	{
		name: unknownLSNs, share: 0.08, counted: true, mutant: "370-unknown-end-is-the-end",
		text: "The source does not report some pages' LSN, or the partition's end: they are -1.",
		set: func(s *scenario, d *draw) {
			odds := s.pageOdds()
			odds.noLSN, odds.noEnd = d.float(), d.float()
		},
		host: (*run).seesOddPages,
		at:   stages{whenOpened: (*run).oddPages},
	},
	{
		name: emptyPages, share: 0.1, counted: true, mutant: "371-empty-page-is-the-end",
		text: "The source returns an empty page though more changes follow. The page's position is where the read began, or later.",
		set:  func(s *scenario, d *draw) { s.pageOdds().empty = 0.6 * d.float() },
		host: (*run).seesOddPages,
		at:   stages{whenOpened: (*run).oddPages},
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
		host: func(r *run, h *host) { h.source = refusingSource{h.source, r.world} },
	},
	{
		name: refusedMoves, share: 0.7, needs: []need{{"refused-start", func(s *scenario) bool { return s.has(refusedStart) }}}, mutant: "355-release-without-the-bound",
		text: "Hosts join, leave and crash, and partitions split and merge, until shortly after the refused start time.",
		set:  (*scenario).drawRefusedMoves,
	},
	users(sourceOutages),

	// Splits and merges.
	users(startMoves),
	users(splitChains),
	users(mergedRanges),
	users(unattendedMoves, onlyOurs),

	// Readers beside the processor.
	{
		name: readers, share: 0.08, needs: []need{overNoHTTP}, counted: true, mutant: "402-part-of-a-partition-is-read-whole",
		text: "A feed.Reader follows the feed or a range, and meets the same faults. At times a new one resumes from a stored position.",
		at:   stages{whenPrepared: (*run).follow, whenHandled: (*run).finishFollowing},
	},
	{
		name: prefixReaders, share: 0.4, needs: []need{hierarchical}, counted: true, mutant: "379-key-of-a-reader-is-dropped",
		text: "A feed.Reader follows a partition key, or the keys that share their first components.",
		at:   stages{whenPrepared: (*run).follow, whenHandled: (*run).finishFollowing},
	},
	{
		name: estimates, share: 0.08, needs: []need{overNoHTTP}, counted: true, mutant: "401-versions-are-not-measured",
		text: "An estimator measures the hosts' lag, and its requests meet the same faults.",
		at:   stages{whenPrepared: (*run).startSurvey, whenHandled: (*run).surveyIdle, whenLeft: (*run).surveyStopped},
	},

	// Hosts.
	{
		name: refusedDeletes, share: 0.05, needs: []need{inMemory, onlyOurs, {"no deleted leases", func(s *scenario) bool { return !s.has(deletedLeases) }}}, counted: true, mutant: "358-left-over-child-beside-its-parent",
		text: "The lease store refuses every delete, as for a role without that right. Until the right is granted, split leases stay and their children wait.",
		set: func(s *scenario, d *draw) {
			s.remove(eventMerge)
			s.add(d, d.between(1, 3), eventSplit, 0, 0.9)
		},
		at: stages{
			whenOpened: func(r *run, _ context.Context) { r.world.refuseDeletes(true) },
			whenMended: (*run).grantDeletes,
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
	users(requestFaults),
	users(pauses),
	{
		name: differentHosts, share: 0.08, mutant: "330-expired-by-the-own-renew-interval",
		text: "The hosts have different intervals, page sizes and checkpoints, but the same expiration interval.",
		host: (*run).differ,
	},
	{
		name: leaseLimits, share: 0.08, needs: []need{{"no refused deletes", func(s *scenario) bool { return !s.has(refusedDeletes) }}}, counted: true, mutant: "340-left-over-beyond-the-maximum",
		text: "Some hosts have a minimum or a maximum of leases. The feature occurs when all hosts have their maximum, so that leases have no owner until another host joins.",
		host: (*run).limitOne,
		at:   stages{whenMended: (*run).joinIfShort},
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
		set:  (*scenario).drawDiscards,
	},

	{
		name: parallelCalls, share: 0.35, needs: []need{noManual}, mutant: "1150-two-calls-for-one-key",
		text: "Hosts call the handler of a lease for up to 64 partition keys at the same time.",
		host: func(r *run, h *host) {
			d := newDraw(r.scenario.seed, 0, "concurrency", h.id)
			h.settings.concurrency = []int{1, 2, 3, 8, 64}[d.intn(5)]
		},
	},

	{
		name: lettersOfHosts, share: 0.25, needs: []need{allFaults, noManual}, counted: true, mutant: "1180-position-passes-before-the-letter",
		text: "Handlers fail with some items at every attempt, until an item is mended, if it is, and hosts give those changes up after one to five attempts and write letters. The feature occurs when a letter is stored.",
		set: func(s *scenario, d *draw) {
			s.odds.poison, s.park = 0.1*d.float(), changefeed.ParkNone
		},
		host: (*run).writesLetters,
		at:   stages{whenOpened: (*run).openLetters, whenCalm: (*run).redriveAll, whenRecovered: (*run).redriveAgain},
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
		at: stages{whenRecovered: func(r *run, ctx context.Context) { // some may have been replaced by stopped children meanwhile
			r.resumeLeases(ctx)
			r.sleep(r.world.times.recovery())
		}},
	},
}
