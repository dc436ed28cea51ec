package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// maxFindings is the largest number of broken invariants that Check reports.
const maxFindings = 20

// Check implements store.DB.Check, which documents it.
func (db *DB) Check(ctx context.Context) error {
	v, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer v.release()
	k := &checker{db: db, v: v, ctx: ctx, known: map[uint32]*state{}}
	if err := k.run(); err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("check: %w", errors.Join(append(k.found, db.fault(err))...))
	}
	return errors.Join(append(k.found, k.clashes...)...)
}

// errEnough ends Check early when maxFindings broken invariants were found.
var errEnough = errors.New("enough found")

// checker checks one view of the store and collects the broken invariants.
type checker struct {
	db    *DB
	v     *view
	ctx   context.Context // the argument of Check
	known map[uint32]*state
	found []error
	// clashes has an error for each item that breaks a unique key, at most maxFindings.
	// They are not damage.
	clashes []error
	n       int
}

// report adds a broken invariant to the findings. It returns errEnough when there are
// maxFindings of them.
func (k *checker) report(format string, args ...any) error {
	k.found = append(k.found, &storetype.CorruptError{Dir: k.db.dir.Name, Detail: fmt.Sprintf(format, args...)})
	if len(k.found) >= maxFindings {
		return errEnough
	}
	return nil
}

// step is called for each entry that the check reads. Once every checkEvery entries it
// returns the error of the context.
func (k *checker) step() error {
	if k.n++; k.n%checkEvery == 0 {
		return k.ctx.Err()
	}
	return nil
}

func (k *checker) run() error {
	for _, s := range k.v.states {
		if s != nil {
			k.known[s.c.number] = s
		}
	}
	if err := k.checkCatalog(); err != nil {
		return err
	}
	if err := k.checkSpaces(); err != nil {
		return err
	}
	for _, s := range k.v.states {
		if s == nil {
			continue
		}
		if err := k.checkTopology(s); err != nil {
			return err
		}
		if err := (&containerCheck{checker: k, s: s, c: s.c}).run(); err != nil {
			return err
		}
	}
	return nil
}

