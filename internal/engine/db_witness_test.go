package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/storetype"
)

// logDocument is the size in bytes of each document that writeLogs writes. A few of them
// fill a write-ahead log.
const logDocument = 100 << 10

// writeLogs opens a store on fs and writes n documents to it. It adds each acknowledged
// write to acknowledged. The caller closes the store.
func writeLogs(t *testing.T, fs vfs.FS, memory int64, n int, acknowledged *atomic.Int64) *engine.DB {
	t.Helper()
	ctx := t.Context()
	db, err := engine.Open("db", engine.Options{FS: fs, Memory: memory, PurgeInterval: -1})
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
	for i := range n {
		body := fmt.Appendf(nil, `{"id":"%d","text":"%s"}`, i, strings.Repeat("x", logDocument))
		if _, err := c.Upsert(ctx, nil, body, storetype.WriteOptions{NoBody: true}); err != nil {
			t.Fatal(err)
		}
		acknowledged.Add(1)
	}
	return db
}

// openLogs opens the store that writeLogs wrote, after a crash, and returns the number of
// its documents. It returns an error if a document is missing but a later one is present.
// Only a refusal to open is a *storetype.CorruptError.
func openLogs(ctx context.Context, fs vfs.FS) (n int, err error) {
	db, err := engine.Open("db", engine.Options{FS: fs, PurgeInterval: -1})
	if err != nil {
		return 0, err
	}
	defer func() {
		if damage := db.Check(ctx); damage != nil {
			err = errors.Join(err, fmt.Errorf("opened although damaged: %v", damage)) //nolint:errorlint // see above
		}
		err = errors.Join(err, db.Close())
	}()
	c, err := db.Container(ctx, "db", "c")
	if errors.Is(err, feed.ErrNotFound) {
		return 0, nil // the container was not created before the crash
	}
	if err != nil {
		return 0, err
	}
	stats, err := c.PartitionStats(ctx)
	if err != nil {
		return 0, err
	}
	n = int(stats[0].Items)
	for i := range n {
		if _, err := c.Read(ctx, feed.PartitionKey{fmt.Sprint(i)}, fmt.Sprint(i), storetype.ReadOptions{}); err != nil {
			return n, fmt.Errorf("document %d of %d: %w", i, n, err)
		}
	}
	return n, nil
}

