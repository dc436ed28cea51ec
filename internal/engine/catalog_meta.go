package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
)

// meta is all that is known of a container besides its documents. It is
// immutable: a change makes a new one, which the sequencer publishes together
// with the snapshot that goes with it.
type meta struct {
	props    ContainerProperties
	revision uint64 // counts the changes of props, for the ETag
	next     uint32 // the number of the next partition
	// partitions are the live ones, in the order of their ranges; they tile the
	// key space.
	partitions []*partition
	// segments are the logs that live partitions read.
	segments map[uint32]segment
}

// partition is a physical partition. It writes to a log segment of its own,
// which has its number, and reads the segments of its ancestors too, as far as
// they hold keys in its range. So a split or a merge moves no documents.
type partition struct {
	number uint32
	id     string
	keys   feed.Range
	// lower and upper are the borders of keys in binary.
	lower, upper []byte
	// segments are the partition's own and its ancestors', in the order of their
	// first LSN.
	segments []uint32
	parents  []string
	// losses are the versions that were cut off in segments that are not listed
	// any more.
	losses  []loss
	changed *signal
	size    *tally
}

// segment is a log: the one partition that wrote it is live, or was split or
// merged.
type segment struct {
	// From is the last LSN of the partition's parents when it was made; To is its
	// own last one when it was retired, 0 while it is live. The segment holds LSNs
	// with From < LSN <= To.
	From int64 `json:"from"`
	To   int64 `json:"to,omitempty"`
	// Trimmed is the LSN up to which the versions log was cut off.
	Trimmed int64 `json:"trimmed,omitempty"`
	// Min and Max are the range of the partition that wrote the segment.
	Min string `json:"min"`
	Max string `json:"max"`
}

// keys is the range that all keys of the segment lie in.
func (s segment) keys() feed.Range { return feed.Range{Min: s.Min, Max: s.Max} }

// last is the highest LSN that the segment can hold.
func (s segment) last() int64 {
	if s.To > 0 {
		return s.To
	}
	return maxLSN
}

func newPartition(number uint32, keys feed.Range, segments []uint32, parents []string) (*partition, error) {
	lower, upper, err := binaryRange(keys)
	if err != nil {
		return nil, err
	}
	return &partition{
		number: number, id: strconv.FormatUint(uint64(number), 10), keys: keys, lower: lower, upper: upper,
		segments: segments, parents: parents, changed: new(signal), size: new(tally),
	}, nil
}

func (p *partition) public() feed.Partition {
	return feed.Partition{ID: p.id, Range: p.keys, Parents: slices.Clone(p.parents)}
}

// binaryRange converts a range to binary borders. Half a byte at the end of a
// border is filled up with a zero, which leaves its order among points as it is.
func binaryRange(r feed.Range) (lower, upper []byte, err error) {
	if lower, err = epk.ParseHex(evenHex(r.Min)); err == nil {
		upper, err = epk.ParseHex(evenHex(r.Max))
	}
	if err != nil {
		return nil, nil, badRequest(BadRange, "%v", err)
	}
	return lower, upper, nil
}

func evenHex(s string) string {
	if len(s)%2 == 1 {
		return s + "0"
	}
	return s
}

// find returns the index of the partition that holds an EPK.
func (m *meta) find(key []byte) int {
	return sort.Search(len(m.partitions), func(i int) bool {
		return string(key) < string(m.partitions[i].upper)
	})
}

// byID returns the index of a live partition, -1 if there is none.
func (m *meta) byID(id string) int {
	return slices.IndexFunc(m.partitions, func(p *partition) bool { return p.id == id })
}

// change returns a copy to be changed; the partitions' slice and the segments
// are its own.
func (m *meta) change() *meta {
	c := *m
	c.partitions = slices.Clone(m.partitions)
	c.segments = make(map[uint32]segment, len(m.segments)+2)
	for n, s := range m.segments {
		c.segments[n] = s
	}
	return &c
}

// etag names the revision of a database or container.
func etagOf(number uint32, revision uint64, modified int64) string {
	return fmt.Sprintf("\"%08x-%04x-%04x-0000-%012x\"", number, revision>>16&0xffff, revision&0xffff, modified)
}

