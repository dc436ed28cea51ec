package engine

import (
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/internal/disk"
)

// Open implements store.Open, which documents it.
func Open(dir string, o Options) (*DB, error) {
	o = o.withDefaults()
	if o.FS == vfs.Default {
		var err error
		if dir, o.FS, err = disk.Prepare(dir, o.Logger); err != nil {
			return nil, err
		}
	}
	return open(&DB{options: o}, dir, dir)
}

// OpenMemory opens a new, empty store in memory. Close discards its contents.
func OpenMemory(o Options) (*DB, error) {
	if o.Memory == 0 {
		o.Memory = defaultMemoryInRAM
	}
	o.FS = vfs.NewMem()
	return open(&DB{options: o.withDefaults()}, memoryDir, "")
}

// OpenMemoryAnew opens a store as OpenMemory does, but its resource ids begin at a random
// number. A server needs that, because its clients may outlive it: they would take the
// containers of the next store for those that they know, whose positions are not valid
// there. Tests use OpenMemory, whose ids are always the same.
func OpenMemoryAnew(o Options) (*DB, error) {
	db, err := OpenMemory(o)
	if err != nil {
		return nil, err
	}
	return db, db.control(func(g *group) error {
		// A restart rarely gives a number twice. The numbers stay below 2^23, because the
		// rid of an offer has room for no more, and Java's SDK refuses a longer one.
		const most = 1 << 22
		db.numbers.Database, db.numbers.Container = mathrand.Uint32N(most), mathrand.Uint32N(most)
		return g.putNumbers()
	})
}

// memoryDir is the name of the directory of a store in memory. Each such store has its
// own file system.
const memoryDir = "store"

// open opens the store in the directory path of its file system. Errors call it name.
func open(db *DB, path, name string) (*DB, error) {
	db.id = rand.Text()
	var err error
	if db.dir, err = disk.Lock(db.options.FS, path, name); err != nil {
		return nil, err
	}
	if err := db.start(); err != nil {
		return nil, errors.Join(err, db.dir.Unlock())
	}
	return db, nil
}

// start opens the files of a locked directory and starts the background work.
func (db *DB) start() error {
	if err := db.dir.CheckFiles(); err != nil {
		return err
	}
	db.config = disk.NewConfig(db.options.Memory, db.options.MaxOpenFiles, db.options.Logger, db.sstPartitions.span)
	db.sstPartitions.window = int(db.config.MemTableSize()) / 2
	e, err := db.dir.OpenFirst(db.config)
	if err != nil {
		db.config.Release()
		return db.dir.OpenFault(err)
	}
	db.pebble = e
	db.closing = make(chan struct{})
	db.kick = make(chan struct{}, 1)
	db.queue.wake = make(chan struct{}, 1)
	// An engine that was cut off from the disk returns no errors. So start also checks
	// whether its disk was cut off.
	err = e.CutOff()
	if err == nil {
		err = db.load(e)
	}
	if err != nil {
		err = errors.Join(db.dir.StartFault(err), e.End())
		db.config.Release()
		return err
	}
	db.background.Add(2)
	go db.sequence()
	go db.clean()
	return nil
}
