package store

import (
	"bytes"
	"errors"
	"hash/maphash"

	"github.com/cockroachdb/pebble/v2"
)

// recent knows which index keys may be in a memtable only. An item that isn't among them is looked up in the files alone, whose
// filters tell at once of most that aren't there; a memtable has no filter, and a search in one costs as much as all
// else that the sequencer does for a write. Only the sequencer touches it.
//
// It relies on one property of Pebble: what is on disk at any moment, memtables aside, is all that was applied up to some batch and
// nothing behind it. The counters of a partition with their LSN, which each group writes, tell how far that goes: where the files
// show an LSN, they show the whole group that wrote it and all groups before.
type recent struct {
	seed maphash.Seed
	// generations are in the order of the writes, oldest first; the last one is being filled. What was
	// written before the first is in the files.
	generations []*generation
	// keys is how many keys a generation has before the next begins, and most how many generations there are.
	keys, most int
}

// generation is the keys of some groups in a row.
type generation struct {
	// hashes are of the keys. A hash that two keys share only costs a search.
	hashes map[uint64]struct{}
	// any stands for all keys: of those that were written before the store was opened nothing is known.
	any bool
	// mark is written with the last of the generation's groups, or later; its zero value: there is none yet.
	mark mark
}

// mark is the last LSN of a partition as a group left it; 0: there is no mark.
type mark struct {
	container, partition uint32
	lsn                  int64
}

const (
	// generationKeys is how many keys a generation has before the next begins: a memtable holds a few times as many
	// documents of a kilobyte.
	generationKeys = 16 << 10
	// maxGenerations bounds the memory, at about 20 bytes a key, and how many maps are asked. Memtables full of tiny documents may
	// hold more keys; then all are searched, as if nothing were known.
	maxGenerations = 16
)

// newRecent begins with a store that was just opened: with nothing, if all that it holds is in files.
func newRecent(db *DB) recent {
	r := recent{seed: maphash.MakeSeed(), keys: generationKeys, most: maxGenerations}
	if settled, err := allInFiles(db.pebble); err != nil || !settled {
		r.generations = []*generation{{any: true}} // an error comes again with the first write
	}
	return r
}

// allInFiles reports whether the files show the counters of all partitions as the memtables do: those that the last group wrote
// are among them.
func allInFiles(p *pebble.DB) (settled bool, err error) {
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

// has reports whether a key may be in a memtable.
func (r *recent) has(key []byte) bool {
	if len(r.generations) > 0 && r.generations[0].any {
		return true
	}
	h := maphash.Bytes(r.seed, key)
	for _, g := range r.generations {
		if _, ok := g.hashes[h]; ok {
			return true
		}
	}
	return false
}

// add notes what a group has written; m is of the same group.
func (r *recent) add(written map[string]version, m mark) {
	if len(written) == 0 {
		return
	}
	last := r.last()
	for key := range written {
		last.hashes[maphash.String(r.seed, key)] = struct{}{}
	}
	// A generation whose mark is gone, with its partition, takes the next one: a later mark is as true, and only comes later.
	for _, g := range r.generations {
		if g == last || g.mark.lsn == 0 {
			g.mark = m
		}
	}
}

// last is the generation to fill.
func (r *recent) last() *generation {
	if len(r.generations) > r.most {
		r.generations = append(r.generations[:0], &generation{any: true})
	}
	if n := len(r.generations); n > 0 {
		if g := r.generations[n-1]; !g.any && len(g.hashes) < r.keys {
			return g
		}
	}
	g := &generation{hashes: map[uint64]struct{}{}}
	r.generations = append(r.generations, g)
	return g
}

// trim forgets the oldest generation if all of it is in the files, which it shows; the next group looks at the next one.
func (r *recent) trim(files *pebble.Iterator) error {
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
		r.generations = append(r.generations[:0], r.generations[1:]...)
	}
	return nil
}
