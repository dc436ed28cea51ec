package engine

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// SystemKeyPath is the key path of a container without a partition key.
const SystemKeyPath = "/_partitionKey"

// Limits of names and containers.
const (
	// MaxNameSize is the size in bytes of the longest name of a database or container.
	MaxNameSize = 255
	// MaxExtraSize is the size in bytes of the largest Extra of a database or container.
	MaxExtraSize = 256 << 10
)

// checkName returns a *[storetype.BadRequestError] if id cannot be the name of a database or
// container.
func checkName(id string) error {
	if id == "" || len(id) > MaxNameSize || !utf8.ValidString(id) || strings.ContainsAny(id, `/\?#`) {
		var cause error
		if strings.ContainsAny(id, `/\?#`) {
			cause = layout.ErrBadName
		}
		return layout.BadRequestBy(cause, storetype.BadProperties, `the name %.300q is empty, longer than %d bytes, not UTF-8, or contains one of / \ ? #`, id, MaxNameSize)
	}
	return nil
}

// validateContainer checks the properties of a new container. It returns its hash and its parsed
// key paths.
func validateContainer(p storetype.ContainerProperties) (epk.Hash, layout.KeyPaths, error) {
	if err := checkName(p.ID); err != nil {
		return 0, nil, err
	}
	if p.SystemKey && (!slices.Equal(p.KeyPaths, []string{SystemKeyPath}) || p.KeyVersion == storetype.MultiHash || p.Partitions > 1) {
		return 0, nil, layout.BadRequest(storetype.BadProperties, "a container without a partition key has the key path %s, no MultiHash and one partition; leave out the other values", SystemKeyPath)
	}
	paths, err := layout.ParseKeyPaths(p.KeyPaths)
	if err != nil {
		return 0, nil, err
	}
	hash := epk.Hash(p.KeyVersion)
	switch p.KeyVersion {
	case storetype.DefaultHash:
		hash = epk.V2
		if len(paths) > 1 {
			hash = epk.MultiHash
		}
	case storetype.HashV1, storetype.HashV2, storetype.MultiHash:
	default:
		return 0, nil, layout.BadRequest(storetype.BadProperties, "there is no key version %d", p.KeyVersion)
	}
	if p.Partitions < 0 || p.Partitions > storetype.MaxPartitions {
		return 0, nil, layout.BadRequest(storetype.BadProperties, "a container is created with 1 to %d partitions, not %d", storetype.MaxPartitions, p.Partitions)
	}
	return hash, paths, validateSettings(p)
}

// validateSettings checks DefaultTTL, Retention, Throughput and Extra, which
// ReplaceContainer can change.
func validateSettings(p storetype.ContainerProperties) error {
	if err := layout.CheckTTL(int64(p.DefaultTTL)); err != nil {
		return err
	}
	if p.Retention < 0 {
		return layout.BadRequest(storetype.BadProperties, "the retention of versions is negative: %s", p.Retention)
	}
	if p.Throughput < 0 {
		return layout.BadRequest(storetype.BadProperties, "the throughput is negative: %d RU/s", p.Throughput)
	}
	return checkExtra(p.Extra)
}

// validateDatabase checks the properties of a database.
func validateDatabase(p storetype.DatabaseProperties) error {
	if err := checkName(p.ID); err != nil {
		return err
	}
	if p.Throughput < 0 {
		return layout.BadRequest(storetype.BadProperties, "the throughput is negative: %d RU/s", p.Throughput)
	}
	return checkExtra(p.Extra)
}

// checkExtra returns an error if extra is larger than MaxExtraSize or is not valid JSON.
func checkExtra(extra json.RawMessage) error {
	if len(extra) > MaxExtraSize {
		return &storetype.TooLargeError{What: "extra properties", Size: len(extra), Limit: MaxExtraSize}
	}
	if extra != nil && !json.Valid(extra) {
		return layout.BadRequest(storetype.BadProperties, "the extra properties are not JSON: %.60q", extra)
	}
	return nil
}

// newMeta returns the meta of a new container. It divides the key space into equal
// partitions.
func newMeta(c *Container, p storetype.ContainerProperties, ts int64) (*meta, error) {
	n := max(p.Partitions, 1)
	p.Partitions, p.KeyVersion, p.Modified = 0, storetype.KeyVersion(c.hash), unixTime(ts)
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

func (db *DB) propertiesOf(d *database) storetype.DatabaseProperties {
	return storetype.DatabaseProperties{
		ID: d.id, RID: layout.DatabaseRID(d.number), ETag: db.etagOf(d.number, d.revision, d.modified), Modified: unixTime(d.modified),
		Throughput: d.throughput, Extra: slices.Clone(d.extra),
	}
}

// properties returns the properties that m stores, and those that the store computes,
// such as RID and ETag.
func (c *Container) properties(m *meta) storetype.ContainerProperties {
	p := m.props
	p.KeyPaths, p.Extra = slices.Clone(p.KeyPaths), slices.Clone(p.Extra)
	p.UniqueKeys = cloneUniqueKeys(p.UniqueKeys)
	p.Partitions = len(m.partitions)
	p.RID = layout.ContainerRID(c.database, c.number)
	p.ETag = c.db.etagOf(c.number, m.revision, p.Modified.Unix())
	return p
}

// applySettings copies the time to live and the throughput of m to fields of the
// Container. Requests can then read them without a view. Only the sequencer and the
// opening of the store call it.
func (c *Container) applySettings(m *meta) {
	c.useTTL.Store(m.props.DefaultTTL != layout.TTLOff)
	rate := c.db.enforced(m.props.Throughput)
	c.bucket.provision(rate, c.db.clock.now())
	c.dedicated.Store(m.props.Throughput > 0)
}

// provision sets the rate of a database's bucket. Only the sequencer and the opening of the
// store call it.
func (db *DB) provision(d *database) { d.bucket.provision(db.enforced(d.throughput), db.clock.now()) }

// enforced returns the rate of a bucket for a provisioned throughput.
func (db *DB) enforced(rate int) int {
	if !db.options.EnforceThroughput {
		return 0
	}
	return rate
}

// Properties implements store.Container.Properties, which documents it.
func (c *Container) Properties(ctx context.Context) (storetype.ContainerProperties, error) {
	v, s, err := c.open(ctx)
	if err != nil {
		return storetype.ContainerProperties{}, err
	}
	defer v.release()
	return c.properties(s.meta), nil
}

// Identity implements store.Container.Identity, which documents it.
func (c *Container) Identity() feed.Identity { return c.identity }

// containerID returns the identity of the container among the containers of all open
// stores.
func (c *Container) containerID() feed.ContainerID {
	return feed.ContainerID{Account: c.db.ID(), RID: c.identity.ContainerRID}
}
