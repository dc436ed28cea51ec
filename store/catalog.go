package store

import (
	"context"
	"time"
)

// DatabaseProperties describe a database.
type DatabaseProperties struct {
	// ID is the name; RID the store's own id, ETag that of the last write, and
	// Modified its time.
	ID, RID, ETag string
	Modified      time.Time
}

// KeyVersion is how a container's partition keys are hashed.
type KeyVersion int

// The hash versions.
const (
	// HashV2 is the default: one hash over all components.
	HashV2 KeyVersion = iota
	// HashV1 is the older hash; strings that agree in their first 100
	// characters share an effective partition key.
	HashV1
	// MultiHash hashes each of up to three components alone (hierarchical
	// partition keys), so that a prefix of the key is a range.
	MultiHash
)

// ContainerProperties describe a container.
type ContainerProperties struct {
	// ID is the name.
	ID string
	// KeyPaths are one to three paths to the partition key ("/customer",
	// "/address/city"). They can't be changed. More than one means [MultiHash]
	// unless KeyVersion says HashV1.
	KeyPaths []string
	// KeyVersion can't be changed.
	KeyVersion KeyVersion
	// DefaultTTL is the time to live of items in seconds. 0: items never expire,
	// and their own ttl is ignored; -1: only items with a ttl of their own expire.
	DefaultTTL int
	// Retention is for how long the container keeps all versions and deletes;
	// 0: it doesn't, and has a latest version feed only.
	Retention time.Duration
	// Throughput is provisioned, in request units per second; 0: unlimited.
	Throughput int
	// Partitions is how many physical partitions to create. Default: 1. Not
	// looked at by ReplaceContainer.
	Partitions int

	// RID, ETag and Modified are the store's; they are not looked at when the
	// properties come in (ReplaceContainer: a non-empty ETag is a condition).
	RID, ETag string
	Modified  time.Time
}

// CreateDatabase makes a database. [ErrConflict]: it exists.
func (db *DB) CreateDatabase(ctx context.Context, id string) (DatabaseProperties, error) {
	panic("to do")
}

// Database returns a database, or an error that wraps feed.ErrNotFound.
func (db *DB) Database(ctx context.Context, id string) (DatabaseProperties, error) { panic("to do") }

// Databases returns all databases, by name.
func (db *DB) Databases(ctx context.Context) ([]DatabaseProperties, error) { panic("to do") }

// DeleteDatabase deletes a database and all its containers.
func (db *DB) DeleteDatabase(ctx context.Context, id string) error { panic("to do") }

// CreateContainer makes a container. [ErrConflict]: it exists.
func (db *DB) CreateContainer(ctx context.Context, database string, p ContainerProperties) (*Container, error) {
	panic("to do")
}

// Container returns a container, or an error that wraps feed.ErrNotFound.
func (db *DB) Container(ctx context.Context, database, id string) (*Container, error) { panic("to do") }

// Containers returns the containers of a database, by name.
func (db *DB) Containers(ctx context.Context, database string) ([]*Container, error) { panic("to do") }

// ReplaceContainer changes what can be changed of a container: DefaultTTL,
// Retention and Throughput. Versions kept so far are dropped when Retention
// becomes 0.
func (db *DB) ReplaceContainer(ctx context.Context, database string, p ContainerProperties) (*Container, error) {
	panic("to do")
}

// DeleteContainer deletes a container and all it holds.
func (db *DB) DeleteContainer(ctx context.Context, database, id string) error { panic("to do") }
