package engine

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// sstPartitions determines the log segments with a large share of the writes. Pebble's
// flushes and compactions write separate files for each of these segments.
//
// The entries of a segment are written in the order of their keys. So the files of
// successive flushes for one segment follow each other, and a compaction only moves them
// to another level. But a flush writes all keys in order. Without this type, a file would
// hold the end of one segment and the beginning of the next, and would overlap with the
// files of all other flushes. Every compaction of the index would then rewrite the
// documents, which are nearly all of the bytes. With 4 partitions and 64 writers of 1 KB,
// that took a third of the processor's time.
//
// The result is only a hint. The borders of files do not change their contents. So it
// need not be exact, and it is not stored.
type sstPartitions struct {
	// window is the number of bytes written between two updates of prefixes.
	window int
	// sum and bytes count the bytes written in the current window, in total and by
	// segment. Only the sequencer uses them.
	sum   int
	bytes map[[segmentKeySize]byte]int
	// prefixes has the key prefixes of the segments with a large share of the last
	// window, sorted. Pebble's goroutines read it.
	prefixes atomic.Pointer[[][]byte]
}

// A segment has files of its own if its share of the window is at least 1/largeShare and
// at least minLarge bytes.
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

// span returns the end of the file that begins with start. That is the beginning of the
// next segment with files of its own, or the end of such a segment that contains start.
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
