package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// A split or a merge changes the list of partitions and the log segments that they read.
// It moves no document:
//
//	before    0 [""-FF)  segments 0
//	split     1 [""-1F)  segments 0, 1      2 [1F-FF)  segments 0, 2
//	merge     3 [""-FF)  segments 0, 1, 2, 3
//
// A partition writes to its own segment. It reads all segments in its list, but only keys in its
// range. Only the order of its items is copied, see orderCopy. The sequencer makes the change
// between two groups of writes, so no write sees a part of it. Readers see it in the next view,
// which has the new partitions and not the old one.

// Partitions returns the live partitions, sorted by range.
func (c *Container) Partitions(ctx context.Context) ([]feed.Partition, error) {
	v, s, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	defer v.release()
	all := make([]feed.Partition, len(s.meta.partitions))
	for i, p := range s.meta.partitions {
		all[i] = p.public()
	}
	return all, nil
}

// Split implements store.Container.Split, which documents it.
func (c *Container) Split(ctx context.Context, id, at string) ([]feed.Partition, error) {
	made, err := c.rearrange(ctx, func(l *writeState) (int, int, []feed.Range, error) { return l.planSplit(id, at) })
	if err != nil {
		return nil, fmt.Errorf("split partition %s: %w", id, err)
	}
	return []feed.Partition{made[0].public(), made[1].public()}, nil
}

// planSplit returns the index of the partition id, and the ranges into which a split at
// the key at divides it.
func (l *writeState) planSplit(id, at string) (index, n int, ranges []feed.Range, err error) {
	if index = l.meta.byID(id); index < 0 {
		return 0, 0, nil, gone(id, feed.Range{})
	}
	if l.c.systemKey {
		return 0, 0, nil, layout.BadRequest(storetype.BadRange, "container %s has no partition key, so it cannot be split; use a container with a key", l.c.name)
	}
	old := l.meta.partitions[index]
	if at == "" {
		mid, err := l.c.hash.Midpoint(old.keys.Min, old.keys.Max)
		if err != nil {
			return 0, 0, nil, layout.BadRequest(storetype.BadRange, "%v", err)
		}
		at = mid
	}
	at = evenHex(at) // whole bytes, so that the new ranges can be halved again
	if !isHex(at) || at <= old.keys.Min || at >= old.keys.Max {
		return 0, 0, nil, layout.BadRequest(storetype.BadRange, "%q is not an upper-case hexadecimal key inside %s", at, old.keys)
	}
	return index, 1, []feed.Range{{Min: old.keys.Min, Max: at}, {Min: at, Max: old.keys.Max}}, nil
}

// Merge implements store.Container.Merge, which documents it.
func (c *Container) Merge(ctx context.Context, a, b string) (feed.Partition, error) {
	made, err := c.rearrange(ctx, func(l *writeState) (int, int, []feed.Range, error) { return l.planMerge(a, b) })
	if err != nil {
		return feed.Partition{}, fmt.Errorf("merge partitions %s and %s: %w", a, b, err)
	}
	return made[0].public(), nil
}

// planMerge returns the index of the first of the partitions a and b, and the range of
// both.
func (l *writeState) planMerge(a, b string) (index, n int, ranges []feed.Range, err error) {
	first, second := l.meta.byID(a), l.meta.byID(b)
	if first < 0 {
		return 0, 0, nil, gone(a, feed.Range{})
	}
	if second < 0 {
		return 0, 0, nil, gone(b, feed.Range{})
	}
	if first > second {
		first, second = second, first
	}
	if first+1 != second {
		return 0, 0, nil, layout.BadRequest(storetype.BadRange, "partitions %s and %s are not neighbours", a, b)
	}
	parts := l.meta.partitions
	return first, 2, []feed.Range{{Min: parts[first].keys.Min, Max: parts[second].keys.Max}}, nil
}

