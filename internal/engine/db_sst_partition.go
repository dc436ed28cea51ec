package engine

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/internal/layout"
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
	// window is the number of bytes after which prefixes is computed again.
	window int
	// sum is the number of bytes written since prefixes was last computed. bytes has that
	// number for each segment. Only the sequencer uses them.
	sum   int
	bytes map[[layout.SegmentKeySize]byte]int
	// prefixes has the sorted key prefixes of the segments that had a large share of the
	// last window. Pebble's goroutines read it.
	prefixes atomic.Pointer[[][]byte]
}

// A segment has files of its own if at least 1/largeShare of the window's bytes and at
// least minLarge bytes were written to it.
const (
	largeShare = 16
	minLarge   = 512 << 10
)

// note adds the size in bytes of a new log entry to the count of the entry's segment. key
// is the entry's log key. When a window is full, note computes prefixes from the counts.
func (b *sstPartitions) note(key []byte, size int) {
	if b.bytes == nil {
		b.bytes = map[[layout.SegmentKeySize]byte]int{}
	}
	b.bytes[[layout.SegmentKeySize]byte(key)] += size
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

// span returns the key at which a file that begins with the key start must end. That is
// the start of the next segment with files of its own. If start is inside such a segment,
// it is the end of that segment. A nil end means that there is no limit.
func (b *sstPartitions) span(start []byte) (policy pebble.SpanPolicy, end []byte, err error) {
	prefixes := b.prefixes.Load()
	if prefixes == nil {
		return policy, nil, nil
	}
	for _, p := range *prefixes {
		if bytes.HasPrefix(start, p) {
			return policy, layout.Successor(p), nil
		}
		if bytes.Compare(start, p) < 0 {
			return policy, p, nil
		}
	}
	return policy, nil, nil
}