// checkCatalog compares the databases and containers of the view with the stored ones. No
// stored number may be above the last assigned one.
func (k *checker) checkCatalog() error {
	var numbers numbersRecord
	if err := getJSON(k.v.snap, []byte{layout.SpaceNumbers}, &numbers); err != nil {
		return err
	}
	databases := map[uint32]bool{}
	err := eachKey(k.v.snap, []byte{layout.SpaceDatabase}, func(key, _ []byte) error {
		n := binary.BigEndian.Uint32(key[1:])
		databases[n] = true
		if n > numbers.Database {
			return k.report("database number %d is above the last assigned one, %d", n, numbers.Database)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(databases) != len(k.v.catalog.databases) {
		if err := k.report("%d databases are stored and %d are open", len(databases), len(k.v.catalog.databases)); err != nil {
			return err
		}
	}
	if err := k.checkRecords(databases, numbers.Record); err != nil {
		return err
	}
	stored := 0
	err = eachKey(k.v.snap, []byte{layout.SpaceContainer}, func(key, _ []byte) error {
		n := binary.BigEndian.Uint32(key[1:])
		stored++
		s := k.known[n]
		switch {
		case s == nil:
			return k.report("container number %d is stored and not open", n)
		case n > numbers.Container:
			return k.report("container number %d is above the last assigned one, %d", n, numbers.Container)
		case !databases[s.c.database]:
			return k.report("container %s belongs to database %d, which does not exist", s.c.name, s.c.database)
		case k.v.catalog.containers[containerName{s.c.database, s.c.name}] != s.c:
			return k.report("container %s is not in the catalog", s.c.name)
		}
		return nil
	})
	if err == nil && stored != len(k.known) {
		err = k.report("%d containers are stored and %d are open", stored, len(k.known))
	}
	return err
}

// checkSpaces finds stray keys: keys in no key space, and keys of containers that do not
// exist.
func (k *checker) checkSpaces() error {
	it, err := k.v.snap.NewIter(nil)
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	for ok := it.First(); ok; {
		key := it.Key()
		switch {
		case bytes.IndexByte([]byte{layout.SpaceNumbers, layout.SpaceDatabase, layout.SpaceContainer, layout.SpaceRecord}, key[0]) >= 0:
			ok = it.SeekGE([]byte{key[0] + 1})
			continue
		case bytes.IndexByte(layout.ContainerSpaces, key[0]) < 0:
			if err := k.report("key %.40x is in no key space", key); err != nil {
				return err
			}
			ok = it.SeekGE([]byte{key[0] + 1})
			continue
		}
		if len(key) < layout.ContainerKeySize {
			return k.report("key %x is too short", key)
		}
		if n := binary.BigEndian.Uint32(key[1:]); k.known[n] == nil {
			if err := k.report("key %.40x belongs to container number %d, which does not exist", key, n); err != nil {
				return err
			}
		}
		ok = it.SeekGE(layout.Successor(key[:layout.ContainerKeySize]))
	}
	return it.Error()
}

// checkTopology verifies the partitions of a container, their log segments and their
// counters.
func (k *checker) checkTopology(s *state) error {
	var record containerRecord
	if err := getJSON(k.v.snap, layout.ContainerKey(s.c.number), &record); err != nil {
		return err
	}
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	m := s.meta
	if len(record.Partitions) != len(m.partitions) || len(record.Segments) != len(m.segments) || record.Next != m.next {
		problem("its stored partitions are not the ones in use")
	}
	lower, listed := feed.MinEPK, map[uint32]bool{}
	for i, p := range m.partitions {
		if p.keys.Min != lower || p.keys.IsEmpty() {
			problem("partition %s is %s where %q is the next key", p.id, p.keys, lower)
		}
		lower = p.keys.Max
		if p.number >= m.next {
			problem("partition %s is not below the next number, %d", p.id, m.next)
		}
		for _, n := range p.segments {
			listed[n] = true
			seg, ok := m.segments[n]
			if !ok {
				problem("partition %s reads segment %d, which does not exist", p.id, n)
			}
			if own := n == p.number; own == (seg.To != 0) || seg.From > s.ends[i] {
				problem("partition %s with end %d reads segment %d %+v", p.id, s.ends[i], n, seg)
			}
			if parent := strconv.FormatUint(uint64(n), 10); n != p.number && !slices.Contains(p.parents, parent) {
				problem("partition %s reads segment %d of a partition that is not its ancestor", p.id, n)
			}
		}
		if !slices.Contains(p.segments, p.number) {
			problem("partition %s does not read its own segment", p.id)
		}
		for _, parent := range p.parents {
			if m.byID(parent) >= 0 {
				problem("partition %s has the live ancestor %s", p.id, parent)
			}
		}
		n, err := loadCounters(k.v.snap, s.c, p)
		if err != nil {
			return err
		}
		if n.LSN != s.ends[i] {
			problem("partition %s has the last LSN %d stored and %d in use", p.id, n.LSN, s.ends[i])
		}
	}
	if lower != feed.MaxEPK {
		problem("its partitions end at %q", lower)
	}
	if len(listed) != len(m.segments) {
		problem("it has %d segments, of which partitions read %d", len(m.segments), len(listed))
	}
	for _, fault := range m.holeFaults(s.ends) {
		problem("%s", fault)
	}
	stored := 0
	err := eachKey(k.v.snap, layout.AppendContainerKey(nil, layout.SpacePartition, s.c.number), func(_, _ []byte) error {
		stored++
		return nil
	})
	if err != nil {
		return err
	}
	if stored != len(m.partitions) {
		problem("it has counters of %d partitions, and %d partitions", stored, len(m.partitions))
	}
	for _, p := range problems {
		if err := k.report("container %s: %s", s.c.name, p); err != nil {
			return err
		}
	}
	return nil
}

// checkUniqueEntries verifies that the index of unique keys has an entry for each unique
// key of one document, and counts these entries.
func (k *containerCheck) checkUniqueEntries(id string, point, stored []byte) error {
	if k.c.unique == nil {
		return nil
	}
	digests, err := k.c.unique.digests(stored)
	if err != nil {
		return k.complain("item %q: %v", id, err)
	}
	for i, d := range digests {
		key := append(appendUniquePrefix(nil, k.c.number, point, i, d), id...)
		_, err := getValue(k.v.snap, key)
		if errors.Is(err, pebble.ErrNotFound) {
			err = k.complain("item %q is not in the index of the unique key %v", id, k.c.unique.keys[i])
		} else {
			k.unique++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkUnique verifies that the index of unique keys has no other entries than those of
// documents. It also collects pairs of items with equal values.
func (k *containerCheck) checkUnique() error {
	n := 0
	err := eachKey(k.v.snap, layout.AppendContainerKey(nil, layout.SpaceUnique, k.c.number), func(_, _ []byte) error {
		n++
		return k.step()
	})
	if err == nil && n != k.unique {
		err = k.complain("the index of its unique keys has %d entries, of which %d are of its documents", n, k.unique)
	}
	if err != nil || k.c.unique == nil {
		return err
	}
	u := uniqueScan{
		r: k.v.snap, container: k.c.number, name: k.c.name, policy: k.c.unique,
		ttl: int32(k.s.meta.props.DefaultTTL), now: k.db.clock.seconds(),
	}
	return u.clashes(k.step, func(e *storetype.UniqueKeyError) bool {
		k.clashes = append(k.clashes, e)
		return len(k.clashes) < maxFindings
	})
}

// uniqueScan finds the items with equal values in the index of a container's unique keys.
type uniqueScan struct {
	r         pebble.Reader
	container uint32
	name      string
	policy    *uniquePolicy
	// ttl is the container's DefaultTTL, and now the time in seconds. Items that have
	// expired at now are skipped.
	ttl int32
	now int64
}

// errNoMore ends uniqueScan.clashes early, because f has returned false.
var errNoMore = errors.New("no more wanted")

// clashes calls f for each live item that has the same unique values as the live item
// before it in the index. It ends when f returns false. It calls step for each entry, and
// ends with step's error.
func (u *uniqueScan) clashes(step func() error, f func(*storetype.UniqueKeyError) bool) error {
	var prefix []byte // the part of the last live item's key before its id
	var last string
	err := eachKey(u.r, layout.AppendContainerKey(nil, layout.SpaceUnique, u.container), func(key, value []byte) error {
		if err := step(); err != nil {
			return err
		}
		e, err := decodeUniqueEntry(key, value)
		if err != nil || e.key >= len(u.policy.keys) {
			return errors.Join(err, layout.Corrupt("the unique index entry %x is of unique key %d", key, e.key))
		}
		item, ok, err := lookup(u.r, append(append(layout.AppendContainerKey(nil, layout.SpaceIndex, u.container), e.point...), e.id...))
		if err != nil || !ok || layout.Expired(item.TS, u.ttl, item.TTL, u.now) {
			return err
		}
		if bytes.Equal(e.prefix, prefix) && !f(&storetype.UniqueKeyError{Container: u.name, Paths: u.policy.keys[e.key], ID: string(e.id), Other: last}) {
			return errNoMore
		}
		prefix, last = append(prefix[:0], e.prefix...), string(e.id)
		return nil
	})
	if errors.Is(err, errNoMore) {
		return nil
	}
	return err
}
