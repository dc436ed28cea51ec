package engine

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// maxGroupBytes bounds the documents of one group; what waits beyond it goes
// into the next one. It bounds them twice: by what the requests bring, and by what they made.
const maxGroupBytes = 8 << 20

// request is something for the sequencer to do: a transaction on one logical
// partition, or a change to the store itself.
type request struct {
	c   *Container
	ops []operation
	one [1]operation // ops of a single write, so that it needs no memory of its own
	// batch tells that errors are to name the operation.
	batch bool
	// control changes catalog, topology or settings, or purges. It must leave the group as
	// it was when it returns an error.
	control func(*group) error

	// The answer, valid after done.
	err       error
	lsn, end  int64
	partition string
	done      chan struct{} // of capacity 1
}

// bytes is what the request adds to a group, roughly.
func (r *request) bytes() int {
	n := 0
	for i := range r.ops {
		n += len(r.ops[i].doc.body)
	}
	return n
}

// read is how many bytes of documents the request has read.
func (r *request) read() int {
	n := 0
	for i := range r.ops {
		n += len(r.ops[i].stored)
	}
	return n
}

// queue is what waits for the sequencer.
type queue struct {
	mu      sync.Mutex // guards waiting and closed
	waiting []*request
	closed  bool
	wake    chan struct{} // of capacity 1: something waits, or closed
}

// submit hands r to the sequencer and waits until it is carried out and durable.
func (db *DB) submit(r *request) error {
	q := &db.queue
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrClosed
	}
	q.waiting = append(q.waiting, r)
	first := len(q.waiting) == 1
	q.mu.Unlock()
	if first {
		select {
		case q.wake <- struct{}{}:
		default: // it is awake
		}
	}
	<-r.done
	return r.err
}

// do carries out a change to the store itself.
func (db *DB) do(ctx context.Context, control func(*group) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return db.control(control)
}

// control is do for the background work, which has no context.
func (db *DB) control(control func(*group) error) error {
	return db.submit(&request{control: control, done: make(chan struct{}, 1)})
}

// take moves waiting requests to dst, up to a group's size; open is false when
// the queue is closed and empty.
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

// sequence is the sequencer: the one goroutine that writes. It takes all
// requests that wait, carries them out one after the other into one batch,
// applies it, takes the snapshot, waits for the sync, publishes the snapshot and
// answers them all: also those that failed, since what they were judged by
// must be durable before anybody hears of it.
//
// There is never more than one group under way: the next one is the larger for
// it, and one sync serves them all.
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
		letWritersQueue()
	}
}

// letWritersQueue lets the writers that were answered together, and come back
// together, queue up before the next group is taken. That nearly doubles the
// group. One turn of the scheduler is not enough where the writers share two
// cores with Pebble's goroutines; four were measured to be (groups of 55 of 64 writers,
// instead of 45), and cost one writer alone nothing that could be measured.
func letWritersQueue() {
	const turns = 4
	for range turns {
		runtime.Gosched()
	}
}

// carryOut carries out one group: the first n of the requests. The others did not fit.
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
			g.gather() // it may delete what is behind, too
			r.err = r.control(g)
		} else {
			r.err = g.transact(r)
			g.read += r.read()
		}
	}
	if err := g.commit(); err != nil {
		// What was applied to memory may not be on disk.
		err = db.fail(err)
		for _, r := range requests {
			r.err = err
		}
	}
	return len(requests)
}

// unwritable returns the error by which writes are refused now; nil: they are not. It may wait
// for the engine.
func (db *DB) unwritable() error {
	if db.recovery.failed != nil {
		return db.recovery.failed
	}
	err := db.pebble.refusal()
	switch {
	case err == nil:
		return nil
	case db.pebble.disk.refusal() != nil:
		return db.fail(err)
	}
	return db.refused(err)
}

