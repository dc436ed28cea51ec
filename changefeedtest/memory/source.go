// Package memory is an engine in memory, a container with a change feed and a lease
// container, for examples and for tests of handlers that need no document store. There
// are partitions, splits, merges, transactions and both feed modes, but no time to live
// and no files. If you need those, use package changefeedtest, which opens complete
// stores. Changes have their documents as Azure Cosmos DB stores them: without white
// space, and with canonical numbers (1 for 1.0).
//
// [NewSource] returns an empty container, and [NewLeases] an empty lease container:
//
//	orders := memory.NewSource(memory.Options{})
//	err := orders.Upsert(feed.PartitionKey{"ada"}, `{"id":"1","customer":"ada"}`)
//	processor, err := changefeed.New(changefeed.Config{
//		Processor: "printer", Source: orders, Leases: memory.NewLeases(nil), ...
//	})
//
// [Source.Split] and [Source.Merge] change the partitions while a processor reads them.
// [Source.Commit] writes several items in one transaction.
//
// All methods are safe for concurrent use, also inside a testing/synctest bubble.
package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/canonical"
)

// Options configure a [Source]. A zero field means its default.
type Options struct {
	// Container is the container's name. If empty, "items" is used.
	Container string
	// Partitions is how many partitions there are at first. If zero, 1 is used.
	Partitions int
	// KeyPaths are the partition key paths that the container names, such as /pk. The source
	// does not read them: documents must hold the components of the key under which they are
	// written. Processors with a Concurrency above 1 need them.
	KeyPaths []string
	// Now is the clock that stamps changes. If nil, time.Now is used.
	Now func() time.Time
	// RefuseTimesAfterMerge makes reads of merged partitions and of their children refuse
	// start times, as Azure Cosmos DB does.
	RefuseTimesAfterMerge bool
}

// Source is a container in memory: the partitions that divide its keys, and their change
// feeds. It implements [feed.Source]. As in Azure Cosmos DB, each partition counts its
// own LSNs, so that two partitions use the same ones. A new partition goes on counting
// from its parent, and after a merge from the higher one.
type Source struct {
	options  Options
	identity feed.Identity

	mu      sync.Mutex   // guards the fields below; held for lookups and appends only
	parts   []*partition // sorted by range
	nextID  int
	writes  int               // number of writes so far
	last    map[string]*entry // an item's last entry, by item
	changed chan struct{}     // closed at the next commit, split or merge
}

// partition is a live partition.
type partition struct {
	feed.Partition
	lsn    int64    // LSN of the last transaction
	log    []*entry // writes of the partition's keys, sorted by LSN and then by number
	merged bool     // whether a merge is among the partition's ancestors
}

// entry is the log's record of one write of one item. number counts the container's
// writes.
type entry struct {
	change feed.Change
	epk    string
	item   string
	number int
}

// NewSource returns an empty container.
func NewSource(o Options) *Source {
	if o.Container == "" {
		o.Container = "items"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Source{
		options: o,
		identity: feed.Identity{
			AccountHost: "localhost", Database: "sim", DatabaseRID: "c2ltAA==",
			Container: o.Container, ContainerRID: "c2ltAA" + strconv.FormatUint(hash(o.Container)%1e6, 10),
			KeyPaths: o.KeyPaths,
		},
		last: map[string]*entry{}, changed: make(chan struct{}),
	}
	for _, r := range divide(feed.Range{}.OrFull(), max(o.Partitions, 1)) {
		s.parts = append(s.parts, s.newPartition(r, nil))
	}
	return s
}

func (s *Source) newPartition(r feed.Range, parents []string) *partition {
	p := &partition{Partition: feed.Partition{ID: strconv.Itoa(s.nextID), Range: r, Parents: parents}}
	s.nextID++
	return p
}

// Identity implements [feed.Source].
func (s *Source) Identity(ctx context.Context) (feed.Identity, error) {
	return s.identity, ctx.Err()
}

// Partitions implements [feed.Source].
func (s *Source) Partitions(ctx context.Context) ([]feed.Partition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]feed.Partition, len(s.parts))
	for i, p := range s.parts {
		all[i] = p.Partition
	}
	return all, ctx.Err()
}

// CheckStart implements [feed.Source].
func (s *Source) CheckStart(ctx context.Context, _ feed.Start, _ feed.Mode) error { return ctx.Err() }

// SplitRange implements [feed.Source].
func (s *Source) SplitRange(ctx context.Context, r feed.Range, n int) ([]feed.Range, error) {
	if number(r.Max)-number(r.Min) < uint64(n) {
		return nil, errors.New("the range is too small")
	}
	return divide(r, n), ctx.Err()
}

// KeyHash implements [feed.KeyHasher].
func (s *Source) KeyHash(ctx context.Context, key feed.PartitionKey) (string, error) {
	return EPK(key), ctx.Err()
}

// LSN returns the LSN of a live partition's last transaction, or 0 if there is no such
// partition or transaction.
func (s *Source) LSN(id string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(id); i >= 0 {
		return s.parts[i].lsn
	}
	return 0
}

// Upsert creates or replaces the item that document, a JSON object, names by its "id".
func (s *Source) Upsert(key feed.PartitionKey, document string) error {
	var item struct{ ID string }
	if err := json.Unmarshal([]byte(document), &item); err != nil {
		return fmt.Errorf("write a document: %w", err)
	}
	_, err := s.Commit(key, Write{ID: item.ID, Document: []byte(document)})
	return err
}

