// Package feed is the vocabulary of a change feed: what a container, its
// partitions and their changes are to somebody who reads them.
//
// A monitored container is divided into physical partitions. Each owns a range
// of effective partition keys (EPK) and has a feed of its own, ordered by LSN.
// [Source] is the whole of what a reader asks of an engine: who it is, which
// partitions there are, and one page of one range's feed. [Reader] follows a
// range through splits and merges on top of it, without leases: the pull model.
//
// Positions are [Continuation] texts. They are opaque: whoever holds one may
// store it, compare it for equality and hand it back, and nothing else.
//
// Apart from the Reader everything here is a value; nothing in this package
// starts a goroutine.
package feed
