package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// CreateDatabase implements store.DB.CreateDatabase, which documents it.
func (db *DB) CreateDatabase(ctx context.Context, p storetype.DatabaseProperties) (storetype.DatabaseProperties, error) {
	return db.putDatabase(ctx, p, (*group).createDatabase)
}

// ReplaceDatabase implements store.DB.ReplaceDatabase, which documents it.
func (db *DB) ReplaceDatabase(ctx context.Context, p storetype.DatabaseProperties) (storetype.DatabaseProperties, error) {
	return db.putDatabase(ctx, p, (*group).replaceDatabase)
}

// putDatabase validates p and makes the sequencer call put, which creates or replaces the
// database. It returns the new properties.
func (db *DB) putDatabase(ctx context.Context, p storetype.DatabaseProperties, put func(*group, storetype.DatabaseProperties) (*database, error)) (storetype.DatabaseProperties, error) {
	if err := validateDatabase(p); err != nil {
		return storetype.DatabaseProperties{}, err
	}
	p.Extra = slices.Clone(p.Extra)
	var d *database
	err := db.do(ctx, func(g *group) (err error) {
		d, err = put(g, p)
		return err
	})
	if err != nil {
		return storetype.DatabaseProperties{}, err
	}
	return db.propertiesOf(d), nil
}

func (g *group) createDatabase(p storetype.DatabaseProperties) (*database, error) {
	if g.currentCatalog().databases[p.ID] != nil {
		return nil, fmt.Errorf("database %q: %w", p.ID, storetype.ErrConflict)
	}
	d := &database{number: g.db.numbers.Database + 1, id: p.ID, modified: g.ts, revision: 1, extra: p.Extra, throughput: p.Throughput, bucket: new(bucket)}
	g.db.numbers.Database = d.number
	if err := g.putNumbers(); err != nil {
		return nil, err
	}
	return d, g.setDatabase(d)
}

func (g *group) replaceDatabase(p storetype.DatabaseProperties) (*database, error) {
	old := g.currentCatalog().databases[p.ID]
	if old == nil {
		return nil, notFound("database %q", p.ID)
	}
	if p.ETag != "" && p.ETag != "*" && p.ETag != g.db.propertiesOf(old).ETag {
		return nil, fmt.Errorf("%w: database %q has another etag", storetype.ErrPreconditionFailed, p.ID)
	}
	d := &database{number: old.number, id: old.id, modified: g.ts, revision: old.revision + 1, extra: p.Extra, throughput: p.Throughput, bucket: old.bucket}
	return d, g.setDatabase(d)
}

// setDatabase writes the stored record of database d, and adds d to the group's catalog
// under its name.
func (g *group) setDatabase(d *database) error {
	record, err := d.record()
	if err != nil {
		return err
	}
	if err := g.batch.Set(layout.DatabaseKey(d.number), record, nil); err != nil {
		return err
	}
	g.changeCatalog().databases[d.id] = d
	g.db.provision(d)
	return nil
}

// Database implements store.DB.Database, which documents it.
func (db *DB) Database(ctx context.Context, id string) (storetype.DatabaseProperties, error) {
	v, d, err := db.openDatabase(ctx, id)
	if err != nil {
		return storetype.DatabaseProperties{}, err
	}
	defer v.release()
	return db.propertiesOf(d), nil
}