// replacePartitions replaces the old partitions of cp, whose order was copied, by the new
// ones. These also read the segments of the old ones.
func (g *group) replacePartitions(c *Container, cp *orderCopy) error {
	l := g.db.writeState(c)
	if l == nil {
		return notFound("container %s", c.name)
	}
	if l.copying != cp {
		return errCopyLost
	}
	index, n := l.meta.byID(cp.from[0].id), len(cp.from)
	m := l.meta.change()
	old := l.meta.partitions[index : index+n]
	end := slices.Max(l.ends[index : index+n])
	segments, parents, losses := m.retire(old, l.ends[index:index+n])
	ends := make([]int64, len(cp.to))
	for i, p := range cp.to {
		p.segments, p.parents = append(slices.Clone(segments), p.number), slices.Clone(parents)
		// A new partition starts at the last LSN of the old ones, so that LSNs never
		// decrease.
		p.changed.advance(end)
		ends[i] = end
		for _, lost := range losses {
			p.losses = addLoss(p.losses, lost.keys().Intersect(p.keys), lost.LSN)
		}
		m.segments[p.number] = segment{From: end, Min: p.keys.Min, Max: p.keys.Max}
	}
	var retired []uint32
	for _, p := range old {
		if err := g.batch.Delete(layout.PartitionKeyOf(l.c.number, p.number), nil); err != nil {
			return err
		}
		g.retired = append(g.retired, p.changed)
		retired = append(retired, p.number)
	}
	if err := g.dropOrders(c, retired); err != nil {
		return err
	}
	l.copying, m.prepared = nil, nil
	m.partitions = slices.Replace(m.partitions, index, index+n, cp.to...)
	l.replace(g, m, slices.Replace(slices.Clone(l.ends), index, index+n, ends...))
	return nil
}

// retire ends the own segments of partitions that are being replaced. It returns the data
// that each new partition inherits: the segments to read, sorted by their first LSN, the
// IDs of the ancestors, and the losses. A segment without writes is deleted, and its
// deleted versions are added to the losses.
func (m *meta) retire(old []*partition, ends []int64) (segments []uint32, parents []string, losses []loss) {
	for i, p := range old {
		losses = append(losses, p.losses...) // the partitions are neighbours, sorted by range
		own := m.segments[p.number]
		if own.To = ends[i]; own.To == own.From {
			losses = addLoss(losses, own.keys(), own.Trimmed)
			delete(m.segments, p.number)
		} else {
			m.segments[p.number] = own
		}
		for _, s := range p.segments {
			if _, there := m.segments[s]; there && !slices.Contains(segments, s) {
				segments = append(segments, s)
			}
		}
		for _, id := range append(slices.Clone(p.parents), p.id) {
			if !slices.Contains(parents, id) {
				parents = append(parents, id)
			}
		}
	}
	m.sortSegments(segments)
	return segments, parents, losses
}

// sortSegments sorts the numbers of segments by the first LSN of each segment.
func (m *meta) sortSegments(segments []uint32) {
	slices.SortStableFunc(segments, func(a, b uint32) int { return cmp.Compare(m.segments[a].From, m.segments[b].From) })
}

// isHex reports whether s is upper-case hexadecimal.
func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

// meta has all data of a container except its documents. It is immutable: a change
// creates a new meta, which the sequencer publishes with the snapshot of the same moment.
type meta struct {
	props    storetype.ContainerProperties
	revision uint64 // the number of changes of props, from which the ETag is made
	next     uint32 // the number for the next new partition
	// partitions are the live partitions, sorted by range. They cover the key space
	// without overlaps.
	partitions []*partition
	// segments has the log segments that live partitions read, by number.
	segments map[uint32]segment
	// prepared has the numbers of the partitions for which a copy of the order is or was
	// in progress. See orderCopy.
	prepared []uint32
	// holes are the LSNs that restores left out.
	holes []hole
}

