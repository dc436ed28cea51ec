package engine

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
)

// view is what readers see: a snapshot of the data, and what belongs to it. The
// sequencer makes one per group of writes, between the group's application and
// the next one's, and publishes it after the group's sync. Pebble shows a batch
// to readers before it is durable; whoever read such a write, and stored a
// continuation behind it, would miss what takes its LSN after a crash. So
// nobody but the sequencer reads the database itself.
//
// Everything in a view is immutable but its count of readers.
type view struct {
	engine  *engine // that snap is of
	snap    *pebble.Snapshot
	catalog *catalog
	// states are the containers, each at its slot; nil: the slot is free.
	states []*state
	refs   atomic.Int32
}

// state is one container in a view.
type state struct {
	c    *Container
	meta *meta
	// ends has the last LSN of each partition of meta, and grown what was added to each.
	ends  []int64
	grown []growth
}

// catalog is what databases and containers there are, by name.
type catalog struct {
	databases  map[string]*database
	containers map[containerName]*Container
}

// database is immutable; a change of its properties makes a new one.
type database struct {
	number   uint32
	id       string
	modified int64
	revision uint64 // counts the changes of extra, for the ETag
	extra    []byte
}

type containerName struct {
	database uint32
	id       string
}

// acquire returns the current view; release must follow.
func (db *DB) acquire() (*view, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, ErrClosed
	}
	db.current.refs.Add(1)
	return db.current, nil
}

// release gives the view back. Its snapshot is closed by the last one to do so.
func (v *view) release() {
	if v.refs.Add(-1) > 0 {
		return
	}
	// Can't fail: it reports only that it was closed before.
	_ = v.snap.Close()
	v.engine.views.Done()
}

// publish makes v what readers see from now on.
func (db *DB) publish(v *view) {
	v.refs.Store(1)
	v.engine.views.Add(1)
	db.mu.Lock()
	old := db.current
	db.current = v
	db.mu.Unlock()
	if old != nil {
		old.release()
	}
}

// state returns c's, or an error when c was deleted.
func (v *view) state(c *Container) (*state, error) {
	if s := v.states[c.slot]; s != nil && s.c == c {
		return s, nil
	}
	return nil, notFound("container %s", c.name)
}

// open acquires the current view and finds c in it.
func (c *Container) open() (*view, *state, error) {
	v, err := c.db.acquire()
	if err != nil {
		return nil, nil, err
	}
	s, err := v.state(c)
	if err != nil {
		v.release()
		return nil, nil, err
	}
	return v, s, nil
}

// lookup reads an item's index entry; ok is false when there is none.
func lookup(r pebble.Reader, key []byte) (e entry, ok bool, err error) {
	b, closer, err := r.Get(key)
	if err != nil {
		return e, false, ignoreNotFound(err)
	}
	e, err = decodeEntry(b)
	if cerr := closer.Close(); err == nil {
		err = cerr
	}
	return e, err == nil, err
}

// fetch appends the stored document of an entry to dst.
func (c *Container) fetch(r pebble.Reader, dst []byte, e entry, point []byte) ([]byte, error) {
	var space [logKeySize + 64]byte
	key := appendLogKey(space[:0], spaceLog, c.number, e.segment, e.lsn, e.ordinal)
	return c.fetchKey(r, dst, append(key, point...))
}

// fetchKey appends the stored document of a key of the log to dst.
func (c *Container) fetchKey(r pebble.Reader, dst, key []byte) ([]byte, error) {
	b, closer, err := r.Get(key)
	if err != nil {
		if ignoreNotFound(err) == nil {
			return nil, corrupt("container %s: the index names the document %x at LSN %d, and it is not in the log", c.name, key, logLSN(key))
		}
		return nil, c.db.fault(err)
	}
	dst = append(dst, b[logHeaderSize:]...)
	return dst, closer.Close()
}

// gone is the answer to a request for a partition that isn't live.
func gone(id string, r feed.Range) error { return &feed.GoneError{Partition: id, Range: r} }
