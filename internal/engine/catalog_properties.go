package engine

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
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
	// them, and a request for one of the keys reads the documents of all.
	HashV1
	// HashV2 is one hash over all components.
	HashV2
	// MultiHash hashes each of up to three components alone (hierarchical partition
	// keys). So a prefix of the key is a range.
	MultiHash
)

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
	// container shares that of its database. Requests above it return a
	// *feed.ThrottledError, unless [Options].IgnoreThroughput is set.
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

// SystemKeyPath is the key path of a container without a partition key.
const SystemKeyPath = "/_partitionKey"

// Limits of names and containers.
const (
	// MaxNameSize is the size in bytes of the longest name of a database or container.
	MaxNameSize = 255
	// MaxPartitions is the largest number of physical partitions that a container can be
	// created with.
	MaxPartitions = 10_000
	// MaxExtraSize is the size in bytes of the largest Extra of a database or container.
	MaxExtraSize = 256 << 10
)

// checkName returns a *[BadRequestError] if id cannot be the name of a database or
// container.
func checkName(id string) error {
	if id == "" || len(id) > MaxNameSize || !utf8.ValidString(id) || strings.ContainsAny(id, `/\?#`) {
		var cause error
		if strings.ContainsAny(id, `/\?#`) {
			cause = ErrBadName
		}
		return badRequestBy(cause, BadProperties, `the name %.300q is empty, longer than %d bytes, not UTF-8, or contains one of / \ ? #`, id, MaxNameSize)
	}
	return nil
}

// validate checks the properties of a new container. It returns its hash and its parsed
// key paths.
func (p ContainerProperties) validate() (epk.Hash, keyPaths, error) {
	if err := checkName(p.ID); err != nil {
		return 0, nil, err
	}
	if p.SystemKey && (!slices.Equal(p.KeyPaths, []string{SystemKeyPath}) || p.KeyVersion == MultiHash || p.Partitions > 1) {
		return 0, nil, badRequest(BadProperties, "a container without a partition key has the key path %s, no MultiHash and one partition; leave out the other values", SystemKeyPath)
	}
	paths, err := parseKeyPaths(p.KeyPaths)
	if err != nil {
		return 0, nil, err
	}
	hash := epk.Hash(p.KeyVersion)
	switch p.KeyVersion {
	case DefaultHash:
		hash = epk.V2
		if len(paths) > 1 {
			hash = epk.MultiHash
		}
	case HashV1, HashV2, MultiHash:
	default:
		return 0, nil, badRequest(BadProperties, "there is no key version %d", p.KeyVersion)
	}
	if p.Partitions < 0 || p.Partitions > MaxPartitions {
		return 0, nil, badRequest(BadProperties, "a container is created with 1 to %d partitions, not %d", MaxPartitions, p.Partitions)
	}
	return hash, paths, p.validateSettings()
}

// validateSettings checks DefaultTTL, Retention, Throughput and Extra, which
// ReplaceContainer can change.
func (p ContainerProperties) validateSettings() error {
	if err := checkTTL(int64(p.DefaultTTL)); err != nil {
		return err
	}
	if p.Retention < 0 {
		return badRequest(BadProperties, "the retention of versions is negative: %s", p.Retention)
	}
	if p.Throughput < 0 {
		return badRequest(BadProperties, "the throughput is negative: %d RU/s", p.Throughput)
	}
	return checkExtra(p.Extra)
}

// validate checks the properties of a database.
func (p DatabaseProperties) validate() error {
	if err := checkName(p.ID); err != nil {
		return err
	}
	if p.Throughput < 0 {
		return badRequest(BadProperties, "the throughput is negative: %d RU/s", p.Throughput)
	}
	return checkExtra(p.Extra)
}