// The records of catalog entries, as they are stored.
type (
	databaseRecord struct {
		ID       string `json:"id"`
		Modified int64  `json:"modified"`
		// Revision is 0, for 1, until the database is first replaced.
		Revision uint64 `json:"revision,omitempty"`
		// Extra is a []byte, here and below, so that it is stored as base64: as JSON in JSON it
		// would come back with other white space and escapes.
		Extra []byte `json:"extra,omitempty"`
	}
	numbersRecord struct {
		Database  uint32 `json:"database"`
		Container uint32 `json:"container"`
		Record    uint32 `json:"record,omitempty"`
	}
	containerRecord struct {
		Database   uint32     `json:"database"`
		ID         string     `json:"id"`
		KeyPaths   []string   `json:"keyPaths"`
		UniqueKeys [][]string `json:"uniqueKeys,omitempty"`
		// Format is the format in which the record was last written; 0: 3 or older.
		Format     int                `json:"format,omitempty"`
		Hash       epk.Hash           `json:"hash"`
		DefaultTTL int                `json:"defaultTtl,omitempty"`
		Retention  time.Duration      `json:"retention,omitempty"` // nanoseconds
		Throughput int                `json:"throughput,omitempty"`
		Extra      []byte             `json:"extra,omitempty"`
		Modified   int64              `json:"modified"`
		Revision   uint64             `json:"revision"`
		Next       uint32             `json:"next"`
		Partitions []partitionRecord  `json:"partitions"`
		Segments   map[uint32]segment `json:"segments"`
	}
	partitionRecord struct {
		Number   uint32   `json:"number"`
		Min      string   `json:"min"`
		Max      string   `json:"max"`
		Segments []uint32 `json:"segments"`
		Parents  []string `json:"parents,omitempty"`
		Losses   []loss   `json:"losses,omitempty"`
	}
)

// record is m as it is stored.
func (m *meta) record(c *Container) ([]byte, error) {
	r := containerRecord{
		Database: c.database, ID: m.props.ID, KeyPaths: m.props.KeyPaths, Hash: c.hash,
		UniqueKeys: m.props.UniqueKeys, Format: formatVersion,
		DefaultTTL: m.props.DefaultTTL, Retention: m.props.Retention, Throughput: m.props.Throughput,
		Extra: m.props.Extra, Modified: m.props.Modified.Unix(), Revision: m.revision, Next: m.next, Segments: m.segments,
	}
	for _, p := range m.partitions {
		r.Partitions = append(r.Partitions, partitionRecord{
			Number: p.number, Min: p.keys.Min, Max: p.keys.Max, Segments: p.segments, Parents: p.parents, Losses: p.losses,
		})
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode container %s: %w", m.props.ID, err)
	}
	return b, nil
}

// record is d as it is stored.
func (d *database) record() ([]byte, error) {
	b, err := json.Marshal(databaseRecord{ID: d.id, Modified: d.modified, Revision: d.revision, Extra: d.extra})
	if err != nil {
		return nil, fmt.Errorf("encode database %q: %w", d.id, err)
	}
	return b, nil
}

// load is the reverse of record.
func (r *databaseRecord) load(number uint32) *database {
	return &database{number: number, id: r.ID, modified: r.Modified, revision: max(r.Revision, 1), extra: r.Extra}
}

// load is the reverse of record.
func (r *containerRecord) load(number uint32) (*meta, error) {
	m := &meta{revision: r.Revision, next: r.Next, segments: r.Segments}
	m.props = ContainerProperties{
		ID: r.ID, KeyPaths: r.KeyPaths, KeyVersion: KeyVersion(r.Hash), UniqueKeys: r.UniqueKeys, DefaultTTL: r.DefaultTTL,
		Retention: r.Retention, Throughput: r.Throughput, Extra: r.Extra, Modified: time.Unix(r.Modified, 0).UTC(),
	}
	for _, p := range r.Partitions {
		part, err := newPartition(p.Number, feed.Range{Min: p.Min, Max: p.Max}, p.Segments, p.Parents)
		if err != nil {
			return nil, corrupt("container %d: partition %d: %v", number, p.Number, err)
		}
		part.losses = p.Losses
		m.partitions = append(m.partitions, part)
	}
	return m, nil
}
