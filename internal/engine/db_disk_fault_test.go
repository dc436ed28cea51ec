package engine_test

import (
	"errors"
	"fmt"
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

// faultFS is a file system that can fail. Writes return ENOSPC while write is true, and
// syncs return EIO while sync is true.
type faultFS struct {
	vfs.FS
	write, sync *atomic.Bool
}

type faultFile struct {
	vfs.File
	fs faultFS
}

func (fs faultFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return faultFile{f, fs}, nil
}

func (f faultFile) Write(b []byte) (int, error) {
	if f.fs.write.Load() {
		return 0, syscall.ENOSPC
	}
	return f.File.Write(b)
}

func (f faultFile) refused() error {
	if f.fs.sync.Load() {
		return syscall.EIO
	}
	return nil
}

func (f faultFile) Sync() error {
	if err := f.refused(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f faultFile) SyncData() error {
	if err := f.refused(); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f faultFile) SyncTo(n int64) (fullSync bool, err error) {
	if err := f.refused(); err != nil {
		return false, err
	}
	return f.File.SyncTo(n)
}

// A write that the disk refuses must return an error, and no reader may receive it. The
// next write must fail too, until the store has reopened its files. Otherwise the log
// would have a gap.
//
// Acknowledged writes must stay readable meanwhile. They must be present when the store
// is opened again.
func TestWriteRefusedByTheDiskIsNotAcknowledgedOrShown(t *testing.T) {
	const writes = 20
	for name, want := range map[string]error{"full": syscall.ENOSPC, "unable to sync": syscall.EIO} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, mem := t.Context(), vfs.NewMem()
				fs := faultFS{mem, new(atomic.Bool), new(atomic.Bool)}
				db, err := engine.Open("db", engine.Options{FS: fs, PurgeInterval: -1})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "db"}); err != nil {
					t.Fatal(err)
				}
				c, err := db.CreateContainer(ctx, "db", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/id"}})
				if err != nil {
					t.Fatal(err)
				}
				write := func(c *engine.Container, n int) error {
					_, err := c.Create(ctx, nil, fmt.Appendf(nil, `{"id":"%d"}`, n), storetype.WriteOptions{})
					return err
				}
				shown := func(db *engine.DB, c *engine.Container) int {
					page, err := db.Source(c).Read(ctx, feed.Request{From: feed.Beginning()})
					if err != nil {
						t.Fatal(err)
					}
					return len(page.Changes)
				}
				for n := range writes {
					if err := write(c, n); err != nil {
						t.Fatal(err)
					}
				}
				fs.write.Store(errors.Is(want, syscall.ENOSPC))
				fs.sync.Store(errors.Is(want, syscall.EIO))
				if err := write(c, writes); !errors.Is(err, want) {
					t.Errorf("a write while the disk is %s: %v", name, err)
				}
				fs.write.Store(false)
				fs.sync.Store(false)
				if err := write(c, writes+1); !errors.Is(err, want) {
					t.Errorf("a write after a lost write: %v", err)
				}
				if n := shown(db, c); n != writes {
					t.Errorf("%d items are shown, %d were acknowledged", n, writes)
				}
				time.Sleep(time.Second)
				if err := write(c, writes+1); err != nil {
					t.Errorf("a write on the healthy disk: %v", err)
				}
				if err := db.Close(); err != nil && !errors.Is(err, want) {
					t.Errorf("close: %v", err)
				}

				db, err = engine.Open("db", engine.Options{FS: mem})
				if err != nil {
					t.Fatal(err)
				}
				if c, err = db.Container(ctx, "db", "c"); err != nil {
					t.Fatal(err)
				}
				// The refused write may be stored or not. Its client received an error,
				// which leaves the outcome open.
				if n := shown(db, c); n < writes+1 || n > writes+2 {
					t.Errorf("%d items are present, %d were acknowledged", n, writes+1)
				}
				if err := errors.Join(write(c, writes+2), db.Check(ctx), db.Close()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
