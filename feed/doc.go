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
//	for !reader.Drained() { // or for ever, with ReaderConfig.Wait
//		page, _, err := reader.Next(ctx)
//		...
//	}
//	position, err := reader.Position(ctx) // for the next reader
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
// Apart from the Reader everything here is a value; nothing in this package
// starts a goroutine.
package feed
