// Package lease is the protocol by which hosts share the partitions of a
// monitored container: the [Lease] value, its transitions, the documents in which it is
// stored, and the interfaces of the stores.
//
// Apart from the two interfaces everything here is pure: values in, values out,
// no I/O, no clock, no goroutine. The processor carries the protocol out.
//
// # The idea
//
// A lease document is changed only by compare-and-set on its ETag. A host uses a
// range (reads it, has a batch of it in a handler) only while it trusts the lease
// ([Terms.Trusted]): from the start of its last successful write, for the expiration
// less a margin. It gives its trust up before it sends the write that lets somebody
// else in. Nobody takes a live lease: a host that needs one marks it as wanted, and
// its owner finishes what it has in hand and releases it. Nobody takes an expired
// lease before its owner has stopped trusting it. A position only moves to what was
// delivered; children and healed leases are created only where nobody can hold a
// newer one. Everything else (a crash, a lost answer, a stale listing) is repaired
// by the next host that looks. There is no lock, no leader, and no owner table.
//
// So, by compare-and-set alone, no change is skipped, no position is ahead of
// delivery, and every range is owned again in the end. Given clocks whose drift
// stays within the margin, no two hosts use one key at a time.
//
// # States and transitions
//
// A document is absent, free (nobody owns it) or owned; live and expired are what a
// reader computes from its age, by the store's clock.
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
// A lease whose start time the source has refused has a bound ([Lease.Bound]): it is read
// from the beginning, and older changes are not delivered. Its owner writes the bound with
// every position. Put-back keeps it and children inherit it; a healed lease is
// created without one.
//
// Package internal/balance decides what to acquire, whom to ask and what to steal. [Judge]
// returns the meaning of a conflict to the owner of a lease.
//
// # Foreign owners
//
// An owner is foreign when its text isn't one that [NewOwner] makes ([Ours]): a host
// of the .NET or the Java implementation on the same documents. It obeys no mark and has
// no trust that ends by itself, so its live leases are the only ones that are
// stolen, and only what it has beyond its share. The thief renews and does nothing
// else until the moment at which the victim's last write would have expired; then one
// more renewal has to succeed; then it uses the lease. Meanwhile it neither
// hands over nor releases nor puts back. What the others do without a clock's help (two
// hosts on one range for a renew interval, old positions written back, leases freed
// while their handlers run) costs redeliveries; no change is lost by it.
//
// # Documents
//
// [Codec] reads and writes the documents, for adapters whose store keeps JSON
// documents. It comes in three [Dialect]s: that of the .NET processor and the two
// of Java's. Package leasetest is the conformance suite of [Container] and [Store].
package lease
