package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

// smallDisk is a file system in memory. The files in the directory db can have room bytes
// together. A write beyond that returns ENOSPC.
type smallDisk struct {
	vfs.FS
	room   atomic.Int64
	tables atomic.Int64 // the number of attempts to create a table
	mu     sync.Mutex   // is held during a write, so that two writes cannot use the same room
}

func newSmallDisk(room int64) *smallDisk {
	d := &smallDisk{FS: vfs.NewMem()}
	d.room.Store(room)
	return d
}

// GetDiskUsage returns the free space in bytes: room less the size of all files.
func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: uint64(max(0, d.room.Load()-d.used()))}, nil
}

type smallFile struct {
	vfs.File
	d *smallDisk
}

func (d *smallDisk) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return smallFile{f, d}, nil
}

func (d *smallDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") {
		d.tables.Add(1)
	}
	return d.file(d.FS.Create(name, c))
}

func (d *smallDisk) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.file(d.FS.ReuseForWrite(old, name, c))
}

// used returns the total size in bytes of the files in the directory db.
func (d *smallDisk) used() (sum int64) {
	names, _ := d.List("db") // before the store creates the directory, no space is used
	for _, name := range names {
		if i, err := d.Stat("db/" + name); err == nil {
			sum += i.Size()
		}
	}
	return sum
}

// Write writes as many bytes of p as fit on the disk. If not all fit, it returns ENOSPC.
func (f smallFile) Write(p []byte) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	room := f.d.room.Load() - f.d.used()
	if room >= int64(len(p)) {
		return f.File.Write(p)
	}
	n := 0
	if room > 0 {
		var err error
		if n, err = f.File.Write(p[:room]); err != nil {
			return n, err
		}
	}
	return n, syscall.ENOSPC
}

// noise returns a text of random characters, which does not become smaller when a table
// is compressed.
var noise = sync.OnceValue(func() string {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[rng.IntN(64)]
	}
	return string(b)
})

// diskLoad writes documents of 40 KB to a store on a disk that can fail. Their ids are 0,
// 1, 2 and so on.
type diskLoad struct {
	t  *testing.T
	db *engine.DB
	c  *engine.Container
	n  int // the number of acknowledged documents, and the id of the next one
}

func newDiskLoad(t *testing.T, fs vfs.FS) *diskLoad {
	t.Helper()
	db, err := engine.Open("db", engine.Options{FS: fs, Memory: 4 << 20, PurgeInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	l := &diskLoad{t: t, db: db}
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	if l.c, err = db.CreateContainer(t.Context(), "db", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/id"}}); err != nil {
		t.Fatal(err)
	}
	return l
}

// write writes the next document once. It returns nil or a *storetype.DiskError. Any other
// error fails the test.
func (l *diskLoad) write() error {
	at := l.n % 25 * (40 << 10)
	body := fmt.Appendf(nil, `{"id":"%d","text":"%s"}`, l.n, noise()[at:at+40<<10])
	_, err := l.c.Upsert(l.t.Context(), nil, body, storetype.WriteOptions{NoBody: true})
	if err == nil {
		l.n++
	} else if !errors.As(err, new(*storetype.DiskError)) {
		l.t.Fatalf("a write failed with %v", err)
	}
	return err
}

// verify fails the test if an acknowledged document cannot be read.
func (l *diskLoad) verify(what string) {
	l.t.Helper()
	for i := range l.n {
		if _, err := l.c.Read(l.t.Context(), feed.PartitionKey{fmt.Sprint(i)}, fmt.Sprint(i), storetype.ReadOptions{}); err != nil {
			l.t.Fatalf("%s, document %d of %d: %v", what, i, l.n, err)
		}
	}
}

// On a full disk, the store must refuse each write within a second and serve all reads.
// When space is free again, it must accept writes. Each run has a disk of another size,
// so that a log, a table or a manifest fills it.
func TestFullDiskRefusesWritesAndServesReadsUntilSpaceIsFree(t *testing.T) {
	for room := int64(200 << 10); room < 6<<20; room += 597_123 {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fillDisk(t, room) })
		})
	}
}

