// Package lease holds what hosts share: a processor's [Lease] documents, the interfaces
// of the containers that store them ([Container] and [Store]), and the form in which they
// are stored ([Codec]).
//
// Most programs only pass an engine's Container (from store.DB.Leases or
// cosmos.Account.Leases, say) to the processor. A program that shows or repairs leases
// opens one processor's Store and lists them:
//
//	identity, err := source.Identity(ctx) // of the monitored container
//	leases, err := container.Open(ctx, lease.Key{Processor: "mailer", Identity: identity})
//	listing, err := leases.List(ctx)
//
// Reach for the other names when you write an engine of your own. It implements Container
// and Store, uses Codec if it stores JSON documents, and calls package leasetest, the
// conformance suite, in its test.
//
// Except for the two interfaces, the package is pure: it has no I/O, no clock and no
// goroutine.
//
// # What hosts do with leases
//
// A host changes a lease document only by compare-and-set on its ETag, so there is no
// lock, no leader and no table of owners. A lease is absent, free (it has no owner) or
// owned; how long an owned lease stays live depends on its age by the store's clock. A
// host that wants another one's lease writes so into it ([PropertyWanted]), and the
// owner hands it over after its batch. The owner writes the position with each checkpoint
// and each renewal.
//
// If the source refuses the start time, the lease also gets a bound ([PropertyBound]): it is
// read from the beginning, and changes older than the bound are not delivered.
//
// An engine needs to know no more than that: it stores each write, or refuses it because the
// document has changed. How long hosts trust a lease, and what they conclude from an answer,
// is in package internal/protocol, with docs/guarantees.md for what follows for users.
//
// # Documents
//
// If a store holds JSON documents, its [Codec] encodes and decodes the leases, in one of
// three [Dialect] values: the .NET processor's, or one of Java's two.
package lease
