package disk

import (
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is the file system of one engine. It decides how a refused write affects Pebble.
//
// Pebble panics in its own goroutines when it cannot write a log or its manifest. So the
// first refusal of such a write cuts the engine off from the disk. From then on, its
// changes seem to succeed but do not reach the disk. The disk then has the state that a
// crash at that moment would leave. The sequencer calls refusal before it acknowledges a
// write, so it detects the refusal. An engine that was cut off can still be read.
//
// Pebble handles a refused table as an error and retries the flush or compaction at once.
// So the next table of that kind is delayed, longer after each refusal in a row.
//
// While Pebble opens, it waits until its logs are flushed, even if the disk refuses the
// tables. A patient opening retries refused writes until there is room. In any other
// opening, the second attempt to write a table cuts the engine off. Tables are then
// written to memory, so that the opening ends.
type disk struct {
	vfs.FS
	// notify is called when the engine is cut off.
	notify func()
	// stopped is closed when the engine is closed, which ends all delays. stop closes it.
	stopped chan struct{}
	stop    func()

	// changes is held for reading during each change of a file. WaitForChanges takes the
	// write lock to wait until all of them have ended.
	changes sync.RWMutex

	mu    sync.Mutex // guards the fields below
	cause error      // the refusal that cut the engine off, or nil
	// opening reports whether Pebble is opening its files. patient reports whether this
	// opening waits for room on a full disk.
	opening, patient bool
	full             error      // the error of the last refused change of a table
	memory           *vfs.MemFS // holds new tables if the engine was cut off while it opened
	// delays has the current delay of each kind of file whose last change was refused.
	delays map[vfs.DiskWriteCategory]*delay
	// held has the names of the tables that Pebble deleted while holding was true. They
	// are still on disk, because another engine may read them.
	holding bool
	held    []string
	// created has the names of the tables that this engine has created while it opened or
	// while holding was true. No other engine reads them. marked reports whether a marker
	// may have made a manifest with these tables the current one.
	created map[string]bool
	marked  bool
}

// delay is the delay of one kind of file. wait is the length of the last delay, and until
// its end.
type delay struct {
	wait  time.Duration
	until time.Time
}

// The delays after a refusal. Each refusal in a row doubles the delay.
const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 5 * time.Second
)

// newDisk returns the file system of an engine that opens in fs. The disk of a patient
// engine deletes no tables until unhold is called. notify is called when the engine is
// cut off. It must not block.
func newDisk(fs vfs.FS, patient bool, notify func()) *disk {
	stopped := make(chan struct{})
	return &disk{
		FS: orderedFS{fs}, notify: notify, opening: true, patient: patient, holding: patient,
		stopped: stopped, stop: sync.OnceFunc(func() { close(stopped) }),
		delays: map[vfs.DiskWriteCategory]*delay{}, created: map[string]bool{},
	}
}

// Refusal returns the error that cut the engine off, or nil.
func (d *disk) refusal() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cause
}

// opened records that Pebble has ended its opening, with or without success. The engine
// is then no longer patient.
func (d *disk) opened() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opening, d.patient = false, false
}

// Cut cuts the engine off from the disk because of the error cause. Later calls do
// nothing. A patient opening then no longer waits for room.
func (d *disk) cut(cause error) {
	d.mu.Lock()
	first := d.cause == nil
	if first {
		d.cause = cause
		d.patient = false
		d.memory = vfs.NewMem()
	}
	d.mu.Unlock()
	if first {
		d.notify()
	}
}

// WaitForChanges waits for the changes that began before the engine was cut off.
func (d *disk) waitForChanges() {
	d.changes.Lock()
	defer d.changes.Unlock() // Lock returns when all changes have ended
}

// do makes one change of a file that is not a table. If the disk refuses, do cuts the
// engine off. But if again is true and the opening is patient, do waits and retries.
func (d *disk) do(again bool, change func() error) {
	for d.once(again, change) {
		d.await(noTable)
	}
}

// The kinds of files that have delays. Flushes and compactions write tables.
const (
	noTable         vfs.DiskWriteCategory = ""
	flushTable      vfs.DiskWriteCategory = "pebble-memtable-flush"
	compactionTable vfs.DiskWriteCategory = "pebble-compaction"
)

// once makes one attempt of the change that do makes. It reports whether do must retry.
func (d *disk) once(again bool, change func() error) (retry bool) {
	d.changes.RLock()
	defer d.changes.RUnlock()
	if d.refusal() != nil {
		return false
	}
	err := change()
	if err == nil {
		return false
	}
	d.mu.Lock()
	retry = again && d.patient
	d.mu.Unlock()
	if retry {
		d.refused(noTable)
	} else {
		d.cut(err)
	}
	return retry
}

