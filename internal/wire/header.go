package wire

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// ASCII escapes the characters of JSON text that must not be in a header: those that are not
// ASCII, and DEL, which JSON allows in a string.
func ASCII(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < unicode.MaxASCII {
			b.WriteRune(r)
		} else if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// The headers of the protocol in the spelling of net/http. The protocol ignores the case
// of names. The server ignores headers that are neither here nor in net/http.
const (
	// HeaderActivityID identifies a request, in both directions (a GUID).
	HeaderActivityID = "X-Ms-Activity-Id"
	// HeaderAIM asks for a change feed: see [AIMIncremental] and [AIMFullFidelity].
	HeaderAIM = "A-Im"
	// HeaderAltContentPath and HeaderContentPath hold the path of the returned resource's
	// owner, with names and with rids. Clients store session tokens by these paths.
	HeaderAltContentPath = "X-Ms-Alt-Content-Path"
	HeaderContentPath    = "X-Ms-Content-Path"
	// HeaderBatch marks a batch. With HeaderBatchAtomic it is a transaction. With
	// HeaderBatchContinueOnError its operations are independent.
	HeaderBatch                = "X-Ms-Cosmos-Is-Batch-Request"
	HeaderBatchAtomic          = "X-Ms-Cosmos-Batch-Atomic"
	HeaderBatchContinueOnError = "X-Ms-Cosmos-Batch-Continue-On-Error"
	// HeaderCapabilities is a set of Capability constants.
	HeaderCapabilities = "X-Ms-Cosmos-Sdk-Supportedcapabilities"
	// HeaderConsistency weakens the account's consistency level for a read.
	HeaderConsistency = "X-Ms-Consistency-Level"
	// HeaderContinuation is the continuation of a query or read feed.
	HeaderContinuation = "X-Ms-Continuation"
	// HeaderDate is the time of the request, which its signature covers.
	HeaderDate = "X-Ms-Date"
	// HeaderIntendedContainer is the rid of the container that the client expects.
	HeaderIntendedContainer = "X-Ms-Cosmos-Intended-Collection-Rid"
	// HeaderIsQuery marks a query without [ContentTypeQuery]. azcosmos for Go writes
	// HeaderIsQueryGo.
	HeaderIsQuery   = "X-Ms-Documentdb-Isquery"
	HeaderIsQueryGo = "X-Ms-Documentdb-Query"
	// HeaderItemCount is the number of items in a page. HeaderMaxItemCount is the
	// requested number, or -1 for the server's choice.
	HeaderItemCount    = "X-Ms-Item-Count"
	HeaderMaxItemCount = "X-Ms-Max-Item-Count"
	// HeaderLocalLSN and HeaderCommittedLSN are what replicas know of the LSN. HeaderItemLSN
	// and HeaderItemLocalLSN are the LSN of the returned resource's last write.
	HeaderLocalLSN     = "X-Ms-Cosmos-Llsn"
	HeaderCommittedLSN = "X-Ms-Global-Committed-Lsn"
	HeaderItemLSN      = "X-Ms-Item-Lsn"
	HeaderItemLocalLSN = "X-Ms-Cosmos-Item-Llsn"
	// HeaderDuration is the time that the request took, in milliseconds.
	HeaderDuration = "X-Ms-Request-Duration-Ms"
	// HeaderQuota is how many resources of a kind there may be, and HeaderUsage how many
	// there are.
	HeaderQuota = "X-Ms-Resource-Quota"
	HeaderUsage = "X-Ms-Resource-Usage"
	// HeaderSharedThroughput reports that a container has no throughput of its own.
	// HeaderMaxContentLength is the size of its largest item.
	HeaderSharedThroughput = "X-Ms-Share-Throughput"
	HeaderMaxContentLength = "X-Ms-Cosmos-Max-Content-Length"
	// HeaderQueryExecution tells how a query was read. HeaderDeletePending tells whether the
	// items of a partition key are being deleted.
	HeaderQueryExecution = "X-Ms-Cosmos-Query-Execution-Info"
	HeaderDeletePending  = "X-Ms-Cosmos-Is-Partition-Key-Delete-Pending"
	// HeaderInvalid is "1" if the gateway found the request malformed.
	HeaderInvalid = "X-Ms-Request-Validation-Failure"
	// HeaderLSN is the last LSN of the partition.
	HeaderLSN = "Lsn"
	// HeaderMinThroughput is the lowest throughput of an offer. HeaderOfferReplacePending
	// reports whether the offer is being replaced.
	HeaderMinThroughput       = "X-Ms-Cosmos-Min-Throughput"
	HeaderOfferReplacePending = "X-Ms-Offer-Replace-Pending"
	// HeaderOfferThroughput is the throughput of a new container in request units per
	// second. HeaderOfferAutopilot is its maximum throughput, as JSON.
	HeaderOfferThroughput = "X-Ms-Offer-Throughput"
	HeaderOfferAutopilot  = "X-Ms-Cosmos-Offer-Autopilot-Settings"
	// HeaderOfferToAutopilot and HeaderOfferToManual change the kind of a replaced offer.
	HeaderOfferToAutopilot = "X-Ms-Cosmos-Migrate-Offer-To-Autopilot"
	HeaderOfferToManual    = "X-Ms-Cosmos-Migrate-Offer-To-Manual-Throughput"
	// HeaderPartitionKey is the logical partition key, as a JSON array. See [NoKey] and
	// [ASCII].
	HeaderPartitionKey = "X-Ms-Documentdb-Partitionkey"
	// HeaderPartitionID is the id of a physical partition. The container's rid and a
	// comma may precede it.
	HeaderPartitionID = "X-Ms-Documentdb-Partitionkeyrangeid"
	// HeaderTokenExpiry is the lifetime of a permission's resource token, in seconds.
	HeaderTokenExpiry = "X-Ms-Documentdb-Expiry-Seconds"
	// HeaderPreTriggers and HeaderPostTriggers name triggers to run around a write.
	HeaderPreTriggers  = "X-Ms-Documentdb-Pre-Trigger-Include"
	HeaderPostTriggers = "X-Ms-Documentdb-Post-Trigger-Include"
	// HeaderCrossPartition allows a query to read all partitions.
	HeaderCrossPartition = "X-Ms-Documentdb-Query-Enablecrosspartition"
	// HeaderPopulateQueryMetrics and HeaderPopulateIndexMetrics request metrics of a
	// query. The response has them in HeaderQueryMetrics and HeaderIndexMetrics (base64).
	HeaderPopulateQueryMetrics = "X-Ms-Documentdb-Populatequerymetrics"
	HeaderPopulateIndexMetrics = "X-Ms-Cosmos-Populateindexmetrics"
	HeaderQueryMetrics         = "X-Ms-Documentdb-Query-Metrics"
	HeaderIndexMetrics         = "X-Ms-Cosmos-Index-Utilization"
	// HeaderQueryPlan requests the plan of a query. HeaderQueryFeatures lists the
	// features that the client supports.
	HeaderQueryPlan     = "X-Ms-Cosmos-Is-Query-Plan-Request"
	HeaderQueryFeatures = "X-Ms-Cosmos-Supported-Query-Features"
	// HeaderReadKeyType is the kind of HeaderStartEPK and HeaderEndEPK; see
	// [KeyTypeRange].
	HeaderReadKeyType = "X-Ms-Read-Key-Type"
	// HeaderRequestCharge is the cost of the request, in request units.
	HeaderRequestCharge = "X-Ms-Request-Charge"
	// HeaderRetryAfter is the delay before the next attempt, in milliseconds.
	HeaderRetryAfter = "X-Ms-Retry-After-Ms"
	// HeaderSchemaVersion, HeaderServiceVersion and HeaderGatewayVersion are
	// informational.
	HeaderSchemaVersion  = "X-Ms-Schemaversion"
	HeaderServiceVersion = "X-Ms-Serviceversion"
	HeaderGatewayVersion = "X-Ms-Gatewayversion"
	// HeaderSessionToken is the position of a session; see [SessionToken].
	HeaderSessionToken = "X-Ms-Session-Token"
	// HeaderStartEPK and HeaderEndEPK limit a read to a range of effective partition
	// keys, which includes its start and excludes its end.
	HeaderStartEPK = "X-Ms-Start-Epk"
	HeaderEndEPK   = "X-Ms-End-Epk"
	// HeaderUnusedLSNs is the number of LSNs from the first document of a feed page to the
	// partition's last LSN that no transaction has; see [feed.Page].Unused. Only our server
	// sends it.
	HeaderUnusedLSNs = "X-Changefeed-Unused-Lsns"
	// HeaderSubStatus refines the status of an error.
	HeaderSubStatus = "X-Ms-Substatus"
	// HeaderUpsert changes a create to an upsert.
	HeaderUpsert = "X-Ms-Documentdb-Is-Upsert"
	// HeaderVersion is the client's version of the REST API.
	HeaderVersion = "X-Ms-Version"
	// HeaderWireFormat requests changes of the form {current, previous, metadata}.
	HeaderWireFormat = "X-Ms-Cosmos-Changefeed-Wire-Format-Version"
)

// The values of [HeaderAIM]. SDKs differ in their case.
const (
	AIMIncremental  = "Incremental Feed"
	AIMFullFidelity = "Full-Fidelity Feed"
)

// The bits of [HeaderCapabilities].
const (
	// CapabilityMerge marks clients that support merges of partitions.
	CapabilityMerge = 1
	// CapabilityTimeAfterMerge marks clients that send their start time with every read.
	CapabilityTimeAfterMerge = 2
	// CapabilityIgnoreUnknown marks clients that skip unknown fields.
	CapabilityIgnoreUnknown = 8
)

// KeyTypeRange is the value of [HeaderReadKeyType] for a range of effective partition
// keys.
const KeyTypeRange = "EffectivePartitionKeyRange"

// WireFormatVersions is the value of [HeaderWireFormat].
const WireFormatVersions = "2021-09-15"

// ContentTypeQuery is the content type of a query.
const ContentTypeQuery = "application/query+json"

// NoKey is the partition key of a document without a key, in a container that was created
// without a partition key. In every other container it is "[{}]".
const NoKey = "[]"
