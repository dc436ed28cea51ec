// Package lease is the protocol by which hosts share the partitions of a monitored
// container. It defines the [Lease], its transitions, its documents ([Codec]), and the
// interfaces of lease containers ([Container] and [Store]).
//
// Most programs only pass a Container from an engine to the processor, for example that
// of store.DB.Leases or of cosmos.Account.Leases. A program that shows or repairs leases
// opens the Store of one processor and lists them:
//
//	identity, err := source.Identity(ctx) // of the monitored container
//	leases, err := container.Open(ctx, lease.Key{Processor: "mailer", Identity: identity})
//	listing, err := leases.List(ctx)
//
// An engine of your own implements Container and Store. If it stores JSON documents, it
// uses Codec. Its test calls package leasetest, the conformance suite.
//
// Except for the two interfaces, the package is pure: it has no I/O, no clock and no
// goroutine. The processor in package changefeed executes the protocol.
//
// # The protocol
//
// A host changes a lease document only by compare-and-set on its ETag. There is no lock,
// no leader and no table of owners. Six rules hold:
//
//   - A host reads a range, or has a batch of it in a handler, only while it trusts the
//     lease ([Terms.Trusted]). Trust lasts from the start of the last successful write,
//     for the expiration less a margin.
//   - A host gives up its trust before it sends a write that lets another host in.
//   - No host takes a live lease from a host of this implementation. A host that needs a
//     lease marks it as wanted. The owner then finishes its batch and releases the lease.
//   - No host takes an expired lease before its owner has stopped trusting it.
//   - A position moves only to a change that was delivered.
//   - Children and healed leases are created only where no host can have a newer one.
//
// A crash, a lost response or a stale listing needs no special case: the next host that
// lists the leases repairs the effect.
//
// By compare-and-set alone, no change is skipped, no position is ahead of delivery, and
// every range gets an owner again. If the drift of the clocks stays within the margin, no
// two hosts process one key at the same time.
//
// # States and transitions
//
// A lease is absent, free (it has no owner) or owned. Whether an owned lease is live or
// expired depends on its age by the store's clock. In this table E is the expiration
// ([Terms]), and the mark is the property by which a host asks for a lease.
//
//	transition   who may                          written                          value
//	bootstrap    any host, no marker yet          Create: free, start resolved     [ForRange]
//	heal         any host, gap seen for E + 1 s   Create: free, from the marker    [ForRange]
//	acquire      any host: free or expired        Update: owner, mark removed      [Lease.Acquired]
//	ask          a host short of leases           Update: mark                     [Lease.Asked]
//	steal        the same, from a foreign owner   Update: owner, mark removed      [Lease.Acquired]
//	renew        the owner, while it trusts       Update: position                 [Lease.At]
//	release      the owner, trust given up        Update: no owner, position       [Lease.Released]
//	put back     the owner, while it trusts       Create: owner, durable position  [Lease.PutBack]
//	split        the holder of a gone lease       Create children, then Delete     [Lease.Child]
//
// A lease gets a bound ([Lease.Bound]) if the source refuses its start time. It is then
// read from the beginning, and changes older than the bound are not delivered. Its owner
// writes the bound with every position. Put-back keeps the bound and children inherit it.
// A healed lease has no bound.
//
// Package internal/balance decides which leases to acquire, to ask for and to steal.
// [Judge] returns the meaning of a conflict for the owner of a lease.
//
// # Foreign owners
//
// An owner is foreign if its text does not come from [NewOwner] ([Ours]). It is a host of
// the .NET or the Java implementation that uses the same documents. It ignores the mark,
// and its trust does not end by itself. So only its live leases are stolen, and only
// those above its share.
//
// The thief renews the lease and does nothing else until the victim's last write has
// expired and one more renewal has succeeded. Then it uses the lease. Until then it does
// not hand over, release or put back the lease.
//
// Foreign hosts do not stop by the clock. So two hosts may process one range for a renew
// interval, and a foreign host may write an old position back or release a lease while
// its handler runs. That causes redeliveries, but no change is lost.
//
// # Documents
//
// A [Codec] encodes and decodes the documents for stores of JSON documents. It supports
// three [Dialect] values: one of the .NET processor and two of Java's. Package leasetest
// is the conformance suite of [Container] and [Store].
package lease
