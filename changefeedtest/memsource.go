package changefeedtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/changefeed-go/changefeed/feed"
)

// memSource is a container in memory: a log of transactions, the partitions that
// divide its keys, and their change feeds. One counter gives the LSNs, so every
// partition stands at the container's last LSN. It is small enough to be judged
// by reading it, which is why the simulation runs on it.
type memSource struct {
	clock    *storeClock
	identity feed.Identity

	mu      sync.Mutex // guards what follows; held for lookups and appends only
	parts   []feed.Partition
	merged  map[string]bool // live partitions that came from a merge
	nextID  int
	lsn     int64
	log     []memEntry
	last    map[string]int // item -> its newest entry in log
	changed chan struct{}  // closed at the next commit, split or merge
	// refuseTimes answers a start time on a merged partition as Azure Cosmos DB
	// does: not supported.
	refuseTimes bool
}

// memEntry is one write of one item.
type memEntry struct {
	change feed.Change
	epk    string
	item   string
}

// memWrite is one operation of a transaction. A nil document deletes.
type memWrite struct {
	key      feed.PartitionKey
	id       string
	document map[string]any
}

func newMemSource(clock *storeClock, partitions int, name string) *memSource {
	s := &memSource{
		clock: clock,
		identity: feed.Identity{
			AccountHost: "localhost", Database: "sim", DatabaseRID: "c2ltAA==",
			Container: name, ContainerRID: "c2ltAA" + strconv.FormatUint(hashText(name)%1e6, 10),
		},
		merged: map[string]bool{}, last: map[string]int{}, changed: make(chan struct{}),
	}
	for _, r := range memTiles(partitions) {
		s.parts = append(s.parts, s.newPartition(r, nil))
	}
	return s
}

func (s *memSource) newPartition(r feed.Range, parents []string) feed.Partition {
	p := feed.Partition{ID: strconv.Itoa(s.nextID), Range: r, Parents: parents}
	s.nextID++
	return p
}

// Identity implements [feed.Source].
func (s *memSource) Identity(ctx context.Context) (feed.Identity, error) {
	return s.identity, ctx.Err()
}

// Partitions implements [feed.Source].
func (s *memSource) Partitions(ctx context.Context) ([]feed.Partition, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.parts), nil
}

var errMemWrite = errors.New("a transaction has operations, all of one partition key")

// commit writes a transaction: all of its operations, which have one partition
// key, share one LSN. A delete of an item that doesn't exist is ErrNotFound, and
// nothing is written.
func (s *memSource) commit(writes ...memWrite) (int64, error) {
	if len(writes) == 0 {
		return 0, errMemWrite
	}
	key := writes[0].key.String()
	for _, w := range writes[1:] {
		if w.key.String() != key {
			return 0, errMemWrite
		}
	}
	s.mu.Lock()
	wake, lsn, err := s.append(writes)
	s.mu.Unlock()
	if wake != nil {
		close(wake)
	}
	return lsn, err
}

func (s *memSource) append(writes []memWrite) (chan struct{}, int64, error) {
	ts := s.clock.stamp()
	lsn := s.lsn + 1
	size := len(s.log)
	undo := func() {
		s.log = s.log[:size]
		s.last = map[string]int{}
		for i, e := range s.log {
			s.last[e.item] = i
		}
	}
	for _, w := range writes {
		e := memEntry{epk: memEPK(w.key), item: w.key.String() + "/" + w.id}
		e.change = feed.Change{LSN: lsn, Time: ts, Op: feed.Create}
		if before, ok := s.last[e.item]; ok && s.log[before].change.Op != feed.Delete {
			e.change.Op = feed.Replace
			e.change.Previous = s.log[before].change.Current
		}
		switch {
		case w.document != nil:
			doc, err := memDocument(w, lsn, ts.Unix())
			if err != nil {
				undo()
				return nil, 0, err
			}
			e.change.Current = doc
		case e.change.Op == feed.Create:
			undo()
			return nil, 0, fmt.Errorf("delete item %s: %w", w.id, feed.ErrNotFound)
		default:
			e.change.Op = feed.Delete
			e.change.DeletedID, e.change.DeletedKey = w.id, w.key
		}
		s.last[e.item] = len(s.log)
		s.log = append(s.log, e)
	}
	s.lsn = lsn
	return s.wakeAll(), lsn, nil
}

