// Package cosmos reads the change feed of Azure Cosmos DB and stores leases there. A
// [Source] is the change feed of a container. [Leases] is a lease container. Both work
// with accounts of the API for NoSQL and with `changefeed serve`, which uses the same
// protocol.
//
//	account, err := cosmos.WithKey(endpoint, key, cosmos.Options{})
//	source := account.Source("shop", "orders", cosmos.SourceOptions{})
//	leases := account.Leases("shop", "leases", cosmos.LeaseOptions{Create: true})
//	p, err := changefeed.New(changefeed.Config{
//		Processor: "projector", Source: source, Leases: leases, Handler: h,
//	})
//
// For tests without an account, package changefeedtest serves the protocol in memory.
//
// # Accounts
//
// Create an [Account] once, from a key, a connection string or a credential of Entra ID,
// and share it. The monitored container and the lease container may be in different
// accounts.
//
// With Entra ID the identity needs a role of the account's own access control. The
// built-in data reader is enough for a Source. Leases need the built-in data contributor.
// If a right is missing, the error names it and the container.
//
// For sovereign clouds the endpoint is enough, because the token's scope is derived from
// it. Options.Cloud can configure another scope under [ServiceName].
//
// [Options] contains the options of all Azure SDKs: a transport (TLS, proxies), retries,
// logging by azcore/log, tracing and policies. A [Budget] limits the request units per
// second of feed reads and leases together, of one account or of several.
//
// # Regions
//
// The client requests the account's regions at the first use, every five minutes, and
// when a region fails. Reads go to [Options].PreferredRegions in their order, or else to
// the account's regions in the account's order.
//
// Some failures may not occur in another region: 403/3, 403/1008, 404/1002, 408, 500,
// 502, 503, 504, failed connections and lost connections. After these the client tries
// the next region at once. When all regions have failed, azcore retries with pauses
// (Options.Retry). Then the error is returned, and the processor retries with pauses of
// its own. An unreachable region is tried last for five minutes.
//
// Throttling (429) does not cause a change of the region. It is returned at once as a
// *feed.ThrottledError, with the pause that the service requests.
//
// # Reads
//
// A page is read once, into a buffer of its length, and split in one pass that validates
// every byte. Changes are slices of the buffer and are not decoded. A truncated or
// malformed page is an error, never a shorter page. A continuation is the feed's ETag, as
// in the leases of .NET hosts.
//
// A read goes to one physical partition. If a lease or a reader has a part of the
// partition, the read is limited to a range of effective partition keys. After a merge,
// two leases read the same partition, and neither sees the other's changes.
//
// All versions and deletes mode starts from now or from a continuation. Accounts with
// several write regions refuse a start at a time. [SourceOptions].Dialect must be the
// dialect of the leases.
//
// If a container is deleted and recreated under its name, it is another container. A
// Source that has used the old one then returns *[RecreatedError]. It never reads the new
// container from a position of the old one.
//
// # Limits of the tests
//
// The package is tested against `changefeed serve`, in fake time and over TCP, with all
// the failures above. The server is tested with the official SDKs of Go, JavaScript and
// Java. No test has run against an account in Azure. These points come only from the
// sources of the official SDKs and the public documentation:
//
//   - the topology of accounts with several regions
//   - the words of the refusal of a position past its retention, which has no sub-status
//   - the sub-statuses of the other refusals
//   - the member names of a delete's partition key with a nested path
//   - that the service accepts x-ms-cosmos-intended-collection-rid on feed reads, as Java
//     sends it
package cosmos
