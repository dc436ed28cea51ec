package engine

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/internal/race"
)

// limitedFS is a file system with room for a limited number of written bytes. Writes
// beyond it return ENOSPC.
type limitedFS struct {
	vfs.FS
	mu   sync.Mutex // guards room
	room int64
	// tablesOnly reports whether only writes to tables use room.
	tablesOnly bool
	refusals   atomic.Int64
}

type limitedFile struct {
	vfs.File
	fs *limitedFS
}

func (l *limitedFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || l.tablesOnly && !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	return limitedFile{f, l}, nil
}

func (l *limitedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.Create(name, c)
	return l.wrap(name, f, err)
}

func (l *limitedFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.ReuseForWrite(old, name, c)
	return l.wrap(name, f, err)
}

func (f limitedFile) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n := min(int64(len(p)), f.fs.room)
	f.fs.room -= n
	written, err := f.File.Write(p[:n])
	if err == nil && n < int64(len(p)) {
		f.fs.refusals.Add(1)
		err = syscall.ENOSPC
	}
	return written, err
}

// heal gives the disk enough room for the rest of the test.
func (l *limitedFS) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.room = 1 << 30
}

// The disk becomes full during an upgrade that builds the index of unique keys. Each run
// has a little more room than the one before. Open must return the disk's error within a
// second. With free space, a later Open must complete the upgrade.
func TestUpgradeOnAFullDiskEndsAndIsResumed(t *testing.T) {
	if race.Enabled {
		t.Skip("checks files on a full disk, in which the race detector finds nothing")
	}
	const items = 1250
	aged := vfs.NewMem()
	db, err := Open("db", Options{FS: aged, Memory: minMemory, PurgeInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateDatabase(t.Context(), DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	keys := [][]string{{"/n"}, {"/id"}, {"/id", "/n"}, {"/n", "/p"}, {"/n", "/id"}, {"/n", "/a"}, {"/n", "/b"}, {"/n", "/c"}}
	c := newContainer(t, db, ContainerProperties{UniqueKeys: keys})
	id := func(i int) string { return fmt.Sprint(strings.Repeat("i", 240), i) }
	for i := range items {
		upsert(t, c, id(i), fmt.Sprint("p", i%5), i)
	}
	age(t, db, c, func(containerRecord) {})

	for _, tablesOnly := range []bool{false, true} {
		step := int64(501_041)
		if tablesOnly {
			step = 100_129 // tables take less than half of the bytes that an upgrade writes
		}
		refused := 0
		for room := int64(0); room < 64<<20; room += step {
			done := false
			t.Run(fmt.Sprint(tablesOnly, room), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { done = upgradeOnAFullDisk(t, aged, tablesOnly, room, items, id) })
			})
			if done || t.Failed() {
				break
			}
			refused++
		}
		if refused < 3 {
			t.Errorf("tables only %v: the disk was full only %d times", tablesOnly, refused)
		}
	}
}

// upgradeOnAFullDisk opens a copy of an old store on a disk with the given room. If Open
// fails, it opens the store again with more room, and verifies it. enough reports whether
// the disk refused no write.
func upgradeOnAFullDisk(t *testing.T, aged vfs.FS, tablesOnly bool, room int64, items int, id func(int) string) (enough bool) {
	mem := vfs.NewMem()
	if _, err := vfs.Clone(aged, mem, "db", "db"); err != nil {
		t.Fatal(err)
	}
	disk := &limitedFS{FS: mem, room: room, tablesOnly: tablesOnly}
	heal := time.AfterFunc(time.Minute, disk.heal) // if Open hangs, frees space; the test then fails because Open took too long
	started := time.Now()
	open := func() (*DB, error) {
		return Open("db", Options{FS: disk, Memory: minMemory, PurgeInterval: -1})
	}
	db, err := open()
	heal.Stop()
	if took := time.Since(started); took > time.Second {
		t.Errorf("Open took %v", took)
	}
	time.Sleep(time.Second) // waits for flushes
	enough = disk.refusals.Load() == 0
	disk.heal()
	if err != nil {
		if !errors.Is(err, syscall.ENOSPC) || errors.As(err, new(*CorruptError)) {
			t.Fatalf("open on a full disk: %v", err)
		}
		if db, err = open(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(20 * time.Second) // waits until the store accepts writes again
	defer closeChecked(t, db)
	c, err := db.Container(t.Context(), "db", "c")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < items; i += 99 {
		_, err := c.Create(t.Context(), nil, body("new", fmt.Sprint("p", i%5), i), WriteOptions{})
		wantClash(t, "a value of before the upgrade", err, "new", id(i))
	}
	return enough
}
