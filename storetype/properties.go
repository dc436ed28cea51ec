package storetype

import (
	"encoding/json"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// DatabaseProperties describe a database.
type DatabaseProperties struct {
	// ID is the name, and RID the resource id that the store assigned. ETag and Modified
	// describe the last write.
	ID, RID, ETag string
	Modified      time.Time
	// Throughput is the provisioned throughput in request units per second that all
	// containers without their own share. If zero, they are unlimited. It is enforced as in
	// [ContainerProperties].
	Throughput int
	// Extra is the caller's JSON text, as in [ContainerProperties].
	Extra json.RawMessage
}

// KeyVersion is the version of the hash over a container's partition keys. Keep the zero
// value unless the container must behave like an existing one.
type KeyVersion int

// The hash versions.
const (
	// DefaultHash is HashV2 for one key path and MultiHash for more.
	DefaultHash KeyVersion = iota
	// HashV1 is the older hash, which looks only at a string's first 100 characters. Keys
	// that differ only in later ones are one logical partition: an id exists once among
	// them, and a request for one key reads the documents of all.
	HashV1
	// HashV2 is one hash over all components.
	HashV2
	// MultiHash hashes up to three components one by one (hierarchical partition keys), so
	// that a prefix of the key is a range.
	MultiHash
)

// MaxPartitions is how many physical partitions a container can be created with at most.
const MaxPartitions = 10_000

// ContainerProperties describe a container, to create one or as the store returns them.
type ContainerProperties struct {
	// ID is the name. It has at most 255 bytes.
	ID string
	// KeyPaths are one to three paths to the partition key, for instance "/customer" or
	// "/address/city". They cannot be changed.
	KeyPaths []string
	// KeyVersion is the hash's version. It cannot be changed.
	KeyVersion KeyVersion
	// SystemKey makes a container without a partition key, as Azure Cosmos DB created them
	// before 2019 and still serves them. Older processors have their leases in such
	// containers; give a new one a key, because it has a single partition that cannot be
	// split. KeyPaths are "/_partitionKey", and may be left out. An item without that
	// property has the key feed.PartitionKey{feed.Undefined}. SystemKey cannot be changed.
	SystemKey bool
	// UniqueKeys are up to 10 lists with up to 16 paths each. If two items in a logical
	// partition would have equal values at all paths in a list, the write returns a
	// *[UniqueKeyError]. A missing value counts as null, and objects and arrays are compared
	// by their contents. Unique keys cannot be changed: ReplaceContainer accepts the same
	// keys, or nil.
	UniqueKeys [][]string
	// DefaultTTL is how long items live, in seconds, unless they have a ttl of their own. If
	// -1, only those with one expire. If zero, nothing expires, whatever an item's ttl.
	DefaultTTL int
	// Retention is how long all versions and deletes are kept. Without it (zero), the
	// container has no all versions and deletes feed.
	Retention time.Duration
	// Throughput is the provisioned throughput in request units per second. If zero, the
	// container shares its database's. Only a store that was opened to enforce it answers
	// requests above it with a *feed.ThrottledError; any other just records it.
	Throughput int
	// Partitions is how many physical partitions to create. If zero, 1 is used.
	// ReplaceContainer ignores it.
	Partitions int
	// Extra is the caller's JSON text, at most 256 KiB, or nil. The store returns it byte
	// for byte, and ReplaceContainer replaces it, also with nil.
	Extra json.RawMessage

	// RID, ETag and Modified are set by the store and ignored in requests, with one
	// exception: ReplaceContainer takes a non-empty ETag as a condition.
	RID, ETag string
	Modified  time.Time
}

// PartitionStats are a live partition's statistics at one moment.
type PartitionStats struct {
	// Partition has the partition's ID, range and ancestors.
	feed.Partition
	// LSN is the last one in its feed.
	LSN int64
	// Items is exact, and counts expired items until they are purged.
	Items int64
	// Bytes is the stored documents' size before compression, with system properties but
	// without the index and the versions that Retention keeps.
	Bytes int64
}