// Delete deletes an item. If there is none, the error wraps [feed.ErrNotFound].
func (s *Source) Delete(key feed.PartitionKey, id string) error {
	_, err := s.Commit(key, Write{ID: id})
	return err
}

// Write is one write of a transaction.
type Write struct {
	ID string
	// Document is a JSON object. If nil, the item is deleted.
	Document json.RawMessage
}

// Commit carries out all writes or none, as a transaction on items with one partition
// key, and returns its LSN in the key's partition. The error wraps [feed.ErrNotFound] if
// an item to delete does not exist. A number that no float64 can hold, such as 1e400, is
// an error, too.
func (s *Source) Commit(key feed.PartitionKey, writes ...Write) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	point := EPK(key)
	p := s.parts[slices.IndexFunc(s.parts, func(p *partition) bool { return p.Range.Holds(point) })]
	now, lsn := s.options.Now().UTC().Truncate(time.Second), p.lsn+1
	staged := make([]*entry, 0, len(writes))
	current := map[string]feed.Change{} // the latest change of each item that this transaction writes
	for _, w := range writes {
		e := &entry{epk: point, item: key.String() + "/" + w.ID}
		e.change = feed.Change{LSN: lsn, Time: now, Op: feed.Create}
		old, found := current[e.item]
		if last, ok := s.last[e.item]; ok && !found {
			old, found = last.change, true
		}
		exists := found && old.Op != feed.Delete
		if exists {
			e.change.Op, e.change.Previous = feed.Replace, old.Current
		}
		switch {
		case w.Document != nil:
			document, err := canonical.Append(nil, w.Document)
			if err != nil {
				return 0, fmt.Errorf("write item %s: %w", w.ID, err)
			}
			e.change.Current = stored(document, e.item, lsn, now.Unix())
		case exists:
			e.change.Op, e.change.DeletedID, e.change.DeletedKey = feed.Delete, w.ID, key
		default:
			return 0, fmt.Errorf("delete item %s: %w", w.ID, feed.ErrNotFound)
		}
		current[e.item] = e.change
		staged = append(staged, e)
	}
	for _, e := range staged {
		e.number = s.writes
		s.writes++
		s.last[e.item] = e
		p.log = append(p.log, e)
	}
	p.lsn = lsn
	s.wake()
	return lsn, nil
}

// stored returns a canonical document as the container stores it: with the system
// properties added as its last members. It changes document.
func stored(document []byte, item string, lsn, ts int64) json.RawMessage {
	b := document[:len(document)-1]
	if len(b) > 1 {
		b = append(b, ',')
	}
	return fmt.Appendf(b, `"_rid":"r%016X","_etag":"\"%d\"","_ts":%d,"_lsn":%d}`, hash(item), lsn, ts, lsn)
}

// wake ends the waits of all reads that wait for changes. The caller holds s.mu.
func (s *Source) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

var errPartition = errors.New("no such partition, or no neighbour")

// Split divides a live partition at an effective partition key (see [EPK]), or in the
// middle if at is empty, and returns the new IDs.
func (s *Source) Split(id, at string) (children []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(id)
	if i < 0 {
		return nil, fmt.Errorf("split partition %s: %w", id, errPartition)
	}
	p := s.parts[i]
	if at == "" {
		at = divide(p.Range, 2)[0].Max
	}
	low, high := feed.Range{Min: p.Range.Min, Max: at}, feed.Range{Min: at, Max: p.Range.Max}
	if low.IsEmpty() || high.IsEmpty() {
		return nil, fmt.Errorf("split partition %s at %q: %w", id, at, errPartition)
	}
	parents := append(slices.Clone(p.Parents), p.ID)
	a, b := s.newPartition(low, parents), s.newPartition(high, slices.Clone(parents))
	for _, child := range []*partition{a, b} {
		child.lsn, child.merged = p.lsn, p.merged
		for _, e := range p.log {
			if child.Range.Holds(e.epk) {
				child.log = append(child.log, e)
			}
		}
	}
	s.parts = slices.Replace(s.parts, i, i+1, a, b)
	s.wake()
	return []string{a.ID, b.ID}, nil
}

// Merge merges a live partition with its right neighbour, and returns the new one's ID.
func (s *Source) Merge(left, right string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(left)
	if i < 0 || i+1 >= len(s.parts) || s.parts[i+1].ID != right {
		return "", fmt.Errorf("merge partitions %s and %s: %w", left, right, errPartition)
	}
	a, b := s.parts[i], s.parts[i+1]
	parents := slices.Sorted(slices.Values(slices.Concat(a.Parents, b.Parents, []string{a.ID, b.ID})))
	p := s.newPartition(feed.Range{Min: a.Range.Min, Max: b.Range.Max}, slices.Compact(parents))
	p.lsn, p.merged, p.log = max(a.lsn, b.lsn), true, slices.Concat(a.log, b.log)
	slices.SortFunc(p.log, func(x, y *entry) int {
		return cmp.Or(cmp.Compare(x.change.LSN, y.change.LSN), cmp.Compare(x.number, y.number))
	})
	s.parts = slices.Replace(s.parts, i, i+2, p)
	s.wake()
	return p.ID, nil
}

func (s *Source) index(id string) int {
	return slices.IndexFunc(s.parts, func(p *partition) bool { return p.ID == id })
}
