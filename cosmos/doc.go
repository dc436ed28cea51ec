// Package cosmos is Azure Cosmos DB as the engine of a processor: [Source] is the
// change feed of a container, [Leases] a lease container, of accounts of the API for NoSQL and of `changefeed serve`, which
// speaks the same protocol.
//
//	account, err := cosmos.WithKey("https://mine.documents.azure.com:443/", key, cosmos.Options{})
//	source := account.Source("shop", "orders", cosmos.SourceOptions{})
//	leases := account.Leases("shop", "leases", cosmos.LeaseOptions{Create: true})
//	p, err := changefeed.New(changefeed.Config{Processor: "projector", Source: source, Leases: leases, Handler: h})
//
// # Accounts
//
// An [Account] is made by a key, a connection string, or a credential of Entra ID, once, and is shared. The monitored and the
// lease container may be in different accounts. With Entra ID the identity needs a role of the account's own access control: the
// built-in data reader suffices for a Source, leases need the built-in data contributor. A right that is missing is named by the
// error, with the container it is missing on. For sovereign clouds the endpoint is enough: the token's scope is made of it, unless
// Options.Cloud configures one under azcosmos.ServiceName.
//
// [Options] has those of all Azure SDKs: a transport (TLS, proxies), retries, logging by azcore/log, tracing, policies. A [Budget] caps the request
// units per second of feed reads and leases together, of one account or of several.
//
// # Regions
//
// Which regions an account has is asked for at the first use, every five minutes, and when one of them fails. Reads go to
// [Options].PreferredRegions in their order, or else to the account's regions in its own. What another region may answer better is asked
// there at once: 403/3, 403/1008, 404/1002, 408, 500, 502, 503, 504, connections that aren't made or that are lost. When
// no region has answered, azcore's pauses begin (Options.Retry), then the error is returned, and the processor has
// pauses of its own. A region that can't be reached is read from last for five minutes. Throttling (429) is no failure and no reason to
// go elsewhere: it is returned at once, as *feed.ThrottledError with the service's own pause.
//
// # What a Source reads
//
// A page is read once, into a buffer of its length, and split in one pass that validates every byte; changes are slices of the
// buffer, never decoded. What is cut off or malformed is an error, never a shorter page. A continuation is the feed's ETag,
// as hosts of .NET keep it in their leases.
//
// Reads go to one physical partition, narrowed to a range of effective partition keys where a lease, or a reader, has a part of one: after a
// merge two leases read the same partition, and neither sees the other's changes. All versions and deletes mode starts now or from a continuation. A
// start at a time is refused by accounts with several write regions. [SourceOptions].Dialect has to be that of the leases.
//
// A container that is deleted and made anew under its name is another one: a Source that has begun with the old one returns *[RecreatedError]
// from then on, and never reads the new container from a position in the old.
//
// # What was tried, and what wasn't
//
// Everything here is tested against `changefeed serve`, in fake time and over TCP, also while it fails in all the ways above, and the server is tested with the
// official SDKs of Go, JavaScript and Java. No test has run against an account in Azure. What is taken from the sources of the official SDKs and the public
// documentation, and from nothing else: the topology of accounts with several regions, the words by which the service refuses a position that is past its
// retention (there is no sub-status for it, so they are searched for), which refusals carry which sub-status, the member names of a
// delete's partition key where a path is nested, and that the service takes x-ms-cosmos-intended-collection-rid on reads of a feed, as Java sends it.
package cosmos