// partition is a physical partition. It writes to its own log segment, which has its
// number. It also reads the segments of its ancestors, but only keys in its range. So a
// split or a merge moves no documents.
type partition struct {
	number uint32
	id     string
	keys   feed.Range
	// lower and upper are the bounds of keys, in binary form.
	lower, upper []byte
	// segments has the partition's own segment and those of its ancestors, sorted by
	// their first LSN.
	segments []uint32
	parents  []string
	// losses records which versions were deleted in segments that no longer exist.
	losses  []loss
	changed *signal
	size    *tally
}

// segment is the part of the log that one partition wrote. That partition is live, or was
// split or merged.
type segment struct {
	// From is the last LSN of the partition's parents when the partition was created. To
	// is the partition's last LSN when it was retired, or 0 while it is live. The segment
	// holds LSNs with From < LSN <= To.
	From int64 `json:"from"`
	To   int64 `json:"to,omitempty"`
	// Trimmed is the LSN up to which the segment's versions were deleted because their
	// retention has passed.
	Trimmed int64 `json:"trimmed,omitempty"`
	// Min and Max are the range of the partition that wrote the segment.
	Min string `json:"min"`
	Max string `json:"max"`
}

// keys returns the range that contains all keys of the segment.
func (s segment) keys() feed.Range { return feed.Range{Min: s.Min, Max: s.Max} }