// checkExtra returns an error if extra is larger than MaxExtraSize or is not valid JSON.
func checkExtra(extra json.RawMessage) error {
	if len(extra) > MaxExtraSize {
		return &TooLargeError{What: "extra properties", Size: len(extra), Limit: MaxExtraSize}
	}
	if extra != nil && !json.Valid(extra) {
		return badRequest(BadProperties, "the extra properties are not JSON: %.60q", extra)
	}
	return nil
}

// newMeta returns the meta of a new container. It divides the key space into equal
// partitions.
func newMeta(c *Container, p ContainerProperties, ts int64) (*meta, error) {
	n := max(p.Partitions, 1)
	p.Partitions, p.KeyVersion, p.Modified = 0, KeyVersion(c.hash), unixTime(ts)
	p.KeyPaths, p.Extra = slices.Clone(p.KeyPaths), slices.Clone(p.Extra)
	p.UniqueKeys = cloneUniqueKeys(p.UniqueKeys)
	m := &meta{props: p, revision: 1, next: uint32(n), segments: map[uint32]segment{}}
	bounds := append(c.hash.Bounds(n), feed.MaxEPK)
	lower := feed.MinEPK
	for i, upper := range bounds {
		number := uint32(i)
		part, err := newPartition(number, feed.Range{Min: lower, Max: upper}, []uint32{number}, nil)
		if err != nil {
			return nil, err
		}
		part.size.set(growth{}) // a new partition has no items, so they need not be counted
		m.partitions = append(m.partitions, part)
		m.segments[number] = segment{Min: lower, Max: upper}
		lower = upper
	}
	return m, nil
}

func (db *DB) propertiesOf(d *database) DatabaseProperties {
	return DatabaseProperties{
		ID: d.id, RID: databaseRID(d.number), ETag: db.etagOf(d.number, d.revision, d.modified), Modified: unixTime(d.modified),
		Throughput: d.throughput, Extra: slices.Clone(d.extra),
	}
}

// properties returns the properties that m stores, and those that the store computes,
// such as RID and ETag.
func (c *Container) properties(m *meta) ContainerProperties {
	p := m.props
	p.KeyPaths, p.Extra = slices.Clone(p.KeyPaths), slices.Clone(p.Extra)
	p.UniqueKeys = cloneUniqueKeys(p.UniqueKeys)
	p.Partitions = len(m.partitions)
	p.RID = containerRID(c.database, c.number)
	p.ETag = c.db.etagOf(c.number, m.revision, p.Modified.Unix())
	return p
}

// applySettings copies the time to live and the throughput of m to fields of the
// Container. Requests can then read them without a view. Only the sequencer and the
// opening of the store call it.
func (c *Container) applySettings(m *meta) {
	c.useTTL.Store(m.props.DefaultTTL != ttlOff)
	rate := c.db.enforced(m.props.Throughput)
	c.bucket.provision(rate, c.db.clock.now())
	c.dedicated.Store(m.props.Throughput > 0)
}

// provision sets the rate of a database's bucket. Only the sequencer and the opening of the
// store call it.
func (db *DB) provision(d *database) { d.bucket.provision(db.enforced(d.throughput), db.clock.now()) }

// enforced returns the rate of a bucket for a provisioned throughput.
func (db *DB) enforced(rate int) int {
	if db.options.IgnoreThroughput {
		return 0
	}
	return rate
}

// Properties returns the container's current properties. Their Partitions is the current
// number of partitions.
func (c *Container) Properties(ctx context.Context) (ContainerProperties, error) {
	v, s, err := c.open(ctx)
	if err != nil {
		return ContainerProperties{}, err
	}
	defer v.release()
	return c.properties(s.meta), nil
}

// Identity returns the container's identity, which its leases record. Its host is
// "localhost", as it is for a server in front of the store.
func (c *Container) Identity() feed.Identity { return c.identity }

// containerID returns the identity of the container among the containers of all open
// stores.
func (c *Container) containerID() feed.ContainerID {
	return feed.ContainerID{Account: c.db.ID(), RID: c.identity.ContainerRID}
}
