// Package feed reads a container's change feed, and defines the values that every engine
// and every reader share: [Change], [Page], [Partition], [Range] and [Start].
//
// A monitored container has physical partitions. Each owns a range of effective partition
// keys (EPK) and has its own feed, ordered by LSN. A [Source] is an engine's access to
// these feeds: it returns the container's identity, its partitions, and one page at a
// time.
//
// # Reading
//
// A [Reader] is the pull model: your loop asks for pages, from a whole container, a range
// of keys or one partition key. A Reader follows splits and merges, but uses no leases,
// so you store the position yourself.
//
//	reader, err := feed.NewReader(source, feed.ReaderConfig{Start: feed.Beginning()})
//	if err != nil {
//		return err
//	}
//	for page, err := range reader.Pages(ctx) { // endless with ReaderConfig.Follow
//		if err != nil {
//			return err
//		}
//		// handle page.Changes
//	}
//	position, err := reader.Position(ctx) // for the next reader
//
// [SplitRange] divides a container, or a range of it, among several workers. Each worker
// has its own reader and position.
//
// If several hosts share the work, or no change may be lost when one crashes, use the
// processor in package changefeed instead, because its leases do both.
//
// # Positions
//
// A [Continuation] is the position after a page in one partition's feed. A program may
// store it, compare it for equality and pass it back, but not look inside. A [Start] is a
// continuation, the beginning, a time, or now.
//
// LSNs are good for one thing: to recognise that a key's change is delivered again. Each
// partition counts its own, so there is no point in comparing them across partitions.
//
// [Reader.Position] returns the position in everything that the reader follows, as one
// text that survives restarts, splits and merges. A reader of another container refuses
// it with a [PositionError], even if that container was recreated under the same name.
// The text is JSON on one line:
//
//	{"version":1, "rid":"Gis8AYAAAAE=", "mode":"latest version", "key":["ada"],
//	 "range":{"min":"","max":"FF"},
//	 "cursors":[{"min":"","max":"1FFF...","continuation":"\"13\""},
//	            {"min":"1FFF...","max":"FF","start":"2026-11-20T08:00:00Z"}]}
//
// The members are:
//
//   - version is the format's version. A reader accepts versions up to its own.
//   - rid is the engine's own id for the container.
//   - mode is "latest version" or "all versions and deletes".
//   - key is the partition key, or a prefix of it. Without it, all keys are followed.
//   - range is the range of keys that the reader follows.
//   - cursors are the positions in the range's parts, in order and without gaps. With a
//     key, they may leave out ranges that hold no item with that key.
//
// A cursor has a continuation or, until the part has been read, a start: "beginning" or a
// time.
//
// # Splits and merges
//
// When a partition is split or merged, its ID is retired. Reading it returns a
// [GoneError], and [Source.Partitions] returns what replaced it. Its continuation stays
// valid, because each replacement can be read from there, within the old range.
//
// # Engines
//
// An implementation of [Source] must pass the conformance suite, package feedtest, whose
// cases are the contract.
//
// # Concurrency
//
// A Source is safe for concurrent use, but a Reader is not. The other types are values.
// Only a loop over [Reader.Pages] starts goroutines, and they all end with the loop.
package feed
