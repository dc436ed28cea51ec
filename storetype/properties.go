package storetype

import (
	"encoding/json"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// DatabaseProperties describe a database.
type DatabaseProperties struct {
	// ID is the name. RID is the resource id that the store assigned. ETag and Modified
	// describe the last write.
	ID, RID, ETag string
	Modified      time.Time
	// Throughput is the provisioned throughput in request units per second that all
	// containers without one of their own share. If zero, they are unlimited. It is enforced
	// as that of [ContainerProperties] is.
	Throughput int
	// Extra is JSON text of the caller, as in [ContainerProperties].
	Extra json.RawMessage
}

// KeyVersion is the version of the hash of a container's partition keys.
type KeyVersion int

// The hash versions.
const (
	// DefaultHash is HashV2 for one key path and MultiHash for more.
	DefaultHash KeyVersion = iota
	// HashV1 is the older hash, which looks at the first 100 characters of a string. Keys
	// that differ only in later ones are one logical partition: an id exists once among
	// them, and a request for one of the keys reads the documents of all. Use it only for a
	// container that must behave like an existing one.
	HashV1
	// HashV2 is one hash over all components.
	HashV2
	// MultiHash hashes each of up to three components alone (hierarchical partition
	// keys), so that a prefix of the key is a range.
	MultiHash
)

// MaxPartitions is the largest number of physical partitions that a container can be
// created with.
const MaxPartitions = 10_000

// ContainerProperties describe a container.
type ContainerProperties struct {
	// ID is the name. It has at most 255 bytes.
	ID string
	// KeyPaths are one to three paths to the partition key, for instance "/customer" or
	// "/address/city". They cannot be changed.
	KeyPaths []string
	// KeyVersion is the version of the hash. It cannot be changed.
	KeyVersion KeyVersion
	// SystemKey makes a container without a partition key, as Azure Cosmos DB created them
	// before 2019 and still serves them. Its KeyPaths are "/_partitionKey", and may be left
	// out. The key of an item without that property is feed.PartitionKey{feed.Undefined}. The
	// container has one partition, which cannot be split. Leases of older processors are in
	// such containers; a new container is better created with a key. It cannot be changed.
	SystemKey bool
	// UniqueKeys are up to 10 lists of up to 16 paths. No two items of a logical
	// partition have equal values at all paths of a list: a write of such an item returns
	// a *[UniqueKeyError]. A missing value counts as null. Objects and arrays are
	// compared by their contents. Unique keys cannot be changed: ReplaceContainer accepts
	// the same keys, or nil.
	UniqueKeys [][]string
	// DefaultTTL is the time to live of items in seconds. If zero, items never expire,
	// and their own ttl is ignored. If -1, only items with a ttl of their own expire.
	DefaultTTL int
	// Retention is the time for which the container keeps all versions and deletes. If
	// zero, the container keeps none and has no all versions and deletes feed.
	Retention time.Duration
	// Throughput is the provisioned throughput in request units per second. If zero, the
	// container shares that of its database. A store that was opened to enforce it answers
	// requests above it with a *feed.ThrottledError; any other only records it.
	Throughput int
	// Partitions is the number of physical partitions to create. If zero, 1 is used.
	// ReplaceContainer ignores it.
	Partitions int
	// Extra is JSON text of the caller, at most 256 KiB, or nil. The store returns it
	// byte for byte. ReplaceContainer replaces it, also with nil.
	Extra json.RawMessage

	// RID, ETag and Modified are set by the store and ignored in requests, with one
	// exception: ReplaceContainer takes a non-empty ETag as a condition.
	RID, ETag string
	Modified  time.Time
}

// PartitionStats are the statistics of a live partition at one moment.
type PartitionStats struct {
	// Partition has the partition's ID, range and ancestors.
	feed.Partition
	// LSN is the last LSN of its feed.
	LSN int64
	// Items is the exact number of items. Expired items count until they are purged.
	Items int64
	// Bytes is the size of the stored documents before compression, system properties
	// included. It excludes the index and the versions that Retention keeps.
	Bytes int64
}
