// Package old holds 25 comments that the prose rules were written against. They come from commit
// 4b53721 and were chosen before the rules. The string below each comment names its origin.
package old

// any stands for all keys: of those that were written before the store was opened nothing is known.
var _ = "store/recent.go:39"

// Of the document that is looked at: its place, its number, the rows that it made so far, how many of them earlier pages had, whether the page
// ended with one, and whether to go on.
var _ = "server/queryscan.go:35"

// What is refused by name: parts of the protocol that the server knows of and doesn't have. Whoever asks for
// one is told which it is, with 400, so that no SDK repeats the request.
var _ = "server/refusals.go:8"

// AnyOrder, of VisitItems: a page's items are visited in the order in which they were written, and not in that of (effective
// partition key, id), which is faster. Filter isn't asked. When visit returns false, the page ends, and has no continuation.
var _ = "store/items.go:44"

// screen is what is to be seen: a value that each message makes a new one of.
var _ = "cmd/changefeed/internal/demo/live.go:55"

// failure is what went wrong; its status alone is set where nothing did.
var _ = "server/batch.go:172"

// banner is what a client has to know, as text: names and values, a line to paste
// for each SDK, and "ready" as its last line, for scripts to wait for.
var _ = "cmd/changefeed/internal/serve/banner.go:14"

// Name is what log, metrics and faults call it. Of one that isn't supported it is what it would be about: "a trigger".
var _ = "server/operations.go:7"

// A throttled read is told at once: whoever waits inside of it for minutes neither reports it nor ends with its lease.
var _ = "cosmos/refusal_test.go:71"

// FirstLSN and LastLSN tell which batch it was; 0 when there was none.
var _ = "errors.go:37"

// DialectError tells that a lease container can't be used as it is.
var _ = "lease/errors.go:27"

// Judge tells what current, the document that answered a write of owner's with a
// conflict, means to it: acked is the last position that the store acknowledged,
// sent the last one that was sent (the same, when nothing is under way). It holds
// for renewals, checkpoints, releases, put backs, and for an acquire that is
// repeated because its first outcome is unknown; not for the first attempt of an
// acquire, which a conflict always refuses.
var _ = "lease/judge.go:33"

// behind is the sum of what each lease is behind its partition's end, in LSNs,
// and part how much of the way lies behind them, 0 to 1.
var _ = "cmd/changefeed/internal/replicate/lag.go:20"

// The neighbour goes on, and its versions pass their retention. Ours is quiet; who
// follows it stays at its last LSN.
var _ = "store/losses_test.go:109"

// robbed: a foreign host has written the lease since. Its owner doesn't know it
// yet, and whoever of ours comes after the foreign host may begin meanwhile.
var _ = "changefeedtest/uses.go:40"

// judge ends the writes, waits for the last deliveries, stops the hosts that are left, and holds everything against what was written.
var _ = "interop/mixed/scene.go:251"

// from is a FROM, and the writer of what may be asked of it. sorts tells that ORDER BY may.
var _ = "server/query/random_test.go:207"

// Without this, a damaged table that background work comes upon would end the process. Who
// reads it gets a *CorruptError; the rest of the store stays readable.
var _ = "store/open.go:234"

// Close lets go of the connections and, where the account is an embedded store,
// closes it.
var _ = "cmd/changefeed/internal/connect/connection.go:209"

// signal wakes the readers that wait for a partition to change. It remembers
// the last LSN that was published, so that nobody sleeps through a change that
// came between its read and its wait.
var _ = "store/wait.go:9"

// The .NET processor frees the lease of whom it had listed as the owner when taking it
// fails: our host finds nobody as the owner, stops, and acquires anew.
var _ = "changefeedtest/foreign_test.go:338"

// gauges tell Run's last report in OpenTelemetry's instruments. All have the attribute
// "processor"; the first two also "lease", and are there for the leases of the last report
// only, of which the lag is known.
//
//	changefeed.estimator.lease.lag      {transaction}  lag of a lease
//	changefeed.estimator.lease.age      s              age of its oldest unread change
//	changefeed.estimator.lag            {transaction}  lag of the processor: Total.LSNs
//	changefeed.estimator.age            s              the largest age: how far the processor is behind
//	changefeed.estimator.leases         {lease}        leases by state: owned, free, unknown, failed, splitting. A lease is
//	                                                   owned or free, and may be one of the others beside
//	changefeed.estimator.request_units  {RU}           request units that Run has spent
//
// Whoever collects them causes no request.
var _ = "estimator/gauges.go:11"

// begin makes the cursors and, for a start at now, gives each its place before
// anything is read: else a change in a part whose turn comes late would be older
// than that part's now. What it has done when it fails is kept for the next call.
var _ = "feed/cursor.go:11"

// read reads a document: each gets every member that doesn't mean the same in all
// dialects, and says whether it knows it. One that nobody knows is kept.
var _ = "lease/reading.go:18"

// carry is what was added to m's partitions, which are to take the place of l's: a new one starts
// with nothing.
var _ = "store/stats.go:90"
