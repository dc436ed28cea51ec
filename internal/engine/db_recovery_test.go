package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// tablesRefused is a file system that refuses to write tables while refuse is true. All
// other files can be written, as on a disk with a few free blocks.
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

// The test opens the files of a killed process. Pebble writes its log into tables first,
// and without a limit it would retry that forever.
func TestOpenOnAFullDiskFailsWithItsError(t *testing.T) {
	ctx, mem := t.Context(), vfs.NewCrashableMem()
	db, err := Open("db", Options{FS: mem, PurgeInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateDatabase(ctx, DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	killed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	var log strings.Builder
	o := Options{FS: tablesRefused{killed, new(atomic.Bool)}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	o.FS.(tablesRefused).refuse.Store(true)
	if db, err := Open("db", o); !errors.Is(err, syscall.ENOSPC) || db != nil || errors.As(err, new(*CorruptError)) {
		t.Fatalf("open on a full disk: %v", err)
	}
	if lines := strings.Count(log.String(), "\n"); lines > 3 {
		t.Errorf("%d lines were logged: %.500s", lines, &log)
	}
	// Open has returned and released the directory, and the disk may have space again.
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

// A log without lasting data makes no table. Pebble reports that as an error, too.
func TestLogWithoutATableIsOpened(t *testing.T) {
	mem := vfs.NewCrashableMem()
	p, err := pebble.Open("db", &pebble.Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.LogData([]byte("k"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	killed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	store := &DB{dir: "db", options: Options{FS: killed}.withDefaults(), cache: pebble.NewCache(minMemory)}
	defer store.cache.Unref()
	e, err := store.openPebble(false, func(*pebbleDB) {})
	if err != nil {
		t.Fatal(err)
	}
	if e.lastFlush == nil || e.refusal() != nil {
		t.Errorf("the flush ended with %v; writes are refused with %v", e.lastFlush, e.refusal())
	}
	if err := e.end(); err != nil {
		t.Error(err)
	}
}

// When the disk fills up while the store is open, Pebble repeats a flush without pause
// and logs each attempt.
func TestFailuresThatRepeatAreLoggedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		failed := (&repeats{logger: slog.New(slog.NewTextHandler(&log, nil))}).background
		for n := range 3000 {
			failed(fmt.Errorf("failure %d", n))
			time.Sleep(time.Millisecond)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 3 {
			t.Errorf("%d lines in 3 s:\n%.1000s", lines, &log)
		}
		if !strings.Contains(log.String(), "failure 0") || !strings.Contains(log.String(), "999") {
			t.Errorf("the log lacks the first failure or the number of omitted ones:\n%s", &log)
		}
	})
}