func TestOpenNamesAnyWriteAheadLogThatIsMissing(t *testing.T) {
	const documents = 40
	ctx, mem, written := t.Context(), vfs.NewCrashableMem(), new(atomic.Int64)
	db := writeLogs(t, mem, 0, documents, written)
	killed := mem.CrashClone(vfs.CrashCloneCfg{})
	if err := errors.Join(db.Check(ctx), db.Close()); err != nil {
		t.Fatal(err)
	}
	names, err := killed.List("db")
	if err != nil {
		t.Fatal(err)
	}
	logs := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasSuffix(name, ".log") })
	if len(logs) < 3 {
		t.Fatalf("need an oldest log, a middle one and a last one, got %v", names)
	}
	for _, log := range logs {
		fs := copyFS(t, killed, "db")
		if err := fs.Remove(fs.PathJoin("db", log)); err != nil {
			t.Fatal(err)
		}
		var corrupt *storetype.CorruptError
		if n, err := openLogs(ctx, fs); !errors.As(err, &corrupt) || corrupt.Dir != "db" || !strings.Contains(err.Error(), log) {
			t.Errorf("%s of %v is missing: opened with %d documents, %v", log, logs, n, err)
		}
		// The failed Open must not have changed any file. When the missing log is
		// restored, the store must open with all documents.
		writeFile(t, fs, fs.PathJoin("db", log), readFile(t, killed, killed.PathJoin("db", log)))
		if n, err := openLogs(ctx, fs); err != nil || n != documents {
			t.Errorf("%s is restored: %d documents, %v", log, n, err)
		}
	}
	// A directory of an older release has logs and no witnesses. It must open, too.
	old := copyFS(t, killed, "db")
	for _, name := range names {
		if strings.HasPrefix(name, "LOG-") {
			if err := old.Remove(old.PathJoin("db", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n, err := openLogs(ctx, old); err != nil || n != documents {
		t.Errorf("without witnesses: %d documents, %v", n, err)
	}
}

// crashDeletions returns the files of db after a simulated crash that lost no written
// data, only deletions of files. If the deletion of a file is not durable yet, the
// function undone decides whether the file is back.
func crashDeletions(t *testing.T, mem *vfs.MemFS, undone func(name string) bool) vfs.FS {
	fs, durable := vfs.NewMem(), mem.CrashClone(vfs.CrashCloneCfg{})
	err := fs.MkdirAll("db", 0o755)
	put := func(from vfs.FS, name string) {
		f, openErr := from.Open(from.PathJoin("db", name))
		if openErr != nil {
			return // the store deleted the file after it was listed
		}
		b, readErr := io.ReadAll(f)
		to, createErr := fs.Create(fs.PathJoin("db", name), vfs.WriteCategoryUnspecified)
		if err = errors.Join(err, readErr, f.Close(), createErr); createErr == nil {
			_, writeErr := to.Write(b)
			err = errors.Join(err, writeErr, to.Close())
		}
	}
	now, nowErr := mem.List("db")
	for _, name := range now {
		put(mem, name)
	}
	before, beforeErr := durable.List("db")
	for _, name := range before {
		if !slices.Contains(now, name) && undone(name) {
			put(durable, name)
		}
	}
	if err = errors.Join(err, nowErr, beforeErr); err != nil {
		t.Error(err)
	}
	return fs
}

func isWitness(name string) bool {
	return strings.HasPrefix(name, "LOG-") || strings.HasPrefix(name, "EDITS-")
}

// crashWitnesses returns the files of db after a simulated crash that left only what is
// durable, except that either the new witnesses or the deletions of old ones are in the
// directory already.
func crashWitnesses(t *testing.T, mem *vfs.MemFS, created bool) vfs.FS {
	fs := mem.CrashClone(vfs.CrashCloneCfg{})
	now, nowErr := mem.List("db")
	before, beforeErr := fs.List("db")
	err := errors.Join(nowErr, beforeErr)
	for _, name := range now {
		if created && isWitness(name) && !slices.Contains(before, name) {
			writeFile(t, fs, fs.PathJoin("db", name), nil)
		}
	}
	for _, name := range before {
		if !created && isWitness(name) && !slices.Contains(now, name) {
			err = errors.Join(err, fs.Remove(fs.PathJoin("db", name)))
		}
	}
	if err != nil {
		t.Error(err)
	}
	return fs
}

// While a store is opened and written, it creates logs, renames them for reuse, and
// deletes them. It extends its manifest, and replaces it at each opening. The test
// simulates a power loss before each such change and before the operation after it. The
// store must open each time, with every acknowledged document.
func TestStoreOpensAfterPowerLossAtAnyChangeOfItsFiles(t *testing.T) {
	if race.Enabled {
		t.Skip("checks files after a power loss, in which the race detector finds nothing")
	}
	const documents = 30
	ctx, mem, written := t.Context(), vfs.NewCrashableMem(), new(atomic.Int64)
	var mu sync.Mutex // guards the variables below
	rng := rand.New(rand.NewPCG(3, 14))
	changed, points, reused := false, 0, false
	hook := func(op fileOp) {
		mu.Lock()
		defer mu.Unlock()
		was := changed
		changed = strings.Contains(op.name, "MANIFEST-") || strings.Contains(op.name, "EDITS-") ||
			op.kind == "dir" && strings.Contains(strings.ToLower(op.name), "log")
		if !changed && !was {
			return
		}
		reused = reused || strings.Contains(op.name, ".log to ")
		least := int(written.Load())
		left := []vfs.FS{
			mem.CrashClone(vfs.CrashCloneCfg{}),
			mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}),
			crashWitnesses(t, mem, true),
			crashWitnesses(t, mem, false),
			crashDeletions(t, mem, func(string) bool { return rng.IntN(2) == 0 }),
			// This is the worst order of deletions: the files stay deleted, but their
			// witnesses are back.
			crashDeletions(t, mem, isWitness),
			// Here the old marker and the old manifest are back.
			crashDeletions(t, mem, func(name string) bool {
				return strings.HasPrefix(name, "marker.") || strings.HasPrefix(name, "MANIFEST-")
			}),
		}
		for _, fs := range left {
			points++
			n, err := openLogs(ctx, fs)
			if err != nil || n < least {
				names, _ := fs.List("db")
				t.Errorf("power lost before %s %s: %d documents are present, %d were acknowledged: %v; the files were %v", op.kind, op.name, n, least, err, names)
			}
		}
	}
	fs := &hookFS{FS: mem, before: hook}
	db := writeLogs(t, fs, 4<<20, documents, written)
	if err := errors.Join(db.Check(ctx), db.Close()); err != nil {
		t.Fatal(err)
	}
	if n, err := openLogs(ctx, fs); err != nil || n != documents {
		t.Errorf("after a reopening: %d documents, %v", n, err)
	}
	if points < 50 || !reused {
		t.Errorf("only %d points; a log was reused: %t", points, reused)
	}
}

// removeFS calls a function before it deletes a file or gives it another name for reuse.
type removeFS struct {
	vfs.FS
	before func(name string)
}

func (fs removeFS) Unwrap() vfs.FS { return fs.FS }

func (fs removeFS) Remove(name string) error {
	fs.before(name)
	return fs.FS.Remove(name)
}

func (fs removeFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	fs.before(old)
	return fs.FS.ReuseForWrite(old, name, c)
}

// Pebble deletes a log as soon as an edit of its manifest has made it obsolete. If that edit is
// lost afterwards, Open must notice, even after a power loss. An edit that Pebble hasn't acted
// on may be lost, because then nothing else is.
func TestLostEditOfTheManifestIsNoticedAfterPowerLoss(t *testing.T) {
	if race.Enabled {
		t.Skip("checks files after a power loss, in which the race detector finds nothing")
	}
	ctx, mem, written := t.Context(), vfs.NewCrashableMem(), new(atomic.Int64)
	var mu sync.Mutex // guards refused and intact
	refused, intact := 0, 0
	fs := removeFS{FS: mem, before: func(name string) {
		if !strings.HasSuffix(name, ".log") {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		least := int(written.Load())
		crashed := mem.CrashClone(vfs.CrashCloneCfg{})
		if err := crashed.Remove(name); err != nil {
			return // the file is not durable, or it is already gone
		}
		names, err := crashed.List("db")
		if err != nil {
			t.Error(err)
		}
		slices.Sort(names)
		manifest := ""
		for _, name := range names {
			if _, marked, ok := strings.Cut(name, ".MANIFEST-"); ok {
				manifest = crashed.PathJoin("db", "MANIFEST-"+marked)
			}
		}
		b := readFile(t, crashed, manifest)
		for _, at := range bordersOf(t, record.NewReader, b, 0) {
			cut := copyFS(t, crashed, "db")
			writeFile(t, cut, manifest, b[:at])
			n, err := openLogs(ctx, cut)
			switch {
			case errors.As(err, new(*storetype.CorruptError)):
				refused++
			case err == nil && n >= least:
				intact++
			default:
				t.Errorf("before the deletion of %s, with %d of %d bytes of %s: %d documents are present, %d were acknowledged: %v", name, at, len(b), manifest, n, least, err)
			}
		}
	}}
	db := writeLogs(t, fs, 4<<20, 80, written)
	if err := errors.Join(db.Check(ctx), db.Close()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d damaged stores were refused and %d intact ones were opened", refused, intact)
	if refused == 0 || intact == 0 {
		t.Errorf("%d damaged stores were refused and %d intact ones were opened", refused, intact)
	}
}

func TestMissingWitnessOfTheManifestIsNoticed(t *testing.T) {
	ctx, mem, written := t.Context(), vfs.NewMem(), new(atomic.Int64)
	db := writeLogs(t, mem, 0, 3, written)
	if err := errors.Join(db.Check(ctx), db.Close()); err != nil {
		t.Fatal(err)
	}
	for name := range filesOf(t, mem) {
		if strings.HasPrefix(name, "EDITS-") {
			if err := mem.Remove(mem.PathJoin("db", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n, err := openLogs(ctx, mem); !errors.As(err, new(*storetype.CorruptError)) || !strings.Contains(err.Error(), "EDITS-") {
		t.Errorf("without the witness of the manifest: %d documents, %v", n, err)
	}
}

// Pebble keeps the manifest before the current one. If an older marker is back, it must
// not become the current one again.
func TestOlderManifestIsRefused(t *testing.T) {
	ctx, mem, written := t.Context(), vfs.NewMem(), new(atomic.Int64)
	db := writeLogs(t, mem, 0, 3, written)
	if err := errors.Join(db.Check(ctx), db.Close()); err != nil {
		t.Fatal(err)
	}
	marker := func() string {
		names, err := mem.List("db")
		if err != nil {
			t.Fatal(err)
		}
		return names[slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "marker.manifest.") })]
	}
	old := marker()
	if n, err := openLogs(ctx, mem); err != nil || n != 3 {
		t.Fatalf("%d documents, %v", n, err)
	}
	current := marker()
	if err := mem.Rename(mem.PathJoin("db", current), mem.PathJoin("db", old)); err != nil {
		t.Fatal(err)
	}
	manifest := old[strings.Index(old, "MANIFEST-"):]
	if b := readFile(t, mem, mem.PathJoin("db", manifest)); len(b) == 0 || current == old {
		t.Fatalf("the marker was %s and then %s", old, current)
	}
	if n, err := openLogs(ctx, mem); !errors.As(err, new(*storetype.CorruptError)) || !strings.Contains(err.Error(), manifest) {
		t.Errorf("with the marker %s instead of %s: %d documents, %v", old, current, n, err)
	}
}
