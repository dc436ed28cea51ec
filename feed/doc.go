// Package feed reads the change feed of a container. It defines the values that every
// engine and every reader share: [Change], [Page], [Partition], [Range] and [Start].
//
// A monitored container has physical partitions. Each partition owns a range of effective
// partition keys (EPK). Each has a feed of its own, which is ordered by LSN. A [Source]
// is an engine's feed. It returns the container's identity, its partitions, and one page
// of a range's feed.
//
// # Reading
//
// A [Reader] follows a container, a range of it, or one partition key. It follows splits
// and merges, and it uses no leases. This is the pull model.
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
// has a reader and a position of its own.
//
// Use the processor in package changefeed if several hosts share the work, or if no
// change may be lost when a host crashes. It uses leases.
//
// # Positions
//
// A [Continuation] is the position in one partition's feed after a page. It is opaque: a
// program may store it, compare it for equality and pass it back to the source. A [Start]
// is a continuation, the beginning, a time, or now.
//
// An LSN is informational. A program may use LSNs to recognise a change of one key that
// is delivered again. Do not compare LSNs of different partitions.
//
// [Reader.Position] returns the position of everything that the reader follows, as one
// text. The text survives restarts, splits and merges. A reader of another container
// refuses it with a [PositionError], even if that container was recreated under the same
// name. The text is JSON on one line:
//
//	{"version":1, "rid":"Gis8AYAAAAE=", "mode":"latest version", "key":["ada"],
//	 "range":{"min":"","max":"FF"},
//	 "cursors":[{"min":"","max":"1FFF...","continuation":"\"13\""},
//	            {"min":"1FFF...","max":"FF","start":"2026-11-20T08:00:00Z"}]}
//
// The members are:
//
//   - version is the version of the format. A reader accepts versions up to its own.
//   - rid is the engine's own id of the container.
//   - mode is "latest version" or "all versions and deletes".
//   - key is the partition key, or a prefix of it. Without it, all keys are followed.
//   - range is the range of keys that the reader follows.
//   - cursors are the positions in the parts of the range, in order and without gaps.
//     With a key, they may leave out ranges that hold no item of that key.
//
// A cursor has a continuation, or a start if the part has not been read yet. The start is
// "beginning" or a time.
//
// # Splits and merges
//
// When a partition is split or merged, its ID is retired. A read of the retired partition
// returns a [GoneError], and [Source.Partitions] returns the partitions that replaced it.
// A continuation of the retired partition stays valid. Each replacement is read from it,
// within the old range.
//
// # Engines
//
// An implementation of [Source] must pass the conformance suite, package feedtest. The
// cases of that suite are the contract of a source.
//
// # Concurrency
//
// A Source is safe for concurrent use. A Reader is not. The other types are values. Only
// a loop over [Reader.Pages] starts goroutines, and all of them end with the loop.
package feed
