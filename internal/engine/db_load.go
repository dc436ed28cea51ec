package engine

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/disk"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/layout"
)

// load reads the catalog and the counters from an engine, and publishes its first view.
// Containers and partitions of the current view are kept, so handles to them stay valid.
func (db *DB) load(e *disk.Pebble) error {
	old := db.current
	v := &view{engine: e, snap: e.NewSnapshot(), catalog: &catalog{
		databases: map[string]*database{}, containers: map[containerName]*Container{},
	}}
	last, err := db.loadCatalog(v)
	if err != nil {
		return errors.Join(err, v.snap.Close())
	}
	if old == nil {
		db.clock = newClock(last, db.options.Logger)
		db.incarnation = uint16(db.numbers.Incarnation)
	}
	v.states = make([]*state, len(db.writeStates))
	for slot, l := range db.writeStates {
		if l != nil {
			v.states[slot] = l.state()
			l.c.applySettings(l.meta)
		}
	}
	for _, d := range v.catalog.databases {
		db.provision(d)
	}
	db.publish(v)
	for _, l := range db.writeStates {
		if l == nil {
			continue
		}
		for i, p := range l.meta.partitions {
			p.changed.advance(l.ends[i])
		}
		if old != nil {
			l.c.changed.advance(l.version)
		}
	}
	v.retireFrom(old)
	return nil
}

// retireFrom retires the containers and partitions of old that v does not have. That
// wakes their readers.
func (v *view) retireFrom(old *view) {
	if old == nil {
		return
	}
	for _, s := range old.states {
		if s == nil {
			continue
		}
		now, err := v.state(s.c)
		if err != nil {
			s.c.changed.retire()
		}
		for _, p := range s.meta.partitions {
			if now == nil || now.meta.byID(p.id) < 0 {
				p.changed.retire()
			}
		}
	}
}

// keep copies the signals of s's partitions to the same partitions of m.
func (s *state) keep(m *meta) {
	for _, p := range m.partitions {
		if i := s.meta.byID(p.id); i >= 0 {
			p.changed = s.meta.partitions[i].changed
		}
	}
}

// loadCatalog fills v's catalog and the writeStates. It returns the last _ts that was
// written.
func (db *DB) loadCatalog(v *view) (last int64, err error) {
	known := db.resetCatalog()
	var added []*writeState
	if err := getJSON(v.snap, []byte{layout.SpaceNumbers}, &db.numbers); err != nil {
		return 0, err
	}
	databases := map[uint32]*database{}
	err = eachKey(v.snap, []byte{layout.SpaceDatabase}, func(key, value []byte) error {
		var r databaseRecord
		if err := json.Unmarshal(value, &r); err != nil || len(key) != layout.ContainerKeySize {
			return layout.Corrupt("database record %x: %v", key, err)
		}
		number := binary.BigEndian.Uint32(key[1:])
		d := r.load(number)
		if db.current != nil {
			if old := db.current.catalog.databases[r.ID]; old != nil && old.number == number {
				d.bucket = old.bucket // which the containers of the current view have
			}
		}
		databases[number], v.catalog.databases[r.ID] = d, d
		return nil
	})
	if err != nil {
		return 0, err
	}
	err = eachKey(v.snap, []byte{layout.SpaceContainer}, func(key, value []byte) error {
		var r containerRecord
		if err := json.Unmarshal(value, &r); err != nil || len(key) != layout.ContainerKeySize {
			return layout.Corrupt("container record %x: %v", key, err)
		}
		number := binary.BigEndian.Uint32(key[1:])
		c, l, err := db.loadContainer(known[number], number, &r, databases[r.Database])
		if err != nil {
			return err
		}
		if known[number] == nil {
			added = append(added, l)
		}
		v.catalog.containers[containerName{r.Database, r.ID}] = c
		for i, p := range l.meta.partitions {
			n, err := loadCounters(v.snap, c, p)
			if err != nil {
				return err
			}
			l.ends[i], l.docs, last = n.LSN, max(l.docs, n.Docs), max(last, n.TS)
		}
		return nil
	})
	for _, l := range added {
		db.assignSlot(l)
	}
	return last, err
}