// table makes one change of a table and returns the disk's error. A refusal delays the
// next table of the same kind.
func (d *disk) table(kind vfs.DiskWriteCategory, change func() error) error {
	d.changes.RLock()
	defer d.changes.RUnlock()
	err := d.refusal()
	if err == nil {
		if err = change(); err == nil {
			return nil
		}
	}
	d.refused(kind)
	d.mu.Lock()
	d.full = err
	d.mu.Unlock()
	return err
}

// clean deletes the tables of an opening that failed, unless the current manifest may name
// them. Otherwise they would take the room that the next opening needs. Pebble must be
// closed.
func (d *disk) clean() {
	d.mu.Lock()
	created := d.created
	if d.marked {
		created = nil
	}
	d.mu.Unlock()
	for name := range created {
		_ = d.FS.Remove(name) // Pebble deleted some of them; the next opening deletes what remains
	}
}

// giveUp cuts the engine off if its opening is not patient and a table was refused.
func (d *disk) giveUp() {
	d.mu.Lock()
	err := d.full
	if !d.opening || d.patient {
		err = nil
	}
	d.mu.Unlock()
	if err != nil {
		d.cut(err)
	}
}

// Refused records that the disk has refused a file of a kind. The next file of that kind
// is delayed, twice as long as the last time.
func (d *disk) refused(kind vfs.DiskWriteCategory) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.delays[kind]
	if l == nil {
		l = &delay{wait: firstDelay / 2}
		d.delays[kind] = l
	}
	now := time.Now()
	if now.Before(l.until) {
		return // this refusal is part of the same attempt
	}
	l.wait = min(2*l.wait, maxDelay)
	l.until = now.Add(l.wait)
}

// await waits until the current delay of a kind of file has ended, or the engine is
// closed.
func (d *disk) await(kind vfs.DiskWriteCategory) {
	d.mu.Lock()
	var wait time.Duration
	if l := d.delays[kind]; l != nil {
		wait = time.Until(l.until)
	}
	d.mu.Unlock()
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.stopped:
	}
}

// written ends the delay of a kind of table. It is called after a flush or a compaction
// has succeeded.
func (d *disk) written(kind vfs.DiskWriteCategory) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.delays, kind)
}

// Unhold deletes the tables in held. From then on, Remove deletes tables at once.
func (d *disk) unhold() error {
	d.mu.Lock()
	held := d.held
	d.holding, d.held, d.created = false, nil, nil
	d.mu.Unlock()
	var errs []error
	for _, name := range held {
		errs = append(errs, d.Remove(name))
	}
	return errors.Join(errs...)
}

func isTable(name string) bool { return strings.HasSuffix(name, ".sst") }

// Create creates a file. If the file is a table, Create may wait first, and returns the
// disk's error. For any other file it returns no error. If the engine is cut off, such a
// file is empty and in memory.
func (d *disk) Create(name string, kind vfs.DiskWriteCategory) (f vfs.File, err error) {
	create := func() (err error) {
		if markedManifest(d.PathBase(name)) != "" {
			d.mu.Lock()
			d.marked = true
			d.mu.Unlock()
		}
		f, err = d.FS.Create(name, kind)
		return err
	}
	if !isTable(name) {
		d.do(true, create)
		return d.file(f)
	}
	d.await(kind)
	d.giveUp()
	if memory := d.tablesInMemory(); memory != nil {
		return createIn(memory, name)
	}
	if err := d.table(kind, create); err != nil {
		return nil, err
	}
	d.mu.Lock()
	if d.opening || d.holding {
		d.created[name] = true
	}
	d.mu.Unlock()
	return &tableFile{File: f, d: d, kind: kind}, nil
}

// tablesInMemory returns the file system in memory for new tables. It returns nil unless
// the engine was cut off while it opened.
func (d *disk) tablesInMemory() *vfs.MemFS {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.opening {
		return nil
	}
	return d.memory
}

func createIn(fs *vfs.MemFS, name string) (vfs.File, error) {
	if err := fs.MkdirAll(fs.PathDir(name), 0o755); err != nil {
		return nil, err
	}
	return fs.Create(name, vfs.WriteCategoryUnspecified)
}

// Open opens a file for reading. It looks in memory first, where the tables of an opening
// that was cut off are.
func (d *disk) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	d.mu.Lock()
	memory := d.memory
	d.mu.Unlock()
	if memory != nil {
		if f, err := memory.Open(name, o...); err == nil {
			return f, nil
		}
	}
	return d.FS.Open(name, o...)
}

