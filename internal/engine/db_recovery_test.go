package engine

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/storetype"
)

// tablesRefused is a file system that returns ENOSPC for the creation of a table while
// refuse is true. Other files can be written, as on a disk with only a few free blocks.
type tablesRefused struct {
	vfs.FS
	refuse *atomic.Bool
}

func (fs tablesRefused) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") && fs.refuse.Load() {
		return nil, syscall.ENOSPC
	}
	return fs.FS.Create(name, c)
}

// Open on a full disk must return the disk's error. The store was killed before, so
// Pebble first flushes its log into tables. Without a limit, Pebble would retry that
// flush forever.
func TestOpenOnAFullDiskFailsWithItsError(t *testing.T) {
	ctx, mem := t.Context(), vfs.NewCrashableMem()
	db, err := Open("db", Options{FS: mem, PurgeInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	killed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	var log strings.Builder
	o := Options{FS: tablesRefused{killed, new(atomic.Bool)}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	o.FS.(tablesRefused).refuse.Store(true)
	if db, err := Open("db", o); !errors.Is(err, syscall.ENOSPC) || db != nil || errors.As(err, new(*storetype.CorruptError)) {
		t.Fatalf("open on a full disk: %v", err)
	}
	if lines := strings.Count(log.String(), "\n"); lines > 3 {
		t.Errorf("%d lines were logged: %.500s", lines, &log)
	}
	// The failed Open has unlocked the directory. Open must succeed once the disk has
	// space again.
	o.FS.(tablesRefused).refuse.Store(false)
	if db, err = Open("db", o); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Database(ctx, "db"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(db.Check(ctx), db.Close()); err != nil {
		t.Error(err)
	}
}
