package wire

// The headers of the protocol, as net/http writes their names. Names are not
// case-sensitive on the wire. Headers that are neither here nor in net/http's
// own vocabulary need no action and are ignored.
const (
	// HeaderActivityID identifies a request, in both directions (a GUID).
	HeaderActivityID = "X-Ms-Activity-Id"
	// HeaderAIM asks for a change feed: see [AIMIncremental] and [AIMFullFidelity].
	HeaderAIM = "A-Im"
	// HeaderAltContentPath and HeaderContentPath name the owner of what is
	// answered, by names and by rid. Clients key their session tokens by them.
	HeaderAltContentPath = "X-Ms-Alt-Content-Path"
	HeaderContentPath    = "X-Ms-Content-Path"
	// HeaderBatch marks a batch; with HeaderBatchAtomic it is a transaction, with
	// HeaderBatchContinueOnError its operations are independent.
	HeaderBatch                = "X-Ms-Cosmos-Is-Batch-Request"
	HeaderBatchAtomic          = "X-Ms-Cosmos-Batch-Atomic"
	HeaderBatchContinueOnError = "X-Ms-Cosmos-Batch-Continue-On-Error"
	// HeaderCapabilities announces what a client understands: see the Capability constants.
	HeaderCapabilities = "X-Ms-Cosmos-Sdk-Supportedcapabilities"
	// HeaderConsistency weakens the account's consistency level for a read.
	HeaderConsistency = "X-Ms-Consistency-Level"
	// HeaderContinuation is the place behind a page of a query or read feed.
	HeaderContinuation = "X-Ms-Continuation"
	// HeaderDate is the time of the request, which its signature covers.
	HeaderDate = "X-Ms-Date"
	// HeaderIntendedContainer is the rid of the container that the client means.
	HeaderIntendedContainer = "X-Ms-Cosmos-Intended-Collection-Rid"
	// HeaderIsQuery marks a query where the content type doesn't; azcosmos for Go
	// writes HeaderIsQueryGo.
	HeaderIsQuery   = "X-Ms-Documentdb-Isquery"
	HeaderIsQueryGo = "X-Ms-Documentdb-Query"
	// HeaderItemCount is the number of items in a page, HeaderMaxItemCount the
	// number that was asked for (-1: the server decides).
	HeaderItemCount    = "X-Ms-Item-Count"
	HeaderMaxItemCount = "X-Ms-Max-Item-Count"
	// HeaderLSN is the last LSN of the partition that answered.
	HeaderLSN = "Lsn"
	// HeaderMinThroughput is the least throughput that an offer can be set to,
	// HeaderOfferReplacePending tells that a replacement is under way.
	HeaderMinThroughput       = "X-Ms-Cosmos-Min-Throughput"
	HeaderOfferReplacePending = "X-Ms-Offer-Replace-Pending"
	// HeaderOfferThroughput provisions request units per second at creation, and
	// HeaderOfferAutopilot does so with a maximum (JSON).
	HeaderOfferThroughput = "X-Ms-Offer-Throughput"
	HeaderOfferAutopilot  = "X-Ms-Cosmos-Offer-Autopilot-Settings"
	// HeaderOfferToAutopilot and HeaderOfferToManual change the kind of an offer when
	// it is replaced.
	HeaderOfferToAutopilot = "X-Ms-Cosmos-Migrate-Offer-To-Autopilot"
	HeaderOfferToManual    = "X-Ms-Cosmos-Migrate-Offer-To-Manual-Throughput"
	// HeaderPartitionKey is the logical partition key: a JSON array.
	HeaderPartitionKey = "X-Ms-Documentdb-Partitionkey"
	// HeaderPartitionID names a physical partition: its id, perhaps with the
	// container's rid and a comma in front.
	HeaderPartitionID = "X-Ms-Documentdb-Partitionkeyrangeid"
	// HeaderTokenExpiry is how long the resource token of a permission is to be valid, in seconds.
	HeaderTokenExpiry = "X-Ms-Documentdb-Expiry-Seconds"
	// HeaderPreTriggers and HeaderPostTriggers name triggers to run around a write.
	HeaderPreTriggers  = "X-Ms-Documentdb-Pre-Trigger-Include"
	HeaderPostTriggers = "X-Ms-Documentdb-Post-Trigger-Include"
	// HeaderCrossPartition allows a query to look at all partitions.
	HeaderCrossPartition = "X-Ms-Documentdb-Query-Enablecrosspartition"
	// HeaderPopulateQueryMetrics and HeaderPopulateIndexMetrics ask for metrics of a query,
	// which HeaderQueryMetrics and HeaderIndexMetrics (base64) are.
	HeaderPopulateQueryMetrics = "X-Ms-Documentdb-Populatequerymetrics"
	HeaderPopulateIndexMetrics = "X-Ms-Cosmos-Populateindexmetrics"
	HeaderQueryMetrics         = "X-Ms-Documentdb-Query-Metrics"
	HeaderIndexMetrics         = "X-Ms-Cosmos-Index-Utilization"
	// HeaderQueryPlan asks for the plan of a query; HeaderQueryFeatures lists what
	// the client can do.
	HeaderQueryPlan     = "X-Ms-Cosmos-Is-Query-Plan-Request"
	HeaderQueryFeatures = "X-Ms-Cosmos-Supported-Query-Features"
	// HeaderReadKeyType says what HeaderStartEPK and HeaderEndEPK are: see [KeyTypeRange].
	HeaderReadKeyType = "X-Ms-Read-Key-Type"
	// HeaderRequestCharge is what the request cost, in request units.
	HeaderRequestCharge = "X-Ms-Request-Charge"
	// HeaderRetryAfter is how long to wait before the next attempt, in milliseconds.
	HeaderRetryAfter = "X-Ms-Retry-After-Ms"
	// HeaderSchemaVersion, HeaderServiceVersion and HeaderGatewayVersion are informational.
	HeaderSchemaVersion  = "X-Ms-Schemaversion"
	HeaderServiceVersion = "X-Ms-Serviceversion"
	HeaderGatewayVersion = "X-Ms-Gatewayversion"
	// HeaderSessionToken is the position of a session, see [SessionToken].
	HeaderSessionToken = "X-Ms-Session-Token"
	// HeaderStartEPK and HeaderEndEPK narrow a read to effective partition keys,
	// start inclusive, end exclusive.
	HeaderStartEPK = "X-Ms-Start-Epk"
	HeaderEndEPK   = "X-Ms-End-Epk"
	// HeaderSubStatus refines the status of an error.
	HeaderSubStatus = "X-Ms-Substatus"
	// HeaderUpsert makes an upsert of a create.
	HeaderUpsert = "X-Ms-Documentdb-Is-Upsert"
	// HeaderVersion is the version of the REST API that the client speaks.
	HeaderVersion = "X-Ms-Version"
	// HeaderWireFormat asks for changes as {current, previous, metadata}.
	HeaderWireFormat = "X-Ms-Cosmos-Changefeed-Wire-Format-Version"
)

// The values of [HeaderAIM], to be compared without regard to case: SDKs differ in it.
const (
	AIMIncremental  = "Incremental Feed"
	AIMFullFidelity = "Full-Fidelity Feed"
)

// The bits of [HeaderCapabilities].
const (
	// CapabilityMerge is that of clients that know that partitions merge, CapabilityTimeAfterMerge of those that send
	// the time of their start with every read, and CapabilityIgnoreUnknown of those that skip what they don't know.
	CapabilityMerge          = 1
	CapabilityTimeAfterMerge = 2
	CapabilityIgnoreUnknown  = 8
)

// KeyTypeRange is the value of [HeaderReadKeyType] that goes with a range of effective partition keys.
const KeyTypeRange = "EffectivePartitionKeyRange"

// WireFormatVersions is the value of [HeaderWireFormat].
const WireFormatVersions = "2021-09-15"

// ContentTypeQuery is the content type of a query.
const ContentTypeQuery = "application/query+json"
