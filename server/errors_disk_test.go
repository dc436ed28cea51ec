package server

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/store"
)

// fullDisk is a file system whose writes fail while full is true.
type fullDisk struct {
	vfs.FS
	full atomic.Bool
}

type fullDiskFile struct {
	vfs.File
	d *fullDisk
}

func (d *fullDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return fullDiskFile{f, d}, nil
}

func (d *fullDisk) GetDiskUsage(string) (vfs.DiskUsage, error) { return vfs.DiskUsage{}, nil }

func (f fullDiskFile) Write(p []byte) (int, error) {
	if f.d.full.Load() {
		return 0, syscall.ENOSPC
	}
	return f.File.Write(p)
}

func TestWritesOnAFullDiskAreAnswered503AndReadsAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &fullDisk{FS: vfs.NewMem()}
		db, err := engine.Open("db", engine.Options{FS: disk, PurgeInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New((*store.DB)(db), Options{})
		if err != nil {
			t.Fatal(err)
		}
		ts := (&testServer{Server: s, t: t, db: db, key: s.keys[0].key}).withOrders()
		ts.do("POST", orders+"/docs", pk(`["x"]`), `{"id":"1","pk":"x"}`).want(201)
		disk.full.Store(true)
		started := time.Now()
		for range 3 {
			ts.do("POST", orders+"/docs", pk(`["x"]`), `{"id":"2","pk":"x"}`).want(503).wantBody("the disk is full").wantBody("may need 6").wantBody("and 0 KiB are free")
		}
		if took := time.Since(started); took > time.Second {
			t.Errorf("the answers took %v", took)
		}
		ts.do("GET", orders+"/docs/1", pk(`["x"]`), "").want(200)
		disk.full.Store(false)
		time.Sleep(time.Minute)
		ts.do("POST", orders+"/docs", pk(`["x"]`), `{"id":"3","pk":"x"}`).want(201)
		ts.do("GET", orders+"/docs/1", pk(`["x"]`), "").want(200)
		if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
			t.Error(err)
		}
	})
}
