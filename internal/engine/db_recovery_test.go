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

// tablesRefused is a file system whose tables can't be written while refuse says so; all else can, as on a disk with a few
// blocks left.
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

// The store is opened over what a process left that was killed: Pebble writes its log into tables first, and would try that for
// ever.
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
		t.Fatalf("opened on a full disk: %v", err)
	}
	if lines := strings.Count(log.String(), "\n"); lines > 3 {
		t.Errorf("%d lines were logged: %.500s", lines, &log)
	}
	// The opening has ended, and let go of the directory: there may be room again.
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

// A log with nothing in it that lasts makes no table, which Pebble tells of as an error, too.
func TestALogThatMakesNoTableIsOpened(t *testing.T) {
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

// A disk that fills up while the store is open makes Pebble repeat a flush without pause, each time with a message.
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
			t.Errorf("the log has neither the first failure nor how many were left out:\n%s", &log)
		}
	})
}
