package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/internal/disk"
	"github.com/changefeed-go/changefeed/internal/layout"
)

// indexCache holds the index entries of recent writes, which may be only in a memtable.
// Without it, every write would search the memtables, which have no filters. Those
// searches cost as much as the rest of the sequencer's work. Entries that are not cached
// are read from the files, whose filters exclude most missing keys. Only the sequencer
// uses the cache.
//
// The cache relies on one property of Pebble. At any moment the files hold all batches up
// to some batch, and none after it. Each group writes the counters of its partitions,
// with their LSN. Files that show an LSN hold the whole group that wrote it, and all
// earlier groups.
type indexCache struct {
	seed maphash.Seed
	// generations are in the order of the writes, oldest first. The last one receives new
	// entries. All writes before the first one are in the files.
	generations []*generation
	// keys is the number of keys at which a generation is full. most is the largest
	// number of generations.
	keys, most int
	// mask selects the bits of a key's hash that the cache uses. Tests set it so that
	// keys share a hash.
	mask uint32
}

// generation holds the index entries of consecutive groups.
type generation struct {
	// at maps the hash of a key to the offset of the key's record in records. If several
	// keys share a hash, at has the record that was written last.
	at map[uint32]uint32
	// records has one record after the other: the length of the index key (2 bytes), the
	// key, and the entry in the index's format. The LSN of a deleted item's entry is 0.
	// records has no pointers, so that the garbage collector need not scan it.
	records []byte
	// any reports whether this generation stands for writes that are not cached, and so
	// for any key. These are the writes before the store was opened, or before the cache
	// was reset.
	any bool
	// until shows when all of the generation is in the files: when the files have this
	// write. It is zero until it is set.
	until lastWrite
}

// cacheState is the place of an item's current index entry.
type cacheState int

const (
	// inFiles means that the files have the current entry. If they have none, the item
	// does not exist.
	inFiles cacheState = iota
	// inCache means that the cache has the entry.
	inCache
	// anywhere means that the entry may be in a memtable or in the files.
	anywhere
)

// lastWrite is the last LSN that a group wrote to one partition. Files that have this LSN
// hold the whole group. If lsn is 0, there is none.
type lastWrite struct {
	container, partition uint32
	lsn                  int64
}

const (
	// generationKeys is the number of keys at which a generation is full. A memtable
	// holds a few times as many documents of 1 KB.
	generationKeys = 16 << 10
	// generationBytes is the size of records, in bytes, at which a generation is full.
	generationBytes = 2 << 20
	// maxGenerations bounds the memory, at about 100 bytes a key, and the number of maps
	// that a lookup reads. Memtables full of tiny documents may hold more keys. The cache
	// is then reset, and every lookup searches the memtables.
	maxGenerations = 16
)

// newIndexCache returns the cache of a store that was just opened. The cache is empty if
// all of the store's data is in files.
func newIndexCache(db *DB) indexCache {
	r := indexCache{seed: maphash.MakeSeed(), keys: generationKeys, most: maxGenerations, mask: math.MaxUint32}
	if settled, err := allInFiles(db.pebble); err != nil || !settled {
		r.generations = []*generation{{any: true}} // the first write returns the error, too
	}
	return r
}

// allInFiles reports whether the files have the same partition counters as the memtables.
// Every group writes counters, so all of the data is then in the files.
func allInFiles(p *disk.Pebble) (settled bool, err error) {
	o := pebble.IterOptions{LowerBound: []byte{layout.SpacePartition}, UpperBound: []byte{layout.SpacePartition + 1}}
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

// find returns where the current index entry of an item is. If that is inCache, e is the
// entry, and ok is false if the item was deleted. Otherwise e and ok have no meaning.
func (r *indexCache) find(key []byte) (e layout.Entry, ok bool, where cacheState, err error) {
	h := uint32(maphash.Bytes(r.seed, key)) & r.mask
	for i := len(r.generations) - 1; i >= 0; i-- {
		value, taken := r.generations[i].find(h, key)
		if value != nil {
			e, err = layout.DecodeEntry(value)
			return e, e.LSN != 0, inCache, err
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

// find returns the encoded entry of a key, or nil. taken reports whether another key with
// the same hash was written later.
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
	return record[n : n+layout.EntrySize], false
}

// put stores the entry of a key. The zero entry means that the item was deleted.
func (g *generation) put(h uint32, key string, e *layout.Entry) {
	value := e.Encode()
	if old, _ := g.find(h, []byte(key)); old != nil {
		copy(old, value[:])
		return
	}
	g.at[h] = uint32(len(g.records))
	g.records = binary.BigEndian.AppendUint16(g.records, uint16(len(key)))
	g.records = append(append(g.records, key...), value[:]...)
}

// add stores the index entries that a group has written. end is the group's
// last write.
func (r *indexCache) add(written map[string]version, end lastWrite) {
	if len(written) == 0 {
		return
	}
	last := r.last()
	for key, v := range written {
		last.put(uint32(maphash.String(r.seed, key))&r.mask, key, &v.Entry)
	}
	// A generation has none if the partition of its last write is gone. It then takes the
	// current one. A later one is as correct, but the files show it later.
	for _, g := range r.generations {
		if g == last || g.until.lsn == 0 {
			g.until = end
		}
	}
}

// last returns the generation that receives new entries. It creates one if the last one
// is full.
func (r *indexCache) last() *generation {
	if len(r.generations) > r.most {
		r.generations = []*generation{{any: true}} // a new array releases the memory of the old generations
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

// trim deletes the oldest generation if the files show all of it. It checks one
// generation per group.
func (r *indexCache) trim(files *pebble.Iterator) error {
	if len(r.generations) < 2 {
		return nil
	}
	oldest := r.generations[0]
	if oldest.until.lsn == 0 {
		return nil
	}
	if !files.SeekPrefixGE(layout.PartitionKeyOf(oldest.until.container, oldest.until.partition)) {
		oldest.until = lastWrite{} // the partition does not exist any more, or no file has it yet
		return files.Error()
	}
	value, err := files.ValueAndErr()
	if err != nil {
		return err
	}
	c, err := layout.DecodeCounters(value)
	if err != nil {
		return err
	}
	if c.LSN >= oldest.until.lsn {
		r.generations = slices.Delete(r.generations, 0, 1)
	}
	return nil
}
