package simulation

// These are the names of the features.
const (
	// Engines.
	onStore      = "embedded-store"
	powerLosses  = "power-loss"
	noStoreClock = "no-store-clock"

	// Leases.
	latestVersionLeases = "java-latest-version"
	handleChangesLeases = "java-handle-changes"
	tornListings        = "torn-listings"
	leaseOutages        = "lease-outage"
	editedLeases        = "edited-leases"
	deletedLeases       = "deleted-leases"

	// Handlers and checkpoints.
	manualCheckpoints        = "manual-checkpoints"
	deferredCheckpoints      = "deferred-checkpoints"
	lateCheckpoints          = "late-checkpoints"
	checkpointsDuringCall    = "checkpoints-during-call"
	checkpointsMinutesLater  = "checkpoints-minutes-later"
	checkpointsOutOfOrder    = "checkpoints-out-of-order"
	checkpointsAfterHandOver = "checkpoints-after-hand-over"
	checkpointsDuringSplit   = "checkpoints-during-split"
	checkpointsAtClose       = "checkpoints-at-close"
	filters                  = "filter"
	failingHandlers          = "failing-handlers"
	slowHandlers             = "slow-handlers"
	failingOpens             = "failing-open"
	partialFailures          = "partial-failures"
	stoppedLeases            = "stopped-leases"
	parallelCalls            = "parallel-calls"
	lettersOfHosts           = "letters"
	parkedKeys               = "parked-keys"
	redrivenLetters          = "redriven-letters"
	drainOff                 = "drain-off"

	// The change feed and its partitions.
	allVersions       = "all-versions"
	timeToLive        = "time-to-live"
	waitingReads      = "waiting-reads"
	continuationStart = "continuation-start"
	feedRanges        = "feed-range"
	historyLosses     = "history-loss"
	unknownLSNs       = "unknown-lsn"
	emptyPages        = "empty-pages"
	hierarchicalKeys  = "hierarchical-keys"
	refusedStart      = "refused-start"
	refusedMoves      = "refused-start-moves"
	sourceOutages     = "feed-outage"

	// Splits and merges.
	startMoves      = "start-splits"
	splitChains     = "split-chains"
	mergedRanges    = "merged-ranges"
	refusedDeletes  = "refused-deletes"
	unattendedMoves = "unattended-splits"

	// Readers beside the processor.
	estimates     = "estimates"
	readers       = "readers"
	prefixReaders = "prefix-readers"

	// Hosts.
	foreignHosts      = "foreign-hosts"
	overwrittenLeases = "overwritten-leases"
	large             = "large"
	manyTransactions  = "many-transactions"
	requestFaults     = "request-faults"
	pauses            = "pauses"
	differentHosts    = "different-hosts"
	leaseLimits       = "lease-limits"
	suspensions       = "suspensions"
	hostClockJumps    = "host-clock-jumps"
	storeClockJumps   = "store-clock-jumps"
	discards          = "discard"
)
