package engine

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// maxGroupBytes bounds the documents of one group, in bytes. Requests beyond it go into
// the next group. It bounds both the documents that the requests bring and those that
// they produce.
const maxGroupBytes = 8 << 20

// request is a request to the sequencer: a transaction on one logical partition, or a
// change to the store itself.
type request struct {
	c   *Container
	ops []operation
	one [1]operation // memory for ops if there is only one operation
	// batch reports whether the request is a batch, whose errors name the operation.
	batch bool
	// control changes the catalog, the partitions or the settings, or purges. If it
	// returns an error, it must leave the group unchanged.
	control func(*group) error

	// The sequencer sets the fields below. They may be read after a receive from done.
	err       error
	end       int64
	partition string
	view      *view         // the view before the request if an operation has an exact charge; see dropView
	done      chan struct{} // capacity 1
}

// bytes returns the size in bytes of the documents that the request brings.
func (r *request) bytes() int {
	n := 0
	for i := range r.ops {
		n += len(r.ops[i].doc.Body)
	}
	return n
}

// read returns the size in bytes of the documents that the request's reads have returned.
func (r *request) read() int {
	n := 0
	for i := range r.ops {
		n += len(r.ops[i].stored)
	}
	return n
}

// queue holds the requests that wait for the sequencer.
type queue struct {
	mu      sync.Mutex // guards waiting and closed
	waiting []*request
	closed  bool
	wake    chan struct{} // signals a waiting request or the close; capacity 1
}

// submit queues r and waits until the sequencer has carried it out and made it durable.
// It returns the request's error.
func (db *DB) submit(r *request) error {
	q := &db.queue
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return storetype.ErrClosed
	}
	q.waiting = append(q.waiting, r)
	first := len(q.waiting) == 1
	q.mu.Unlock()
	if first {
		select {
		case q.wake <- struct{}{}:
		default: // a signal is pending
		}
	}
	<-r.done
	return r.err
}

// do makes the sequencer call control, which changes something other than items of one
// key. It returns ctx's error if ctx has ended before.
func (db *DB) do(ctx context.Context, control func(*group) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return db.control(control)
}

// control makes the sequencer call the given function. It is for background work, which
// has no context.
func (db *DB) control(control func(*group) error) error {
	return db.submit(&request{control: control, done: make(chan struct{}, 1)})
}

