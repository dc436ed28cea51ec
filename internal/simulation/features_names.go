package simulation

// These are the names of the features of users' runs, and of those that this code counts.
const (
	// Leases.
	latestVersionLeases = "java-latest-version"
	tornListings        = "torn-listings"
	leaseOutages        = "lease-outage"
	editedLeases        = "edited-leases"
	deletedLeases       = "deleted-leases"

	// Handlers and checkpoints.
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
	partialFailures          = "partial-failures"
	stoppedLeases            = "stopped-leases"
	drainOff                 = "drain-off"

	// The change feed and its partitions.
	waitingReads     = "waiting-reads"
	feedRanges       = "feed-range"
	hierarchicalKeys = "hierarchical-keys"
	sourceOutages    = "feed-outage"

	// Splits and merges.
	startMoves      = "start-splits"
	splitChains     = "split-chains"
	mergedRanges    = "merged-ranges"
	refusedDeletes  = "refused-deletes"
	unattendedMoves = "unattended-splits"

	// Hosts.
	requestFaults = "request-faults"
	pauses        = "pauses"
)