// resetCatalog empties the sequencer's catalog. It returns the states of the current
// view's containers by number. Those containers keep their slots.
func (db *DB) resetCatalog() (known map[uint32]*state) {
	db.numbers, db.writeStates = numbersRecord{}, nil
	known = map[uint32]*state{}
	if db.current == nil {
		return known
	}
	for _, s := range db.current.states {
		if s != nil {
			known[s.c.number] = s
		}
	}
	db.writeStates = make([]*writeState, len(db.current.states))
	return known
}

// loadContainer returns the container of a record. It creates one unless known has it.
func (db *DB) loadContainer(known *state, number uint32, r *containerRecord, d *database) (*Container, *writeState, error) {
	paths, err := layout.ParseKeyPaths(r.KeyPaths)
	if err != nil || d == nil {
		return nil, nil, layout.Corrupt("container %d: database %d (missing: %t), key paths %v: %v", number, r.Database, d == nil, r.KeyPaths, err)
	}
	m, err := r.load(number)
	if err != nil {
		return nil, nil, err
	}
	l := &writeState{meta: m, ends: make([]int64, len(m.partitions)), grown: make([]growth, len(m.partitions))}
	if known != nil {
		known.keep(m)
		l.c, l.version = known.c, known.version
		db.writeStates[l.c.slot] = l
		return l.c, l, nil
	}
	unique, err := parseUniqueKeys(r.UniqueKeys)
	if err != nil {
		return nil, nil, layout.Corrupt("container %d: %v", number, err)
	}
	l.c = db.newContainer(number, d, r.ID, paths, r.Hash, unique)
	l.c.systemKey, l.c.identity.KeyPaths = r.SystemKey, r.KeyPaths
	return l.c, l, nil
}

func (db *DB) newContainer(number uint32, d *database, id string, paths layout.KeyPaths, hash epk.Hash, unique *uniquePolicy) *Container {
	return &Container{
		db: db, number: number, database: d.number, databaseName: d.id, name: id, shared: d.bucket,
		identity: feed.Identity{
			AccountHost: "localhost",
			Database:    d.id, DatabaseRID: layout.DatabaseRID(d.number),
			Container: id, ContainerRID: layout.ContainerRID(d.number, number),
		},
		paths: paths, hash: hash, tail: layout.NewTailFormat(d.number, number), unique: unique,
		arranging: make(chan struct{}, 1),
	}
}

// assignSlot assigns the first free slot to the container of a writeState.
func (db *DB) assignSlot(l *writeState) {
	for i, other := range db.writeStates {
		if other == nil {
			l.c.slot = i
			db.writeStates[i] = l
			return
		}
	}
	l.c.slot = len(db.writeStates)
	db.writeStates = append(db.writeStates, l)
}

func loadCounters(r pebble.Reader, c *Container, p *partition) (n layout.Counters, err error) {
	b, err := getValue(r, layout.PartitionKeyOf(c.number, p.number))
	if errors.Is(err, pebble.ErrNotFound) {
		return n, layout.Corrupt("partition %s of container %d has no counters", p.id, c.number)
	}
	if err != nil {
		return n, err
	}
	return layout.DecodeCounters(b)
}

// getJSON decodes the value of a key into v. It leaves v unchanged if the key does not
// exist.
func getJSON(r pebble.Reader, key []byte, v any) error {
	b, err := getValue(r, key)
	if err != nil {
		return ignoreNotFound(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return layout.Corrupt("record %x: %v", key, err)
	}
	return nil
}

// eachKey calls f for each key that begins with prefix. The arguments of f are valid only
// during the call.
func eachKey(r pebble.Reader, prefix []byte, f func(key, value []byte) error) error {
	return eachBetween(r, prefix, layout.Successor(prefix), f)
}

// eachBetween calls f for each key from lower on and below upper, as eachKey does.
func eachBetween(r pebble.Reader, lower, upper []byte, f func(key, value []byte) error) (err error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = f(it.Key(), value)
		}
		if err != nil {
			return err
		}
	}
	return it.Error()
}