// last returns the highest LSN that the segment can hold.
func (s segment) last() int64 {
	if s.To > 0 {
		return s.To
	}
	return layout.MaxLSN
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

// has reports whether the partition has the items with a point.
func (p *partition) has(point []byte) bool {
	return between(point, p.lower, p.upper)
}

func (p *partition) public() feed.Partition {
	return feed.Partition{ID: p.id, Range: p.keys, Parents: slices.Clone(p.parents)}
}

// binaryRange returns the borders of a range in binary form. If a border has an odd
// number of digits, a zero is appended. That does not change which points are in the
// range.
func binaryRange(r feed.Range) (lower, upper []byte, err error) {
	if lower, err = epk.ParseHex(evenHex(r.Min)); err == nil {
		upper, err = epk.ParseHex(evenHex(r.Max))
	}
	if err != nil {
		return nil, nil, layout.BadRequest(storetype.BadRange, "%v", err)
	}
	return lower, upper, nil
}

func evenHex(s string) string {
	if len(s)%2 == 1 {
		return s + "0"
	}
	return s
}

// find returns the index in m.partitions of the partition whose range contains the
// effective partition key.
func (m *meta) find(key []byte) int {
	return sort.Search(len(m.partitions), func(i int) bool {
		return string(key) < string(m.partitions[i].upper)
	})
}

// byID returns the index in m.partitions of the partition with an ID, or -1 if it is not
// live.
func (m *meta) byID(id string) int {
	return slices.IndexFunc(m.partitions, func(p *partition) bool { return p.id == id })
}

// change returns a copy of m that the caller may change, including its partitions slice
// and its segments map. The partitions themselves are shared.
func (m *meta) change() *meta {
	c := *m
	c.partitions = slices.Clone(m.partitions)
	c.segments = make(map[uint32]segment, len(m.segments)+2)
	for n, s := range m.segments {
		c.segments[n] = s
	}
	return &c
}

// etagOf returns the ETag of a database, container or record. It is made of the object's
// number, its revision, the store's incarnation, and the second of the object's last
// change. Without the incarnation, a change that was lost and one after the restore could
// have the same ETag.
func (db *DB) etagOf(number uint32, revision uint64, modified int64) string {
	return fmt.Sprintf("\"%08x-%04x-%04x-%04x-%012x\"", number, revision>>16&0xffff, revision&0xffff, db.incarnation, modified)
}

// The stored forms of catalog entries.
type (
	databaseRecord struct {
		ID         string `json:"id"`
		Modified   int64  `json:"modified"`
		Revision   uint64 `json:"revision"` // the number of changes, from 1
		Throughput int    `json:"throughput,omitempty"`
		// Extra is a []byte here and in containerRecord, so it is stored as base64. If it
		// were stored as a JSON value, its white space and escapes would change.
		Extra []byte `json:"extra,omitempty"`
	}
	numbersRecord struct {
		Database  uint32 `json:"database"`
		Container uint32 `json:"container"`
		Record    uint32 `json:"record,omitempty"`
		// Incarnation is a random number that each restore changes. It is 0 before the
		// first one. Restored is the time of the last one.
		Incarnation uint32 `json:"incarnation,omitempty"`
		Restored    int64  `json:"restored,omitempty"`
	}
	containerRecord struct {
		Database   uint32             `json:"database"`
		ID         string             `json:"id"`
		KeyPaths   []string           `json:"keyPaths"`
		UniqueKeys [][]string         `json:"uniqueKeys,omitempty"`
		Hash       epk.Hash           `json:"hash"`
		SystemKey  bool               `json:"systemKey,omitempty"`
		DefaultTTL int                `json:"defaultTtl,omitempty"`
		Retention  time.Duration      `json:"retention,omitempty"` // in nanoseconds
		Throughput int                `json:"throughput,omitempty"`
		Extra      []byte             `json:"extra,omitempty"`
		Modified   int64              `json:"modified"`
		Revision   uint64             `json:"revision"`
		Next       uint32             `json:"next"`
		Partitions []partitionRecord  `json:"partitions"`
		Segments   map[uint32]segment `json:"segments"`
		Prepared   []uint32           `json:"prepared,omitempty"`
		Holes      []hole             `json:"holes,omitempty"`
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

// record returns the JSON text in which container c is stored with the data of m.
func (m *meta) record(c *Container) ([]byte, error) {
	r := containerRecord{
		Database: c.database, ID: m.props.ID, KeyPaths: m.props.KeyPaths, Hash: c.hash,
		SystemKey: m.props.SystemKey, UniqueKeys: m.props.UniqueKeys,
		DefaultTTL: m.props.DefaultTTL, Retention: m.props.Retention, Throughput: m.props.Throughput,
		Extra: m.props.Extra, Modified: m.props.Modified.Unix(), Revision: m.revision, Next: m.next, Segments: m.segments,
		Prepared: m.prepared, Holes: m.holes,
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

// record returns the JSON text in which database d is stored.
func (d *database) record() ([]byte, error) {
	b, err := json.Marshal(databaseRecord{ID: d.id, Modified: d.modified, Revision: d.revision, Throughput: d.throughput, Extra: d.extra})
	if err != nil {
		return nil, fmt.Errorf("encode database %q: %w", d.id, err)
	}
	return b, nil
}

// load returns the database that the stored record describes. number is its number.
func (r *databaseRecord) load(number uint32) *database {
	return &database{number: number, id: r.ID, modified: r.Modified, revision: r.Revision, throughput: r.Throughput, extra: r.Extra, bucket: new(bucket)}
}

// load returns the meta that the stored record describes. number is the container's
// number. It returns a *[storetype.CorruptError] if the record is not valid.
func (r *containerRecord) load(number uint32) (*meta, error) {
	m := &meta{revision: r.Revision, next: r.Next, segments: r.Segments, prepared: r.Prepared, holes: r.Holes}
	m.props = storetype.ContainerProperties{
		ID: r.ID, KeyPaths: r.KeyPaths, KeyVersion: storetype.KeyVersion(r.Hash), SystemKey: r.SystemKey, UniqueKeys: r.UniqueKeys, DefaultTTL: r.DefaultTTL,
		Retention: r.Retention, Throughput: r.Throughput, Extra: r.Extra, Modified: time.Unix(r.Modified, 0).UTC(),
	}
	for _, p := range r.Partitions {
		part, err := newPartition(p.Number, feed.Range{Min: p.Min, Max: p.Max}, p.Segments, p.Parents)
		if err != nil {
			return nil, layout.Corrupt("container %d: partition %d: %v", number, p.Number, err)
		}
		part.losses = p.Losses
		m.partitions = append(m.partitions, part)
	}
	return m, nil
}