// file returns the file that Pebble writes in place of the created file f. If f is nil,
// because the engine is cut off, that is an empty file in memory.
func (d *disk) file(f vfs.File) (vfs.File, error) {
	if f == nil {
		var err error
		if f, err = vfs.NewMem().Create("discarded", vfs.WriteCategoryUnspecified); err != nil {
			return nil, err
		}
	}
	return &diskFile{File: f, d: d}, nil
}

// ReuseForWrite gives an obsolete log a new name and returns it for writing. Pebble does
// not call it during an opening.
func (d *disk) ReuseForWrite(old, name string, kind vfs.DiskWriteCategory) (f vfs.File, err error) {
	d.do(false, func() (err error) {
		f, err = d.FS.ReuseForWrite(old, name, kind)
		return err
	})
	return d.file(f)
}

// OpenDir opens a directory, so that Pebble can sync it.
func (d *disk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, d: d}, nil
}

// change makes a change that need not succeed, such as a deletion. It returns the disk's
// error, which Pebble tolerates. If the engine is cut off, it does nothing.
func (d *disk) change(change func() error) error {
	d.changes.RLock()
	defer d.changes.RUnlock()
	if d.refusal() != nil {
		return nil
	}
	return change()
}

// Remove deletes a file. While holding is true, it does not delete tables of other engines
// but records their names in held.
func (d *disk) Remove(name string) error {
	if isTable(name) {
		d.mu.Lock()
		holding := d.holding && !d.created[name]
		if holding {
			d.held = append(d.held, name)
		}
		d.mu.Unlock()
		if holding {
			return nil
		}
	}
	return d.change(func() error { return d.FS.Remove(name) })
}

// Rename renames a file. It does nothing if the engine is cut off.
func (d *disk) Rename(old, name string) error {
	return d.change(func() error { return d.FS.Rename(old, name) })
}

// Link creates a hard link. It does nothing if the engine is cut off.
func (d *disk) Link(old, name string) error {
	return d.change(func() error { return d.FS.Link(old, name) })
}

// Lock does nothing: the store itself holds the lock on the directory, for all of its
// engines.
func (d *disk) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Unwrap returns the wrapped file system. Pebble calls it to find the file system of the
// operating system.
func (d *disk) Unwrap() vfs.FS { return d.FS }

// diskFile is any open file that is not a table: a log, a manifest, another small file,
// or a directory. If the disk refuses a change, the file reports success, and the engine
// is cut off.
type diskFile struct {
	vfs.File
	d *disk
}

func (f *diskFile) Write(p []byte) (int, error) {
	rest := p
	f.d.do(true, func() error {
		n, err := f.File.Write(rest)
		rest = rest[n:]
		return err
	})
	return len(p), nil
}

func (f *diskFile) WriteAt(p []byte, at int64) (int, error) {
	f.d.do(true, func() error { _, err := f.File.WriteAt(p, at); return err })
	return len(p), nil
}

// Sync syncs the file. A failed sync is not retried, because the state of the disk is
// then unknown.
func (f *diskFile) Sync() error {
	f.d.do(false, func() error { return f.File.Sync() })
	return nil
}

func (f *diskFile) SyncData() error {
	f.d.do(false, func() error { return f.File.SyncData() })
	return nil
}

func (f *diskFile) SyncTo(length int64) (full bool, err error) {
	full = true // if the engine is cut off, there is nothing to sync
	f.d.do(false, func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, nil
}

// Preallocate reserves room for later writes. If it fails, those writes report that room
// is missing.
func (f *diskFile) Preallocate(offset, length int64) error {
	return f.d.change(func() error { return f.File.Preallocate(offset, length) })
}

// Close closes the file. A log that was written to its end gets the witness that it is
// complete, unless the engine is cut off: the disk may then lack its last records.
func (f *diskFile) Close() error {
	if log, ok := f.File.(*logFile); ok {
		f.d.do(false, log.complete)
	}
	if err := f.File.Close(); err != nil {
		f.d.cut(err)
	}
	return nil
}

// tableFile is a table that Pebble is writing. It returns the disk's errors.
type tableFile struct {
	vfs.File
	d    *disk
	kind vfs.DiskWriteCategory
}

func (f *tableFile) Write(p []byte) (n int, err error) {
	err = f.d.table(f.kind, func() error { n, err = f.File.Write(p); return err })
	return n, err
}

func (f *tableFile) Sync() error     { return f.d.table(f.kind, f.File.Sync) }
func (f *tableFile) SyncData() error { return f.d.table(f.kind, f.File.SyncData) }

func (f *tableFile) SyncTo(length int64) (full bool, err error) {
	err = f.d.table(f.kind, func() error { full, err = f.File.SyncTo(length); return err })
	return full, err
}
