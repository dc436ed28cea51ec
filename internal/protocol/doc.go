// Package protocol is what the hosts of this implementation agree on when they share
// leases, beyond the documents of package lease: how long a host trusts a lease ([Terms]),
// what it writes ([Acquired], [Released] and the other transitions), what the answer to a
// write means for it ([Judge]), and by which owner text it knows its own kind ([NewOwner]).
//
// Like package lease it's pure: it has no I/O, no clock and no goroutine. The processor in
// package changefeed executes the protocol. An engine that stores leases needs none of it,
// which is why the package is internal.
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
//   - No host takes a live lease from a host of this implementation. A host that wants a
//     lease writes so into it. The owner then finishes its batch and releases the lease.
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
// ([Terms]), and wanted is the property by which a host says that it wants the lease.
//
//	transition   who may                          written                          value
//	bootstrap    any host, no marker yet          Create: free, start resolved     lease.ForRange
//	heal         any host, gap seen for E + 1 s   Create: free, from the marker    lease.ForRange
//	acquire      any host: free or expired        Update: owner, wanted removed    Acquired
//	want         a host short of leases           Update: wanted                   Wanted
//	steal        the same, from a foreign owner   Update: owner, wanted removed    Acquired
//	renew        the owner, while it trusts       Update: position                 At
//	release      the owner, trust given up        Update: no owner, position       Released
//	put back     the owner, while it trusts       Create: owner, durable position  PutBack
//	split        the holder of a gone lease       Create children, then Delete     lease.Lease.Child
//
// A lease gets a bound ([Bound]) if the source refuses its start time. It is then
// read from the beginning, and changes older than the bound are not delivered. Its owner
// writes the bound with every position. Put-back keeps the bound and children inherit it.
// A healed lease has no bound.
//
// Package internal/balance decides which leases to acquire, to want and to steal.
// [Judge] returns what the answer to a write means for the host that sent it.
//
// # Foreign owners
//
// An owner is foreign if its text does not come from [NewOwner] ([Ours]). It is a host of
// the .NET or the Java implementation that uses the same documents. It ignores what others want,
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
package protocol