func fillDisk(t *testing.T, room int64) {
	disk := newSmallDisk(room)
	l := newDiskLoad(t, disk)
	started := time.Now()
	for l.write() == nil {
		if l.n > 1000 {
			t.Fatal("the disk never became full")
		}
	}
	if took := time.Since(started); took > time.Second {
		t.Errorf("the refusal took %v", took)
	}
	l.verify("the disk is full")
	// The disk stays full for a minute. The store must refuse each write at once. It must
	// not try to create tables without pause.
	before := disk.tables.Load()
	for range 60 {
		time.Sleep(time.Second)
		asked := time.Now()
		if err := l.write(); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("the error does not name the disk: %v", err)
		}
		if took := time.Since(asked); took > time.Second {
			t.Errorf("a write took %v", took)
		}
	}
	if tried := disk.tables.Load() - before; tried > 200 {
		t.Errorf("%d tables were created in a minute", tried)
	}
	l.verify("after a minute")
	disk.room.Store(64 << 20)
	time.Sleep(20 * time.Second)
	for range 50 {
		if err := l.write(); err != nil {
			t.Fatalf("a write after space was freed: %v", err)
		}
	}
	l.verify("after space was freed")
	if err := errors.Join(l.db.Check(t.Context()), l.db.Close()); err != nil {
		t.Error(err)
	}
}

// On a full disk, Close must return within a second. An Open on the full disk must name
// the space that it needs. When space is free again, all acknowledged documents must be
// present.
func TestStoreOnAFullDiskIsClosedAndOpenedAgain(t *testing.T) {
	for room := int64(300 << 10); room < 6<<20; room += 797_123 {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := newSmallDisk(room)
				l := newDiskLoad(t, disk)
				for l.write() == nil {
				}
				time.Sleep(time.Duration(room) % (9 * time.Second)) // in some runs, the store is reopening its files at this moment
				started := time.Now()
				if err := l.db.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Error(err)
				}
				if took := time.Since(started); took > time.Second {
					t.Errorf("Close took %v", took)
				}
				db, err := engine.Open("db", engine.Options{FS: disk, PurgeInterval: -1})
				used := disk.used()
				for tries := 0; err != nil && tries < 5; tries++ {
					if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "opening the store may need ") {
						t.Errorf("open on a full disk: %v", err)
					}
					if db, err = engine.Open("db", engine.Options{FS: disk, PurgeInterval: -1}); err == nil {
						t.Error("Open failed, but an immediate retry succeeded")
					}
				}
				if err != nil {
					if now := disk.used(); now > used+8<<10 {
						t.Errorf("attempts to open used %d bytes", now-used)
					}
					disk.room.Store(64 << 20)
					if db, err = engine.Open("db", engine.Options{FS: disk, PurgeInterval: -1}); err != nil {
						t.Fatal(err)
					}
				}
				l.db = db
				if l.c, err = db.Container(t.Context(), "db", "c"); err != nil {
					t.Fatal(err)
				}
				l.verify("opened again")
				if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// On a disk without any free space, the error of Open must name the space that opening
// needs and the space that is free.
func TestOpenOnAFullDiskNamesTheNeededSpace(t *testing.T) {
	_, err := engine.Open("db", engine.Options{FS: newSmallDisk(0), PurgeInterval: -1})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "may need 64 KiB, ") || !strings.Contains(err.Error(), " 0 KiB are free") {
		t.Errorf("open on a disk without free space: %v", err)
	}
}

// follow reads the feed of a container until it has received n different documents. It
// returns the last LSN of each by id. Several versions of a document must arrive in the
// order of their LSNs.
func follow(ctx context.Context, c *engine.Container, n int) (map[string]int64, error) {
	seen := map[string]int64{}
	from := feed.Beginning()
	for len(seen) < n {
		page, err := c.Feed(ctx, feed.Request{From: from, Wait: time.Hour})
		if err != nil {
			return seen, err
		}
		for _, ch := range page.Changes {
			var doc struct {
				ID  string `json:"id"`
				LSN int64  `json:"_lsn"`
			}
			if err := json.Unmarshal(ch.Current, &doc); err != nil {
				return seen, err
			}
			if doc.LSN <= seen[doc.ID] {
				return seen, fmt.Errorf("document %s at LSN %d was delivered after LSN %d", doc.ID, doc.LSN, seen[doc.ID])
			}
			seen[doc.ID] = doc.LSN
		}
		from = feed.After(page.Continuation)
	}
	return seen, nil
}

