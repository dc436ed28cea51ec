package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// indexCache holds the index entries of recent writes, which may be in a memtable only.
// Without it, every write would search the memtables, which have no filters; that costs as
// much as the rest of the sequencer's work. Entries that are not cached are read from the
// files, whose filters exclude most missing keys. Only the sequencer uses the cache.
//
// The cache relies on one property of Pebble: at any moment the files hold all batches up to
// some batch, and none after it. Each group writes the counters of its partitions, with their
// LSN. Files that show an LSN hold the whole group that wrote it, and all groups before.
type indexCache struct {
	seed maphash.Seed
	// generations are in the order of the writes, oldest first; the last one is being filled. What was
	// written before the first is in the files.
	generations []*generation
	// keys is how many keys a generation has before the next begins, and most how many generations there are.
	keys, most int
	// mask has the bits of a hash that tell keys apart.
	mask uint32
}

// generation is what some groups in a row have written.
type generation struct {
	// at is where in records the record of a key begins, by the key's hash; of keys that share one, that of the last one written.
	at map[uint32]uint32
	// records are, one behind the other: the length of the index key (2 bytes), the key, and the entry as it is in the index, with LSN 0 when
	// the item was deleted. There are no pointers in it, for the collector's sake.
	records []byte
	// any stands for all keys: of those that were written before the store was opened nothing is known.
	any bool
	// mark is written with the last of the generation's groups, or later; its zero value: there is none yet.
	mark mark
}

// cacheState is the place where the last write of an item is stored.
type cacheState int

const (
	inFiles cacheState = iota
	// inCache: the cache has the entry.
	inCache
	// anywhere: it may be in a memtable or in the files.
	anywhere
)

// mark is the last LSN of a partition as a group left it; 0: there is no mark.
type mark struct {
	container, partition uint32
	lsn                  int64
}

const (
	// generationKeys is how many keys a generation has before the next begins: a memtable holds a few times as many
	// documents of a kilobyte.
	generationKeys = 16 << 10
	// generationBytes is how many bytes of records a generation has before the next begins, however few keys they are of.
	generationBytes = 2 << 20
	// maxGenerations bounds the memory, at about 100 bytes a key, and how many maps are asked. Memtables full of tiny documents may
	// hold more keys; then all are searched, as if nothing were known.
	maxGenerations = 16
)

// newIndexCache begins with a store that was just opened: with nothing, if all that it holds is in files.
func newIndexCache(db *DB) indexCache {
	r := indexCache{seed: maphash.MakeSeed(), keys: generationKeys, most: maxGenerations, mask: math.MaxUint32}
	if settled, err := allInFiles(db.pebble); err != nil || !settled {
		r.generations = []*generation{{any: true}} // an error comes again with the first write
	}
	return r
}

// allInFiles reports whether the files show the counters of all partitions as the memtables do: those that the last group wrote
// are among them.
func allInFiles(p *pebbleDB) (settled bool, err error) {
	o := pebble.IterOptions{LowerBound: []byte{spacePartition}, UpperBound: []byte{spacePartition + 1}}
	all, err := p.NewIter(&o)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	o.OnlyReadGuaranteedDurable = true
	files, err := p.NewIter(&o)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	for all.First(); all.Valid(); all.Next() {
		if !files.SeekGE(all.Key()) || !bytes.Equal(files.Key(), all.Key()) {
			return false, files.Error()
		}
		a, errA := all.ValueAndErr()
		f, errF := files.ValueAndErr()
		if errA != nil || errF != nil || !bytes.Equal(a, f) {
			return false, errors.Join(errA, errF)
		}
	}
	return true, all.Error()
}

// find looks for the entry that the last write of an item has left; ok is false when that was a delete. Both are of use only where
// the answer is inCache.
func (r *indexCache) find(key []byte) (e entry, ok bool, where cacheState, err error) {
	h := uint32(maphash.Bytes(r.seed, key)) & r.mask
	for i := len(r.generations) - 1; i >= 0; i-- {
		value, taken := r.generations[i].find(h, key)
		if value != nil {
			e, err = decodeEntry(value)
			return e, e.lsn != 0, inCache, err
		}
		if taken {
			return e, false, anywhere, nil
		}
	}
	if len(r.generations) > 0 && r.generations[0].any {
		return e, false, anywhere, nil
	}
	return e, false, inFiles, nil
}

// find returns the encoded entry in a key's record, or nil; taken tells that the last key with this hash is another one.
func (g *generation) find(h uint32, key []byte) (value []byte, taken bool) {
	at, is := g.at[h]
	if !is {
		return nil, false
	}
	record := g.records[at:]
	n := int(binary.BigEndian.Uint16(record))
	if record = record[2:]; !bytes.Equal(record[:n], key) {
		return nil, true
	}
	return record[n : n+entrySize], false
}

// put keeps the entry of a key; its zero value: the item was deleted.
func (g *generation) put(h uint32, key string, e *entry) {
	value := e.encode()
	if old, _ := g.find(h, []byte(key)); old != nil {
		copy(old, value[:])
		return
	}
	g.at[h] = uint32(len(g.records))
	g.records = binary.BigEndian.AppendUint16(g.records, uint16(len(key)))
	g.records = append(append(g.records, key...), value[:]...)
}

// add notes what a group has written; m is of the same group.
func (r *indexCache) add(written map[string]version, m mark) {
	if len(written) == 0 {
		return
	}
	last := r.last()
	for key, v := range written {
		last.put(uint32(maphash.String(r.seed, key))&r.mask, key, &v.entry)
	}
	// A generation whose mark is gone, with its partition, takes the next one: a later mark is as true, and only comes later.
	for _, g := range r.generations {
		if g == last || g.mark.lsn == 0 {
			g.mark = m
		}
	}
}

// last is the generation to fill.
func (r *indexCache) last() *generation {
	if len(r.generations) > r.most {
		r.generations = []*generation{{any: true}} // in an array of its own, which keeps nothing of what is forgotten
	}
	if n := len(r.generations); n > 0 {
		if g := r.generations[n-1]; !g.any && len(g.at) < r.keys && len(g.records) < generationBytes {
			return g
		}
	}
	g := &generation{at: map[uint32]uint32{}}
	r.generations = append(r.generations, g)
	return g
}

// trim forgets the oldest generation if all of it is in the files, which it shows; the next group looks at the next one.
func (r *indexCache) trim(files *pebble.Iterator) error {
	if len(r.generations) < 2 {
		return nil
	}
	oldest := r.generations[0]
	if oldest.mark.lsn == 0 {
		return nil
	}
	if !files.SeekPrefixGE(partitionKeyOf(oldest.mark.container, oldest.mark.partition)) {
		oldest.mark = mark{} // the partition is gone, or so new that it is in no file
		return files.Error()
	}
	value, err := files.ValueAndErr()
	if err != nil {
		return err
	}
	c, err := decodeCounters(value)
	if err != nil {
		return err
	}
	if c.lsn >= oldest.mark.lsn {
		r.generations = slices.Delete(r.generations, 0, 1)
	}
	return nil
}
