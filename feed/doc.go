// Package feed is the vocabulary of a change feed: what a container, its
// partitions and their changes are to somebody who reads them.
//
// A monitored container is divided into physical partitions. Each owns a range
// of effective partition keys (EPK) and has a feed of its own, ordered by LSN.
// [Source] is the whole of what a reader asks of an engine: who it is, which
// partitions there are, and one page of one range's feed.
//
// # Reading
//
// [Reader] follows a container, a range of it or one partition key through
// splits and merges, without leases: the pull model.
//
//	reader, err := feed.NewReader(source, feed.ReaderConfig{Start: feed.Beginning()})
//	for page, err := range reader.Pages(ctx) { // to the end, or for ever with ReaderConfig.Follow
//		...
//		position, err := reader.Position(ctx) // for the next reader
//	}
//
// [SplitRange] divides a container, or a range of it, for several workers, each
// with a reader and a position of its own.
//
// Where several hosts share the work, or a crash must lose nothing, a processor
// does the same with leases: package changefeed.
//
// # Positions
//
// A [Continuation] is the place in one partition's feed behind a page. It is
// opaque: whoever holds one may store it, compare it for equality and hand it
// back, and nothing else. A [Start] is a continuation, or one of the places from
// which reading can begin. LSNs, where a source tells them, are for people and
// for telling a redelivery of one key; LSNs of two partitions are not compared.
//
// A reader's position, [Reader.Position], is one text for everything that the
// reader follows. It survives restarts, splits and merges, and is refused
// ([PositionError]) by any other container, also one that was made anew under
// the same name. It is JSON on one line:
//
//	{"version":1, "rid":"Gis8AYAAAAE=", "mode":"latest version", "key":["ada"],
//	 "range":{"min":"","max":"FF"},
//	 "cursors":[{"min":"","max":"1FFF...","continuation":"\"13\""},
//	            {"min":"1FFF...","max":"FF","start":"2026-11-20T08:00:00Z"}]}
//
// rid is the container's own id, mode the feed's ("all versions and deletes" is
// the other), key the partition key or prefix (absent: all keys), range what is
// followed. Each cursor is the place in one part of it: behind a continuation, or
// a start that was not read from yet, "beginning" or a time. The cursors lie in
// order without gaps; with a key they may leave out where it has no items. A
// reader understands the versions up to its own.
//
// # Splits and merges
//
// When a partition is split or merged its ID is retired: a read of it is answered
// with [GoneError], and [Source.Partitions] shows what took its place. A
// continuation stays good: each piece is read from it, cut to the old range.
//
// # Engines
//
// Whoever implements [Source] runs package feedtest over it: its cases are the
// contract, sentence by sentence.
//
// Apart from the Reader everything here is a value, and only its loop over Pages
// starts goroutines, which end with it.
package feed