// The disk fails for a while. Each run begins the failure at another kind of operation,
// such as a write or sync of a log, a manifest, a table or a directory. Writes and a
// split are retried until they succeed. A reader that follows the feed must receive every
// document.
func TestDiskFailureAtAnyOperationLosesNothing(t *testing.T) {
	kinds := []string{
		"write log", "sync log", "dir log", "dir LOG", "sync db", "write MANIFEST", "sync MANIFEST", "dir sst", "write sst", "sync sst",
	}
	for _, kind := range kinds {
		for _, nth := range []int{1, 2} {
			t.Run(fmt.Sprint(kind, nth), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					failing, healthy := new(atomic.Bool), new(atomic.Bool)
					var mu sync.Mutex // guards left
					left := nth
					disk := &hookFS{FS: vfs.NewMem(), refuse: func(op fileOp) error {
						mu.Lock()
						defer mu.Unlock()
						if !failing.Load() || healthy.Load() {
							return nil
						}
						if left > 0 && op.kind+" "+strings.Trim(path.Base(op.name), "0123456789-.") == kind {
							left--
						}
						if left > 0 {
							return nil
						}
						return syscall.EIO
					}}
					failDisk(t, disk, failing, healthy)
					if left == nth {
						t.Errorf("no operation %s occurred", kind)
					}
				})
			})
		}
	}
}

func failDisk(t *testing.T, disk *hookFS, failing, healthy *atomic.Bool) {
	const documents = 60
	ctx := t.Context()
	l := newDiskLoad(t, disk)
	failing.Store(true)
	type followed struct {
		seen map[string]int64
		err  error
	}
	reader := make(chan followed, 1)
	go func() {
		seen, err := follow(ctx, l.c, documents)
		reader <- followed{seen, err}
	}()
	refusals := 0
	retry := func(what string, do func() error) {
		for err := do(); err != nil; err = do() {
			if !errors.As(err, new(*storetype.DiskError)) {
				t.Fatalf("%s: %v", what, err)
			}
			if refusals++; refusals == 20 {
				healthy.Store(true)
			}
			if refusals > 400 {
				t.Fatalf("%s: %v, but the disk is healthy", what, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	for l.n < documents {
		retry("write", l.write)
		if l.n == documents/2 {
			retry("split", func() error {
				_, err := l.c.Split(ctx, "0", "")
				if errors.As(err, new(*feed.GoneError)) {
					return nil // an attempt that returned an error has split the partition
				}
				return err
			})
		}
	}
	time.Sleep(time.Second) // lets flushes begin while the disk still fails
	healthy.Store(true)
	time.Sleep(20 * time.Second)
	var got followed
	select {
	case got = <-reader:
		if got.err != nil {
			t.Errorf("the reader: %v", got.err)
		}
	default:
		t.Error("the reader was not woken")
		got = <-reader
	}
	l.verify("after the failure")
	for id, lsn := range got.seen {
		if res, err := l.c.Read(ctx, feed.PartitionKey{id}, id, storetype.ReadOptions{}); err != nil || res.LSN < lsn {
			t.Errorf("document %s was delivered at LSN %d, but is at LSN %d: %v", id, lsn, res.LSN, err)
		}
	}
	if err := errors.Join(l.db.Check(ctx), l.db.Close()); err != nil {
		t.Error(err)
	}
	db, err := engine.Open("db", engine.Options{FS: disk.FS, PurgeInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	l.db = db
	if l.c, err = db.Container(ctx, "db", "c"); err != nil {
		t.Fatal(err)
	}
	l.verify("opened again")
	if err := errors.Join(db.Check(ctx), db.Close()); err != nil {
		t.Error(err)
	}
}
