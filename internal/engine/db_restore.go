package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/disk"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// Restoration describes what [Restore] does to a store.
type Restoration struct {
	// LastWrite is the time of the last write that the copy has. It is zero if it has
	// none.
	LastWrite time.Time
	// Previous is the time of the previous restore of the store. It is zero if there was
	// none.
	Previous time.Time
	// Incarnation is a random number that no earlier restore of the store has. It is never
	// 0.
	Incarnation uint32
	// Databases is the number of databases.
	Databases int
	// Containers are sorted by database and name.
	Containers []RestoredContainer

	// now is the time of the restore.
	now time.Time
}

// RestoredContainer is a container of a restored store.
type RestoredContainer struct {
	Database, Container string
	// Partitions are the live partitions, sorted by range.
	Partitions []RestoredPartition
}

// RestoredPartition is a live partition of a restored store.
type RestoredPartition struct {
	ID    string
	Range feed.Range
	// Last is the last LSN that the copy has. Next is the LSN of the next transaction. No
	// transaction will have an LSN in between.
	Last, Next int64
}

// Numbers that the lost part of a store may have assigned since the copy was made. A
// restore leaves out that many and up to sixteen times as many, at random, because an earlier
// restore of the same copy has left out others. It never leaves out more than a quarter of
// those that are left, so that no number of restores uses them up.
const (
	lostObjects    = 1 << 12 // databases, containers, and records
	lostPartitions = 1 << 10
	lostDocuments  = 1 << 24
)

// skip returns the number after which a counter goes on after a restore. last is the last
// assigned number, and most the highest possible one.
func skip(last, lost, most uint32) uint32 {
	return last + min(lost+rand.Uint32N(15*lost), (most-last)/4)
}

// Restore must be called once after the directory dir was replaced by an older copy of a
// store, before anything else opens it. It opens the store and checks it. Then it makes
// sure that the store never uses again what the lost part may have used: LSNs, ETags,
// session tokens, resource ids and partition IDs. Each partition goes on above a hole of at
// least 2^32 LSNs, and readers whose positions are beyond the copy get a
// *feed.HistoryLostError. The same copy may be restored again later: the hole's end depends on
// the clock.
//
// Restore calls confirm with what it is about to do, unless confirm is nil. If that returns
// false, Restore changes nothing and returns [ErrNotConfirmed]. The change is one atomic
// batch, so Restore may be called again after a crash. A second call makes a second hole,
// which does no harm.
//
// Restore returns the errors of [Open], an error that wraps fs.ErrNotExist if dir has no
// store, and the damage that [DB.Check] finds.
func Restore(ctx context.Context, dir string, o Options, confirm func(Restoration) (bool, error)) (r Restoration, err error) {
	o = o.withDefaults()
	// A purge would write transactions with LSNs that the lost part has used.
	o.PurgeInterval = -1
	if _, err := o.FS.Stat(o.FS.PathJoin(dir, disk.FormatFile)); errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%s has no store: %w", dir, err)
	}
	db, err := Open(dir, o)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Check(ctx); err != nil && !onlyClashes(err) {
		return r, err
	}
	if r, err = db.restoration(ctx); err != nil {
		return r, err
	}
	if confirm != nil {
		if yes, err := confirm(r); err != nil || !yes {
			return r, cmp.Or(err, ErrNotConfirmed)
		}
	}
	return r, db.do(ctx, func(g *group) error { return g.restore(r) })
}

// ErrNotConfirmed is returned by [Restore] if its caller does not confirm the change.
var ErrNotConfirmed = errors.New("not confirmed")

// onlyClashes reports whether an error of Check has only items that break a unique key,
// which are not damage.
func onlyClashes(err error) bool {
	_, clash := errors.AsType[*storetype.UniqueKeyError](err)
	_, damage := errors.AsType[*storetype.CorruptError](err)
	return clash && !damage
}

// restoration returns what a restore would do now.
func (db *DB) restoration(ctx context.Context) (r Restoration, err error) {
	v, err := db.acquire(ctx)
	if err != nil {
		return r, err
	}
	defer v.release()
	var numbers numbersRecord
	if err := getJSON(v.snap, []byte{layout.SpaceNumbers}, &numbers); err != nil {
		return r, err
	}
	if numbers.Restored > 0 {
		r.Previous = unixTime(numbers.Restored)
	}
	// ETags have 16 bits of the incarnation.
	for r.Incarnation == 0 || uint16(r.Incarnation) == uint16(numbers.Incarnation) {
		r.Incarnation = rand.Uint32()
	}
	r.Databases, r.now = len(v.catalog.databases), time.Now()
	for _, s := range v.states {
		if s == nil {
			continue
		}
		c := RestoredContainer{Database: s.c.databaseName, Container: s.c.name}
		for i, p := range s.meta.partitions {
			n, err := loadCounters(v.snap, s.c, p)
			if err != nil {
				return r, err
			}
			if t := unixTime(n.TS); n.TS > 0 && t.After(r.LastWrite) {
				r.LastWrite = t
			}
			c.Partitions = append(c.Partitions, RestoredPartition{ID: p.id, Range: p.keys, Last: s.ends[i], Next: holeEnd(s.ends[i], r.now) + 1})
		}
		r.Containers = append(r.Containers, c)
	}
	slices.SortFunc(r.Containers, func(a, b RestoredContainer) int {
		return cmp.Or(strings.Compare(a.Database, b.Database), strings.Compare(a.Container, b.Container))
	})
	return r, nil
}

// restore makes the store go on above all numbers that the lost part may have used.
func (g *group) restore(r Restoration) error {
	db := g.db
	for _, l := range db.writeStates {
		if l != nil && slices.Max(l.ends) > layout.MaxLSN-2*holeWidth {
			return storetype.ErrFull
		}
	}
	for _, l := range db.writeStates {
		if l == nil {
			continue
		}
		m, ends := l.meta.change(), slices.Clone(l.ends)
		m.holes = slices.Clone(m.holes)
		for i, p := range m.partitions {
			end := holeEnd(ends[i], r.now)
			m.holes = addHole(m.holes, hole{Min: p.keys.Min, Max: p.keys.Max, From: ends[i], To: end})
			ends[i] = end
		}
		m.next = skip(m.next, lostPartitions, math.MaxUint32)
		l.docs = skip(l.docs, lostDocuments, layout.MaxDocumentNumber)
		l.replace(g, m, ends)
	}
	n := &db.numbers
	n.Database = skip(n.Database, lostObjects, math.MaxUint32)
	n.Container = skip(n.Container, lostObjects, layout.MaxContainerNumber)
	n.Record = skip(n.Record, lostObjects, maxRecordNumber)
	n.Incarnation, n.Restored = r.Incarnation, g.ts
	return g.putNumbers()
}