// group is the sequencer's working memory, for one group at a time.
type group struct {
	db *DB
	// batch is what the group writes, and behind what comes behind it: what the transactions write to the index, and delete. So the
	// documents of a segment come one after the other, in the order of their keys, and a memtable needn't be searched for the place of each.
	batch, behind *pebble.Batch
	// index looks up what the groups before this one left in the database, and files what they left in its files, memtables
	// aside; nil until the first look.
	index, files *pebble.Iterator
	// cache has the entries of recent writes. mark identifies the group in it.
	cache indexCache
	mark  mark
	// read is how many bytes of documents the transactions of the group have read.
	read int
	// ts is the store's clock when the group began: the _ts of all its writes.
	ts int64
	// written has the items that the group wrote, by index key: they are not in
	// the database yet.
	written map[string]version
	// dirty are the writeStates that the group wrote to.
	dirty []*writeState
	// effects are what the transaction at hand is going to do.
	effects []effect
	// scratch is for a key, and images for the previous images of the transaction at hand.
	scratch, images []byte
	// broken tells that the batch can't be applied.
	broken error
	// records are the keys of records that the group wrote; nil: deleted.
	records map[string][]byte
	// claims are the group's changes of the indexes of unique keys, undo takes back those of
	// the transaction at hand, and unique reads what the groups before this one left.
	claims uniqueClaims
	undo   []uniqueUndo
	unique *pebble.Iterator
	// catalog is set when the group changed it.
	catalog *catalog
	// retired are the signals of partitions that the group retired.
	retired []*signal
}

func newGroup(db *DB) *group {
	return &group{db: db, written: map[string]version{}, cache: newIndexCache(db)}
}

func (g *group) begin() {
	g.ts = g.db.clock.seconds()
	g.batch, g.behind = g.db.pebble.NewBatch(), g.db.pebble.NewBatch()
	g.read = 0
	g.dirty = g.dirty[:0]
	g.catalog = nil
	g.retired = g.retired[:0]
}

// size returns how many bytes the group holds so far. Changes and deletes bring next to nothing and may make
// much, so a group of them is not bounded by what its requests bring.
func (g *group) size() int { return g.batch.Len() + g.behind.Len() + g.read }

// commit makes the group durable and then visible. A group that changed nothing
// costs nothing.
func (g *group) commit() error {
	db := g.db
	defer func() {
		_ = errors.Join(g.batch.Close(), g.behind.Close()) // reports only that it was closed before
		g.batch, g.behind = nil, nil
		g.closeIndex()
		// While the store is idle it should not hold on to the last documents.
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
	g.gather()
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
	if err = cmp.Or(err, db.pebble.disk.refusal()); err != nil {
		return errors.Join(err, snap.Close())
	}
	db.publish(g.view(snap))
	for _, l := range g.dirty {
		l.announce()
	}
	for _, s := range g.retired {
		s.retire()
	}
	g.cache.add(g.written, g.mark)
	return nil
}

// gather puts what is behind the batch into it.
func (g *group) gather() {
	if g.behind.Empty() {
		return
	}
	g.broken = errors.Join(g.broken, g.batch.Apply(g.behind, nil))
	g.behind.Reset()
}

// lookup reads an item's index entry as the groups before this one left it; ok is false when
// there is none.
//
// One iterator serves the whole group, since nobody else writes, and it asks the filters of
// all levels. Pebble's Get builds its iterators anew for each key, and never asks the filters of the
// last level: for a key that isn't there, which is every new item's, it was measured to take four
// times as long.
func (g *group) lookup(key []byte) (e entry, ok bool, err error) {
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
		e, err = decodeEntry(b)
	}
	return e, err == nil, err
}

// openFiles begins the lookups of the group. What is forgotten then is in the files as this group sees them.
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

// closeIndex ends the lookups of the group: the iterators keep old files and
// memtables alive.
func (g *group) closeIndex() {
	for _, it := range []**pebble.Iterator{&g.index, &g.files, &g.unique} {
		if *it != nil {
			_ = (*it).Close() // reports only what the lookups have reported
			*it = nil
		}
	}
}

// view makes the view that the group ends with.
func (g *group) view(snap *pebble.Snapshot) *view {
	db := g.db
	// current is written by this goroutine alone, so it can be read without the lock.
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
