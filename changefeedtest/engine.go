package changefeedtest

import (
	"context"
	"errors"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// engine is a monitored container and a lease container that a simulation runs
// on, with what only a simulation does to them. Its methods take no fake time.
type engine interface {
	source() feed.Source
	leases() lease.Container
	// commit writes a transaction and returns its LSN and _ts.
	commit(ctx context.Context, writes ...memWrite) (int64, time.Time, error)
	// lastLSN is the LSN of the last commit.
	lastLSN() int64
	partitions() []feed.Partition
	split(ctx context.Context, id string) error
	// merge joins a partition with its right neighbour.
	merge(ctx context.Context, left, right string) error
	epk(key feed.PartitionKey) string
	// now is the service's clock, finer than a listing shows it.
	now() time.Time
	// powerLoss takes everything from the service that it had not synced.
	powerLoss(ctx context.Context) error
	close() error
}

// memEngine is the engine in memory.
type memEngine struct {
	clock *storeClock
	feed  *memSource
	docs  *memLeases
}

var _ engine = (*memEngine)(nil)

func newMemEngine(clock *storeClock, partitions int) *memEngine {
	return &memEngine{clock: clock, feed: newMemSource(clock, partitions, "items"), docs: newMemLeases(clock)}
}

func (e *memEngine) source() feed.Source     { return e.feed }
func (e *memEngine) leases() lease.Container { return e.docs }

func (e *memEngine) commit(_ context.Context, writes ...memWrite) (int64, time.Time, error) {
	lsn, err := e.feed.commit(writes...)
	return lsn, e.clock.stamp(), err
}

func (e *memEngine) lastLSN() int64 {
	e.feed.mu.Lock()
	defer e.feed.mu.Unlock()
	return e.feed.lsn
}

func (e *memEngine) partitions() []feed.Partition {
	p, err := e.feed.Partitions(context.Background())
	if err != nil {
		return nil
	}
	return p
}

func (e *memEngine) split(_ context.Context, id string) error {
	_, err := e.feed.split(id, "")
	return err
}

func (e *memEngine) merge(_ context.Context, left, right string) error {
	_, err := e.feed.merge(left, right)
	return err
}

func (e *memEngine) epk(key feed.PartitionKey) string { return memEPK(key) }
func (e *memEngine) now() time.Time                   { return e.clock.now() }
func (e *memEngine) close() error                     { return nil }

// powerLoss does nothing: what is in memory needs no sync.
func (e *memEngine) powerLoss(context.Context) error { return nil }

// isGone reports whether reading a lease would be answered with GoneError, and
// over which live partitions its range lies.
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