// take appends waiting requests to dst, as many as fit into a group. open is false if the
// queue is closed and empty.
func (q *queue) take(dst []*request) (requests []*request, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < len(q.waiting) && (n == 0 || bytes < maxGroupBytes) {
		bytes += q.waiting[n].bytes()
		n++
	}
	dst = append(dst, q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	return dst, rest > 0 || n > 0 || !q.closed
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// sequence is the sequencer, the only goroutine that writes. It takes all waiting
// requests and carries them out in order into one batch. It applies the batch, takes a
// snapshot, waits for the sync, publishes the snapshot, and answers all requests.
// Requests that failed wait too, because they were decided on data that must be durable
// before a caller learns of it.
//
// At most one group is in progress. Meanwhile the next group grows, and one sync serves
// all of it.
func (db *DB) sequence() {
	defer db.background.Done()
	g := newGroup(db)
	var requests []*request
	defer db.recovery.stop()
	for open := true; open; {
		if db.recover() {
			g = newGroup(db)
		}
		requests, open = db.queue.take(requests[:0])
		if len(requests) == 0 {
			if open && db.idle() {
				g = newGroup(db)
			}
			continue
		}
		for rest := requests; len(rest) > 0; {
			n := db.carryOut(g, rest)
			for i, r := range rest[:n] {
				rest[i] = nil
				r.done <- struct{}{}
			}
			if rest = rest[n:]; len(rest) > 0 && db.recover() {
				g = newGroup(db)
			}
		}
		yieldToWriters()
	}
}

// yieldToWriters yields the processor, so that writers whose requests were answered
// together can queue their next ones. That nearly doubles the size of the next group. One
// yield is not enough if the writers share two cores with Pebble's goroutines. With four
// yields, groups held 55 of 64 writers instead of 45. The cost for a single writer was
// too small to measure.
func yieldToWriters() {
	const turns = 4
	for range turns {
		runtime.Gosched()
	}
}

// carryOut carries out requests as one group. It returns the number of requests in the
// group. The remaining ones did not fit.
func (db *DB) carryOut(g *group, requests []*request) (n int) {
	if err := db.unwritable(); err != nil {
		for _, r := range requests {
			r.err = err
		}
		return len(requests)
	}
	g.begin()
	for i, r := range requests {
		if g.size() >= maxGroupBytes {
			requests = requests[:i]
			break
		}
		if r.control != nil {
			g.appendDeferred() // the control function may delete the keys of deferred writes
			r.err = r.control(g)
		} else {
			r.err = g.transact(r)
			g.read += r.read()
		}
	}
	if err := g.commit(); err != nil {
		// Part of the group may be in memory only.
		err = db.fail(err)
		for _, r := range requests {
			r.err = err
		}
	}
	return len(requests)
}

// unwritable returns the error with which writes are refused now, or nil. It may wait for
// the engine.
func (db *DB) unwritable() error {
	if db.recovery.failed != nil {
		return db.dir.Refused(db.recovery.failed)
	}
	err := db.pebble.Refusal()
	switch {
	case err == nil:
		return nil
	case db.pebble.CutOff() != nil:
		return db.fail(err)
	}
	return db.dir.Refused(err)
}

// group is the sequencer's working memory, reused for each group of requests.
type group struct {
	db *DB
	// batch has the group's writes to the log. deferred has the group's writes to the
	// index and the group's deletes. appendDeferred adds deferred to batch. So the documents
	// of a segment come one after another, in the order of their keys, and Pebble need
	// not search the memtable for the position of each document.
	//
	// orders has the group's writes to the orders of partitions, whose keys come one after
	// another, too. appendDeferred adds them before deferred.
	batch, orders, deferred *pebble.Batch
	// index is an iterator over the index entries before this group. files is the same
	// without the memtables. Both are nil until the first lookup.
	index, files *pebble.Iterator
	// cache has the index entries of recent writes. end is this group's last
	// write.
	cache indexCache
	end   lastWrite
	// read is the number of bytes of documents that the group's transactions have read.
	read int
	// ts is the clock's time when the group began. It is the _ts of all writes of the
	// group.
	ts int64
	// written has the items that the group wrote, by index key. They are not in the
	// database yet.
	written map[string]version
	// dirty lists the writeStates that the group changed.
	dirty []*writeState
	// effects are the writes of the current transaction.
	effects []effect
	// scratch is memory for one key. images is memory for the previous documents of the
	// items that the current transaction writes.
	scratch, images []byte
	// broken is an error that occurred when part of a transaction was already in the
	// batch. It fails the whole group.
	broken error
	// records has the records that the group wrote, by key. A nil value is a deleted
	// record.
	records map[string][]byte
	// claims are the group's changes of the indexes of unique keys. undo reverts the
	// changes of the current transaction. unique reads the entries that earlier groups
	// left.
	claims uniqueClaims
	undo   []uniqueUndo
	unique *pebble.Iterator
	// catalog is the new catalog if the group changed it.
	catalog *catalog
	// retired has the signals of the partitions that the group retired.
	retired []*signal
}

func newGroup(db *DB) *group {
	return &group{db: db, written: map[string]version{}, cache: newIndexCache(db)}
}

func (g *group) begin() {
	g.ts = g.db.clock.seconds()
	g.batch, g.orders, g.deferred = g.db.pebble.NewBatch(), g.db.pebble.NewBatch(), g.db.pebble.NewBatch()
	g.read = 0
	g.dirty = g.dirty[:0]
	g.catalog = nil
	g.retired = g.retired[:0]
}

// size returns the number of bytes that the group holds. Changes and deletes have small
// requests but may write much, so the size of the requests alone does not bound a group.
func (g *group) size() int { return g.batch.Len() + g.orders.Len() + g.deferred.Len() + g.read }

// commit makes the group durable and then visible. It writes nothing if the group changed
// nothing.
func (g *group) commit() error {
	db := g.db
	defer func() {
		_ = errors.Join(g.batch.Close(), g.orders.Close(), g.deferred.Close()) // Close returns an error only if the batch was closed before
		g.batch, g.orders, g.deferred = nil, nil, nil
		g.closeIndex()
		// An idle store must not keep the last documents in memory.
		clear(g.written)
		clear(g.records)
		clear(g.claims)
		clear(g.undo[:cap(g.undo)])
		clear(g.effects[:cap(g.effects)])
		if cap(g.images) > maxGroupBytes {
			g.images = nil
		}
	}()
	for _, l := range g.dirty {
		if err := l.flush(g); err != nil {
			return err
		}
	}
	g.appendDeferred()
	if g.broken != nil {
		return g.broken
	}
	if g.batch.Empty() {
		return nil
	}
	if err := db.pebble.ApplyNoSyncWait(g.batch, pebble.Sync); err != nil {
		return err
	}
	snap := db.pebble.NewSnapshot()
	err := g.batch.SyncWait()
	if err = cmp.Or(err, db.pebble.CutOff()); err != nil {
		return errors.Join(err, snap.Close())
	}
	db.publish(g.view(snap))
	for _, l := range g.dirty {
		l.announce()
	}
	for _, s := range g.retired {
		s.retire()
	}
	g.cache.add(g.written, g.end)
	return nil
}

// appendDeferred moves the writes in orders and deferred to the end of batch.
func (g *group) appendDeferred() {
	for _, b := range []*pebble.Batch{g.orders, g.deferred} {
		if !b.Empty() {
			g.broken = errors.Join(g.broken, g.batch.Apply(b, nil))
			b.Reset()
		}
	}
}

// lookup returns an item's index entry as the earlier groups left it. ok reports whether
// the item has one.
//
// Pebble's Get creates iterators for each key, and never asks the filters of the last
// level. A new item's key is in no file. For such keys Get took four times as long as
// lookup. So lookup uses one iterator for the whole group, which asks the filters of all
// levels. That is safe because no other goroutine writes.
func (g *group) lookup(key []byte) (e layout.Entry, ok bool, err error) {
	if err := g.openFiles(); err != nil {
		return e, false, err
	}
	it := g.files
	e, ok, where, err := g.cache.find(key)
	switch where {
	case inCache:
		return e, ok, err
	case inFiles:
	case anywhere:
		if g.index == nil {
			if g.index, err = g.db.pebble.NewIter(&pebble.IterOptions{UseL6Filters: true}); err != nil {
				return e, false, err
			}
		}
		it = g.index
	}
	if !it.SeekPrefixGE(key) {
		return e, false, it.Error()
	}
	b, err := it.ValueAndErr()
	if err == nil {
		e, err = layout.DecodeEntry(b)
	}
	return e, err == nil, err
}

// openFiles opens the iterator over the files for this group's lookups. The cache may
// then drop entries that are in the files.
func (g *group) openFiles() (err error) {
	if g.files != nil {
		return nil
	}
	g.files, err = g.db.pebble.NewIter(&pebble.IterOptions{UseL6Filters: true, OnlyReadGuaranteedDurable: true})
	if err != nil {
		return err
	}
	return g.cache.trim(g.files)
}

// closeIndex closes the iterators of the lookups. Open iterators keep old files and
// memtables alive.
func (g *group) closeIndex() {
	for _, it := range []**pebble.Iterator{&g.index, &g.files, &g.unique} {
		if *it != nil {
			_ = (*it).Close() // Close returns only errors that the lookups returned
			*it = nil
		}
	}
}

// view returns the view that the group creates. snap is a snapshot after the group.
func (g *group) view(snap *pebble.Snapshot) *view {
	db := g.db
	// Only this goroutine writes current, so it reads current without the lock.
	v := &view{engine: db.pebble, snap: snap, catalog: db.current.catalog}
	if g.catalog != nil {
		v.catalog = g.catalog
	}
	v.states = make([]*state, len(db.writeStates))
	copy(v.states, db.current.states)
	for _, l := range g.dirty {
		if db.writeStates[l.c.slot] == l {
			v.states[l.c.slot] = l.state()
		}
	}
	for i, l := range db.writeStates {
		if l == nil {
			v.states[i] = nil
		}
	}
	return v
}