// memDocument is the stored form of a document: as it was written, with the
// system properties behind.
func memDocument(w memWrite, lsn, ts int64) (json.RawMessage, error) {
	body, err := json.Marshal(w.document)
	if err != nil {
		return nil, fmt.Errorf("write item %s: %w", w.id, err)
	}
	b := body[:len(body)-1]
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = fmt.Appendf(b, `"_rid":"r%016X","_etag":"\"%d\"","_ts":%d,"_lsn":%d}`,
		mix(hashText(w.key.String()+"/"+w.id)), lsn, ts, lsn)
	return b, nil
}

// wakeAll returns the channel to close, once s.mu is free, to wake the reads
// that wait.
func (s *memSource) wakeAll() chan struct{} {
	wake := s.changed
	s.changed = make(chan struct{})
	return wake
}

var errMemTopology = errors.New("no such partition, or no neighbour")

// split divides a live partition at a border ("": in its middle).
func (s *memSource) split(id, at string) (children []string, err error) {
	s.mu.Lock()
	i := s.index(id)
	if i < 0 {
		s.mu.Unlock()
		return nil, fmt.Errorf("split partition %s: %w", id, errMemTopology)
	}
	p := s.parts[i]
	if at == "" {
		at = memMiddle(p.Range)
	}
	low, high := feed.Range{Min: p.Range.Min, Max: at}, feed.Range{Min: at, Max: p.Range.Max}
	if low.IsEmpty() || high.IsEmpty() {
		s.mu.Unlock()
		return nil, fmt.Errorf("split partition %s at %q: %w", id, at, errMemTopology)
	}
	parents := append(slices.Clone(p.Parents), p.ID)
	a, b := s.newPartition(low, parents), s.newPartition(high, slices.Clone(parents))
	s.parts = slices.Replace(s.parts, i, i+1, a, b)
	if s.merged[id] {
		s.merged[a.ID], s.merged[b.ID] = true, true
	}
	wake := s.wakeAll()
	s.mu.Unlock()
	close(wake)
	return []string{a.ID, b.ID}, nil
}

// merge joins a live partition with its right neighbour.
func (s *memSource) merge(left, right string) (string, error) {
	s.mu.Lock()
	i := s.index(left)
	if i < 0 || i+1 >= len(s.parts) || s.parts[i+1].ID != right {
		s.mu.Unlock()
		return "", fmt.Errorf("merge partitions %s and %s: %w", left, right, errMemTopology)
	}
	a, b := s.parts[i], s.parts[i+1]
	parents := slices.Concat(a.Parents, b.Parents, []string{a.ID, b.ID})
	sort.Strings(parents)
	p := s.newPartition(feed.Range{Min: a.Range.Min, Max: b.Range.Max}, slices.Compact(parents))
	s.parts = slices.Replace(s.parts, i, i+2, p)
	s.merged[p.ID] = true
	wake := s.wakeAll()
	s.mu.Unlock()
	close(wake)
	return p.ID, nil
}

// refuseEveryTime makes the source refuse start times as if all of its partitions came
// from merges.
func (s *memSource) refuseEveryTime() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuseTimes = true
	for _, p := range s.parts {
		s.merged[p.ID] = true
	}
}

func (s *memSource) index(id string) int {
	return slices.IndexFunc(s.parts, func(p feed.Partition) bool { return p.ID == id })
}

// memContinuation writes a position as the embedded store does.
func memContinuation(lsn int64) feed.Continuation {
	return feed.Continuation(`"` + strconv.FormatInt(lsn, 10) + `"`)
}

// parsePosition reads what memContinuation writes.
func parsePosition(c feed.Continuation) (int64, error) {
	text, ok := strings.CutPrefix(string(c), `"`)
	text, closed := strings.CutSuffix(text, `"`)
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || !closed || err != nil || n < 0 {
		return 0, fmt.Errorf("continuation %q is not of this source", string(c))
	}
	return n, nil
}