// Databases returns the properties of all databases, sorted by name.
func (db *DB) Databases(ctx context.Context) ([]storetype.DatabaseProperties, error) {
	v, err := db.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer v.release()
	all := make([]storetype.DatabaseProperties, 0, len(v.catalog.databases))
	for _, d := range v.catalog.databases {
		all = append(all, db.propertiesOf(d))
	}
	slices.SortFunc(all, func(a, b storetype.DatabaseProperties) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// DeleteDatabase implements store.DB.DeleteDatabase, which documents it.
func (db *DB) DeleteDatabase(ctx context.Context, id string) error {
	return db.do(ctx, func(g *group) error {
		d := g.currentCatalog().databases[id]
		if d == nil {
			return notFound("database %q", id)
		}
		for name, c := range g.currentCatalog().containers {
			if name.database == d.number {
				if err := g.deleteContainer(c); err != nil {
					return err
				}
			}
		}
		delete(g.changeCatalog().databases, id)
		return errors.Join(g.deleteRecords(d.number), g.batch.Delete(layout.DatabaseKey(d.number), nil))
	})
}

// CreateContainer implements store.DB.CreateContainer, which documents it.
func (db *DB) CreateContainer(ctx context.Context, database string, p storetype.ContainerProperties) (*Container, error) {
	if p.SystemKey && p.KeyPaths == nil {
		p.KeyPaths = []string{SystemKeyPath}
	}
	hash, paths, err := validateContainer(p)
	if err != nil {
		return nil, err
	}
	unique, err := parseUniqueKeys(p.UniqueKeys)
	if err != nil {
		return nil, err
	}
	var c *Container
	err = db.do(ctx, func(g *group) error {
		d := g.currentCatalog().databases[database]
		if d == nil {
			return notFound("database %q", database)
		}
		name := containerName{d.number, p.ID}
		if g.currentCatalog().containers[name] != nil {
			return fmt.Errorf("container %q: %w", p.ID, storetype.ErrConflict)
		}
		if db.numbers.Container >= layout.MaxContainerNumber {
			return storetype.ErrFull
		}
		c = db.newContainer(db.numbers.Container+1, d, p.ID, paths, hash, unique)
		c.systemKey, c.identity.KeyPaths = p.SystemKey, slices.Clone(p.KeyPaths)
		m, err := newMeta(c, p, g.ts)
		if err != nil {
			return err
		}
		db.numbers.Container++
		l := &writeState{c: c}
		db.assignSlot(l)
		l.replace(g, m, make([]int64, len(m.partitions)))
		c.applySettings(m)
		g.changeCatalog().containers[name] = c
		return g.putNumbers()
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Container implements store.DB.Container, which documents it.
func (db *DB) Container(ctx context.Context, database, id string) (*Container, error) {
	v, d, err := db.openDatabase(ctx, database)
	if err != nil {
		return nil, err
	}
	defer v.release()
	if c := v.catalog.containers[containerName{d.number, id}]; c != nil {
		return c, nil
	}
	return nil, notFound("container %q of database %q", id, database)
}

// Containers returns the handles to all containers of a database, sorted by name.
func (db *DB) Containers(ctx context.Context, database string) ([]*Container, error) {
	v, d, err := db.openDatabase(ctx, database)
	if err != nil {
		return nil, err
	}
	defer v.release()
	var all []*Container
	for name, c := range v.catalog.containers {
		if name.database == d.number {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *Container) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// ReplaceContainer implements store.DB.ReplaceContainer, which documents it.
func (db *DB) ReplaceContainer(ctx context.Context, database string, p storetype.ContainerProperties) (*Container, error) {
	c, err := db.Container(ctx, database, p.ID)
	if err != nil {
		return nil, err
	}
	if err := validateSettings(p); err != nil {
		return nil, err
	}
	err = db.do(ctx, func(g *group) error { return g.replaceContainer(c, p) })
	return c, err
}

func (g *group) replaceContainer(c *Container, p storetype.ContainerProperties) error {
	l := g.db.writeState(c)
	if l == nil {
		return notFound("container %s", c.name)
	}
	if p.ETag != "" && p.ETag != "*" && p.ETag != c.properties(l.meta).ETag {
		return fmt.Errorf("%w: container %q has another etag", storetype.ErrPreconditionFailed, c.name)
	}
	if p.KeyPaths != nil && !slices.Equal(p.KeyPaths, l.meta.props.KeyPaths) ||
		p.KeyVersion != storetype.DefaultHash && p.KeyVersion != l.meta.props.KeyVersion {
		return layout.BadRequest(storetype.BadProperties, "the partition key of container %q cannot be changed", c.name)
	}
	if p.UniqueKeys != nil && !sameUniqueKeys(p.UniqueKeys, l.meta.props.UniqueKeys) {
		return layout.BadRequest(storetype.BadProperties, "the unique keys of container %q cannot be changed; create another container", c.name)
	}
	m := l.meta.change()
	m.props.DefaultTTL, m.props.Throughput = p.DefaultTTL, p.Throughput
	m.props.Extra = slices.Clone(p.Extra)
	if err := g.setRetention(l, m, p.Retention); err != nil {
		return err
	}
	m.props.Modified = unixTime(g.ts)
	m.revision++
	l.replace(g, m, l.ends)
	c.applySettings(m)
	return nil
}

// DeleteContainer implements store.DB.DeleteContainer, which documents it.
func (db *DB) DeleteContainer(ctx context.Context, database, id string) error {
	c, err := db.Container(ctx, database, id)
	if err != nil {
		return err
	}
	return db.do(ctx, func(g *group) error {
		if g.db.writeState(c) == nil {
			return notFound("container %q of database %q", id, database)
		}
		return g.deleteContainer(c)
	})
}

func (g *group) deleteContainer(c *Container) error {
	l := g.db.writeState(c)
	for _, space := range layout.ContainerSpaces {
		prefix := layout.AppendContainerKey(nil, space, c.number)
		if err := g.batch.DeleteRange(prefix, layout.Successor(prefix), nil); err != nil {
			return err
		}
	}
	if err := g.batch.Delete(layout.ContainerKey(c.number), nil); err != nil {
		return err
	}
	for _, p := range l.meta.partitions {
		g.retired = append(g.retired, p.changed)
	}
	g.retired = append(g.retired, &c.changed)
	g.db.writeStates[c.slot] = nil
	delete(g.changeCatalog().containers, containerName{c.database, c.name})
	return nil
}

// currentCatalog returns the catalog with the changes that the group has made so far. The
// caller must not change it.
func (g *group) currentCatalog() *catalog {
	if g.catalog != nil {
		return g.catalog
	}
	return g.db.current.catalog // read without a lock, because only the sequencer sets current
}

// changeCatalog returns the group's own copy of the catalog, which the caller may change.
// It makes the copy at the first change.
func (g *group) changeCatalog() *catalog {
	if g.catalog == nil {
		c := g.db.current.catalog
		g.catalog = &catalog{databases: maps.Clone(c.databases), containers: maps.Clone(c.containers)}
	}
	return g.catalog
}

func (g *group) putNumbers() error {
	b, err := json.Marshal(g.db.numbers)
	if err != nil {
		return fmt.Errorf("encode numbers: %w", err)
	}
	return g.batch.Set([]byte{layout.SpaceNumbers}, b, nil)
}

// openDatabase returns the current view, and the database with name id in it. The caller
// must release the view.
func (db *DB) openDatabase(ctx context.Context, id string) (*view, *database, error) {
	v, err := db.acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	d := v.catalog.databases[id]
	if d == nil {
		v.release()
		return nil, nil, notFound("database %q", id)
	}
	return v, d, nil
}

// Container is a handle to a container. All handles to one container are the same
// pointer. After the container is deleted, its methods return errors that wrap
// feed.ErrNotFound. A Container is safe for concurrent use.
type Container struct {
	db *DB
	// number identifies the container in keys. slot is the container's index in
	// view.states and DB.writeStates.
	number uint32
	slot   int

	database     uint32
	databaseName string
	name         string
	// identity is made of number, database, databaseName and name. It is computed once,
	// because a server needs it for every request.
	identity feed.Identity

	paths layout.KeyPaths
	hash  epk.Hash
	// systemKey reports whether the container has no partition key of its own.
	systemKey bool
	tail      *layout.TailFormat
	// unique is nil if the container has no unique keys.
	unique *uniquePolicy

	// bucket is the container's own throughput, if dedicated is true. Otherwise shared, the
	// throughput of its database, bounds its requests.
	bucket    bucket
	dedicated atomic.Bool
	shared    *bucket
	// arranging has an element while a split or a merge runs, since only one may run.
	arranging chan struct{}
	// changed wakes the feed reads that cover several partitions. It stores the version
	// of the container's last published state.
	changed signal
	// useTTL reports whether the container has a time to live. Goroutines other than the
	// sequencer use it to check the ttl of new documents.
	useTTL atomic.Bool
	// change is the mean size in bytes of the changes on the last page of the feed. It is
	// used to estimate the memory of the next page.
	change atomic.Int64
}
