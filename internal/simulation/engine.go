package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// engine is the service of a simulation: the monitored container, the lease container,
// and the operations by which the simulation changes them. Its methods take no fake time.
type engine interface {
	source() feed.Source
	leases() lease.Container
	// commit writes a transaction. It returns its LSN, and its _ts.
	commit(ctx context.Context, writes ...itemWrite) (int64, time.Time, error)
	// counters returns the LSN of the last commit of each live partition.
	counters() []counter
	partitions() []feed.Partition
	// split splits a live partition at an EPK. If at is empty, the partition splits in the
	// middle.
	split(ctx context.Context, id, at string) error
	// merge merges a live partition with the partition to its right.
	merge(ctx context.Context, left, right string) error
	epk(key feed.PartitionKey) string
	// now returns the time of the service's clock. Its resolution is finer than that of a
	// listing's clock.
	now() time.Time
	close() error
}

// counter is the LSN counter of the keys of a partition.
type counter struct {
	keys feed.Range
	lsn  int64
}

// itemWrite is one write of a transaction. If document is nil, the item is deleted.
type itemWrite struct {
	key      feed.PartitionKey
	id       string
	document map[string]any
	ttl      int // the item's time to live in seconds; zero if it never expires
}

// item returns the name of the item: its key and its id.
func (w itemWrite) item() string { return w.key.String() + "/" + w.id }

// memEngine is the engine in memory.
type memEngine struct {
	clock *storeClock
	*memory.Source
	docs *memory.Leases
}

var _ engine = (*memEngine)(nil)

func newMemEngine(clock *storeClock, o memory.Options) *memEngine {
	o.Now = clock.now
	return &memEngine{clock: clock, Source: memory.NewSource(o), docs: memory.NewLeases(clock.now)}
}

func (e *memEngine) source() feed.Source     { return e.Source }
func (e *memEngine) leases() lease.Container { return e.docs }

func (e *memEngine) commit(_ context.Context, writes ...itemWrite) (int64, time.Time, error) {
	converted := make([]memory.Write, len(writes))
	for i, w := range writes {
		converted[i].ID = w.id
		if w.document == nil {
			continue
		}
		var err error
		if converted[i].Document, err = json.Marshal(w.document); err != nil {
			return 0, time.Time{}, err
		}
	}
	lsn, err := e.Commit(writes[0].key, converted...)
	return lsn, e.clock.now().Truncate(time.Second), err
}

func (e *memEngine) counters() []counter {
	var all []counter
	for _, p := range e.partitions() {
		all = append(all, counter{keys: p.Range, lsn: e.LSN(p.ID)})
	}
	return all
}

func (e *memEngine) partitions() []feed.Partition {
	all, _ := e.Partitions(context.Background()) // an error is possible only if the context has ended
	return all
}

func (e *memEngine) split(_ context.Context, id, at string) error {
	_, err := e.Split(id, at)
	return err
}

func (e *memEngine) merge(_ context.Context, left, right string) error {
	_, err := e.Merge(left, right)
	return err
}

func (e *memEngine) epk(key feed.PartitionKey) string { return memory.EPK(key) }
func (e *memEngine) now() time.Time                   { return e.clock.now() }
func (e *memEngine) close() error                     { return nil }

// continuation returns the continuation of an LSN: the quoted number, in all engines.
func continuation(lsn int64) feed.Continuation {
	return feed.Continuation(`"` + strconv.FormatInt(lsn, 10) + `"`)
}

// lsnOf returns the LSN of a continuation. It is the inverse of continuation.
func lsnOf(c feed.Continuation) (int64, error) {
	return strconv.ParseInt(strings.Trim(string(c), `"`), 10, 64)
}

// lsnAt returns the LSN of a continuation, or 0 if it is none.
func lsnAt(c feed.Continuation) int64 {
	n, _ := lsnOf(c)
	return n
}

// keysOf returns the keys that a request reads.
func keysOf(live []feed.Partition, r feed.Request) feed.Range {
	keys := r.Range.OrFull()
	for _, p := range live {
		if p.ID == r.Partition.ID {
			keys = keys.Intersect(p.Range)
		}
	}
	return keys
}

// isGone reports whether a read of a lease would fail with GoneError. A lease of a range
// is gone when the range lies over several live partitions.
func isGone(parts []feed.Partition, id string, r feed.Range) bool {
	over := 0
	for _, p := range parts {
		if id != "" && p.ID == id {
			return false
		}
		if p.Range.Overlaps(r.OrFull()) {
			over++
		}
	}
	return id != "" || over > 1
}

var errUnavailable = errors.New("service unavailable (503)")
