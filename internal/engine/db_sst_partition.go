package engine

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// sstPartitions are the log segments that get a large share of the writes. Each gets files of its
// own when Pebble flushes and compacts.
//
// A segment's entries come in the order of their keys, so the files that successive
// flushes make of it lie one behind the other, and a compaction moves them to another level
// as they are. But a flush writes its keys into files one after the other, and a file that holds the
// end of one segment and the beginning of the next overlaps with those of all other flushes: then
// the documents, which are nearly all of the bytes, are written anew by every compaction that the
// index needs. (Measured with 4 partitions and 64 writers of 1 KB: a third of the processor's time.)
//
// It is no more than a hint. Where the files are cut changes nothing of what is in them, so
// it needn't be exact, nor known after a restart.
type sstPartitions struct {
	// window is how many bytes are written between two updates of prefixes.
	window int
	// sum and bytes are what was written in the window at hand. They are the sequencer's own.
	sum   int
	bytes map[[segmentKeySize]byte]int
	// prefixes are the keys' beginnings of the segments that got a large share of the last window,
	// sorted; read by Pebble's goroutines.
	prefixes atomic.Pointer[[][]byte]
}

// A segment gets files of its own if its share of the window is at least 1/largeShare and at
// least minLarge bytes.
const (
	largeShare = 16
	minLarge   = 512 << 10
)

// note counts an entry of a log.
func (b *sstPartitions) note(key []byte, size int) {
	if b.bytes == nil {
		b.bytes = map[[segmentKeySize]byte]int{}
	}
	b.bytes[[segmentKeySize]byte(key)] += size
	if b.sum += size; b.sum < b.window {
		return
	}
	var prefixes [][]byte
	for prefix, n := range b.bytes {
		if n >= max(b.window/largeShare, minLarge) {
			prefixes = append(prefixes, bytes.Clone(prefix[:]))
		}
	}
	slices.SortFunc(prefixes, bytes.Compare)
	b.prefixes.Store(&prefixes)
	b.sum = 0
	clear(b.bytes)
}

// span tells Pebble where the file that begins with start has to end: in front of the
// next segment with files of its own, or at the end of the one that start is in.
func (b *sstPartitions) span(start []byte) (policy pebble.SpanPolicy, end []byte, err error) {
	prefixes := b.prefixes.Load()
	if prefixes == nil {
		return policy, nil, nil
	}
	for _, p := range *prefixes {
		if bytes.HasPrefix(start, p) {
			return policy, successor(p), nil
		}
		if bytes.Compare(start, p) < 0 {
			return policy, p, nil
		}
	}
	return policy, nil, nil
}
