// Package cosmos reads change feeds from Azure Cosmos DB and stores leases there: a
// [Source] is a container's change feed, and [Leases] a lease container. Both work with
// accounts of the API for NoSQL and with `changefeed serve`, which uses the same
// protocol.
//
//	account, err := cosmos.WithKey(endpoint, key, cosmos.Options{})
//	source := account.Source("shop", "orders", cosmos.SourceOptions{})
//	leases := account.Leases("shop", "leases", cosmos.LeaseOptions{Create: true})
//	p, err := changefeed.New(changefeed.Config{
//		Processor: "projector", Source: source, Leases: leases, Handler: h,
//	})
//
// To test without an account, use package changefeedtest, which serves the protocol in
// memory.
//
// # Accounts
//
// Create an [Account] once, from a key, a connection string or an Entra ID credential,
// and share it. The monitored container and the lease container may be in different
// accounts.
//
// With Entra ID the identity needs a role in the account's own access control: the
// built-in data reader for a Source, the built-in data contributor for Leases. If a right
// is missing, the error names it and the container.
//
// Sovereign clouds need nothing but their endpoint, because the token's scope is derived
// from it. Another scope can be configured in Options.Cloud, under [ServiceName].
//
// [Options] contains what all Azure SDKs have: a transport (TLS, proxies), retries,
// logging by azcore/log, tracing and policies. If the application needs the throughput
// too, a [Budget] limits what feed reads and leases spend, in one account or in several.
//
// # Regions
//
// The client requests the account's regions when it is first used, every five minutes,
// and when a region fails. Reads go to [Options.PreferredRegions] in their order, or else
// to the account's regions in the account's order.
//
// After a failure that may not occur elsewhere (403/3, 403/1008, 404/1002, 408, 500, 502,
// 503, 504, a failed or lost connection) the client tries the next region at once. When
// all have failed, azcore retries with pauses (Options.Retry) and then returns the error,
// upon which the processor retries with pauses of its own. An unreachable region is tried
// last for five minutes.
//
// Throttling (429) does not change the region, but is returned at once as a
// [*feed.ThrottledError] with the pause that the service requests.
//
// # Reads
//
// A page is read once, into a buffer of its length, and split in one pass that validates
// every byte, so that a truncated or malformed page is an error and never a shorter page.
// Changes are slices of the buffer and are not decoded. A continuation is the feed's
// ETag, as in .NET hosts' leases.
//
// A read goes to one physical partition. If a lease or a reader has only a part of it,
// the read is limited to a range of effective partition keys. That is how, after a merge,
// two leases read the same partition without seeing each other's changes.
//
// All versions and deletes mode starts from now or from a continuation. Accounts with
// several write regions refuse a start at a time. [SourceOptions.Dialect] must be the
// leases' dialect.
//
// A container that is deleted and recreated under its name is another container. A Source
// that has used the old one then returns a [*RecreatedError] and never reads the new one
// from an old position.
//
// # Limits of the tests
//
// The package is tested against `changefeed serve`, in fake time and over TCP, with all
// the failures above, and the server with the official SDKs for Go, JavaScript and Java.
// But no test has run against an account in Azure. These points come only from the
// official SDKs' sources and the public documentation:
//
//   - how accounts with several regions describe them
//   - the words with which a position past its retention is refused, since there is no
//     sub-status
//   - the sub-statuses with which anything else is refused
//   - the member names in a delete's partition key if its path is nested
//   - that the service accepts x-ms-cosmos-intended-collection-rid on feed reads, as Java
//     sends it
package cosmos
