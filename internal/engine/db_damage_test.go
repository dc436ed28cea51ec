package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/storetype"
)

func readFile(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, fs vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(slices.Clone(b)) // a vfs.File may overwrite the bytes that it is given
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// copyFS returns a new file system in memory with a copy of the files in the directory
// dir.
func copyFS(t *testing.T, fs vfs.FS, dir string) *vfs.MemFS {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := vfs.NewMem()
	if err := out.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		writeFile(t, out, fs.PathJoin(dir, name), readFile(t, fs, fs.PathJoin(dir, name)))
	}
	return out
}

const damageItems = 400

// damageStore holds the files of a store with damageItems items, some in tables and some
// in write-ahead logs.
type damageStore struct {
	closed *vfs.MemFS // after a clean shutdown
	killed *vfs.MemFS // as a power loss just before that shutdown would have left them
	// older holds the files at earlier moments by their names, the oldest first.
	older []map[string]string
}

// makeDamageStore writes a store. In a busy one, a large item is replaced again and again.
// That fills the logs, so that the last opening flushes and compacts tables several times.
func makeDamageStore(t *testing.T, busy bool) damageStore {
	t.Helper()
	fs := vfs.NewCrashableMem()
	var s damageStore
	for half := range 2 {
		db, err := engine.Open("db", engine.Options{FS: fs, Memory: 4 << 20, PurgeInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		if half == 0 {
			if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
				t.Fatal(err)
			}
			if _, err := db.CreateContainer(t.Context(), "db", crashContainers[1]); err != nil {
				t.Fatal(err)
			}
		}
		c, err := db.Container(t.Context(), "db", crashContainers[1].ID)
		if err != nil {
			t.Fatal(err)
		}
		for n := half * damageItems / 2; n < (half+1)*damageItems/2; n++ {
			if n%20 == 0 {
				s.older = append(s.older, filesOf(t, fs.CrashClone(vfs.CrashCloneCfg{})))
			}
			bodies := [][]byte{damageBody(n)}
			if busy && n%5 == 0 {
				bodies = append(bodies, fmt.Appendf(nil, `{"id":"large","pk":"%d","text":"%s"}`, n%2, strings.Repeat("x", logDocument)))
			}
			for _, body := range bodies {
				if _, err := c.Upsert(t.Context(), nil, body, storetype.WriteOptions{NoBody: true}); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.killed = fs.CrashClone(vfs.CrashCloneCfg{})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s.closed = copyFS(t, fs, "db")
	return s
}

func damageBody(n int) []byte {
	return fmt.Appendf(nil, `{"id":"%d","pk":"k%d","n":%d,"text":"%s"}`, n, n%7, n, strings.Repeat("durable ", n%40))
}

// readDamaged opens a store, runs Check, reads every item, and returns the number of
// items. If an item is missing, all items that were written after it must be missing,
// too.
func readDamaged(t *testing.T, fs vfs.FS) (n int, err error) {
	t.Helper()
	db, err := engine.Open("db", engine.Options{FS: fs, PurgeInterval: -1})
	if err != nil {
		return 0, err
	}
	defer func() {
		if cerr := db.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	if err := db.Check(t.Context()); err != nil {
		return 0, err
	}
	c, err := db.Container(t.Context(), "db", crashContainers[1].ID)
	if err != nil {
		return 0, nil //nolint:nilerr // the container itself is missing, so there are no items
	}
	missing := false
	for i := range damageItems {
		res, err := c.Read(t.Context(), feed.PartitionKey{fmt.Sprintf("k%d", i%7)}, fmt.Sprint(i), storetype.ReadOptions{})
		switch {
		case errors.Is(err, feed.ErrNotFound):
			missing = true
			continue
		case err != nil:
			return n, err
		case missing:
			t.Fatalf("item %d is present, but an earlier one is missing", i)
		}
		if want := damageBody(i); !strings.HasPrefix(string(res.Body), string(want[:len(want)-1])) {
			t.Fatalf("item %d was read as %s", i, res.Body)
		}
		n++
	}
	return n, nil
}

// filesOf returns the names and contents of all files in the directory of a store.
func filesOf(t *testing.T, fs vfs.FS) map[string]string {
	t.Helper()
	names, err := fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range names {
		files[name] = string(readFile(t, fs, fs.PathJoin("db", name)))
	}
	return files
}

// bordersOf returns the offsets in a log or a manifest at which its records begin, and
// the end of the last one. number is the log's number, and 0 for a manifest.
func bordersOf[N ~uint64](t *testing.T, open func(io.Reader, N) *record.Reader, b []byte, number uint64) (at []int) {
	t.Helper()
	r := open(bytes.NewReader(b), N(number))
	for {
		next, err := r.Next()
		if err == nil {
			at = append(at, int(r.Offset()))
			_, err = io.Copy(io.Discard, next)
		}
		if errors.Is(err, io.EOF) || record.IsInvalidRecord(err) {
			return append(at, int(r.Offset()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The test damages one file of a store that was shut down cleanly, or of one that lost its
// power. It changes a byte, cuts the file off, empties it, removes it, or replaces it by an
// older copy of itself. It does so at borders of records and at random places, in the current
// manifest at each border and at 200 others. Open, Check or a read must then return a
// *CorruptError, or all items must be intact. The store must never return wrong data, and a
// refusal must not make the damage worse: Open changes no file, or, if only a table is damaged,
// all items are back when the table is restored.
//
// There is one exception. After a power loss, the newest log ends where the power loss cut
// it off, and nothing else tells where that was. If it is damaged, the store may open in
// the consistent state of an earlier moment. But it must not be missing.
func TestDamagedFilesAreNoticed(t *testing.T) {
	if race.Enabled {
		t.Skip("checks damaged files, in which the race detector finds nothing")
	}
	for _, busy := range []bool{false, true} {
		s := makeDamageStore(t, busy)
		for name, fs := range map[string]*vfs.MemFS{"closed": s.closed, "killed": s.killed} {
			t.Run(fmt.Sprintf("busy=%t/%s", busy, name), func(t *testing.T) {
				t.Parallel()
				d := damager{t: t, origin: fs, files: filesOf(t, fs), older: s.older, busy: busy, outcome: map[string]int{}, rng: rand.New(rand.NewPCG(1, 5))}
				for name := range d.files {
					if fs == s.killed && strings.HasSuffix(name, ".log") {
						d.tail = max(d.tail, name)
					}
				}
				d.run()
			})
		}
	}
}

// damager damages the files of one store.
type damager struct {
	t      *testing.T
	origin *vfs.MemFS
	files  map[string]string
	older  []map[string]string
	// busy reports whether the store is due for a compaction. Pebble panics if it compacts
	// a table with a changed byte, so no bytes of tables are changed then.
	busy    bool
	tail    string // the log whose end may be lost, or ""
	outcome map[string]int
	rng     *rand.Rand
}

func (d *damager) run() {
	if n, err := readDamaged(d.t, copyFS(d.t, d.origin, "db")); err != nil || n != damageItems {
		d.t.Fatalf("undamaged: %d items, %v", n, err)
	}
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		if name != "LOCK" && name != "PID" {
			d.damage(name)
		}
	}
	d.t.Logf("%v", d.outcome)
}

// damage tries all kinds of damage to one file.
func (d *damager) damage(name string) {
	b := []byte(d.files[name])
	places, random := []int{0, len(b) / 2, len(b) - 1}, 12
	switch number, isLog := strings.CutSuffix(name, ".log"); {
	case strings.HasPrefix(name, "MANIFEST-") && d.current(name):
		places, random = append(places, bordersOf(d.t, record.NewReader, b, 0)...), 200
	case isLog:
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			d.t.Fatal(err)
		}
		borders := bordersOf(d.t, record.NewReader, b, n)
		places = append(places, borders[max(0, len(borders)-12):]...)
		if d.busy {
			random = 2 // Pebble takes long to find the changed bit in a large record
		}
	}
	for range random {
		places = append(places, d.rng.IntN(max(1, len(b))))
	}
	for _, at := range places {
		if at < 0 || at >= len(b) {
			continue
		}
		flipped := slices.Clone(b)
		flipped[at] ^= 1 << d.rng.IntN(8)
		if !d.busy || !strings.HasSuffix(name, ".sst") {
			d.try(name, fmt.Sprintf("with byte %d of %d changed", at, len(b)), flipped)
		}
		d.try(name, fmt.Sprintf("cut off at byte %d of %d", at, len(b)), b[:at])
	}
	d.try(name, "removed", nil)
	last := d.files[name]
	for _, files := range d.older {
		if old, ok := files[name]; ok && old != last && old != d.files[name] {
			last = old
			d.try(name, fmt.Sprintf("replaced by an older copy of %d bytes", len(old)), []byte(old))
		}
	}
}

// current reports whether name is the current manifest.
func (d *damager) current(name string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(d.files)), func(other string) bool {
		return strings.HasPrefix(other, "marker.manifest.") && strings.HasSuffix(other, name)
	})
}

// try opens the store after a file has been replaced by b, or removed if b is nil.
func (d *damager) try(name, what string, b []byte) {
	t := d.t
	fs := copyFS(t, d.origin, "db")
	path := fs.PathJoin("db", name)
	if b == nil {
		if err := fs.Remove(path); err != nil {
			t.Fatal(err)
		}
	} else {
		writeFile(t, fs, path, b)
	}
	n, err := readDamaged(t, fs)
	kind := strings.TrimRight(name, "0123456789-") // without the numbers of files and sizes
	if _, suffix, ok := strings.Cut(name, "."); ok && !strings.HasPrefix(name, "marker") {
		kind = suffix
	}
	if err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "carrier")) {
		t.Errorf("%s %s: the error is not one line: %v", name, what, err)
	}
	var corrupt *storetype.CorruptError
	var other *storetype.FormatError // the changed byte can make the version in FORMAT another one
	switch {
	case errors.As(err, &corrupt), errors.As(err, &other) && name == "FORMAT":
		d.outcome[kind+" refused"]++
		d.wantNoHarm(fs, name, what, b)
	case err != nil:
		t.Errorf("%s %s: %v, want a *CorruptError", name, what, err)
	case n == damageItems:
		d.outcome[kind+" harmless"]++
	case name == d.tail && b != nil:
		d.outcome["newest log cut back"]++
	default:
		t.Errorf("%s %s: %d items are present and no error was returned", name, what, n)
	}
}

// wantNoHarm checks that a store which was refused because of one damaged file still has
// its other files, as they were. PID may go, since it is only for messages.
func (d *damager) wantNoHarm(fs *vfs.MemFS, name, what string, b []byte) {
	t := d.t
	if !strings.HasSuffix(name, ".sst") {
		before, after := maps.Clone(d.files), filesOf(t, fs)
		before[name] = string(b)
		if b == nil {
			delete(before, name)
		}
		delete(before, "PID")
		for _, other := range slices.Sorted(maps.Keys(before)) {
			if text, ok := after[other]; !ok || text != before[other] {
				t.Errorf("%s %s: the refusal has changed %s", name, what, other)
			}
		}
		if len(after) > len(before) {
			t.Errorf("%s %s: the refusal has left %v", name, what, slices.Sorted(maps.Keys(after)))
		}
		return
	}
	writeFile(t, fs, fs.PathJoin("db", name), []byte(d.files[name]))
	if n, err := readDamaged(t, fs); err != nil || n != damageItems {
		t.Errorf("%s %s, and then restored: %d items, %v", name, what, n, err)
	}
}

func TestOtherFormatsAreRefusedByTheirOwnError(t *testing.T) {
	fs := vfs.NewMem()
	open := func() error {
		db, err := engine.Open("db", engine.Options{FS: fs})
		if err == nil {
			err = db.Close()
		}
		return err
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	good := readFile(t, fs, "db/FORMAT")
	for other, remedy := range map[int]string{1: "replicate", 4: "replicate", 6: "newer release"} {
		text := strings.Replace(string(good), "5", strconv.Itoa(other), 1)
		if text == string(good) {
			t.Fatalf("FORMAT is %q", good)
		}
		writeFile(t, fs, "db/FORMAT", []byte(text))
		var format *storetype.FormatError
		if err := open(); !errors.As(err, &format) || format.Found != other || format.Known != 5 || format.Dir != "db" || !strings.Contains(err.Error(), remedy) {
			t.Errorf("format %d: %v; want the remedy %q", other, err, remedy)
		}
	}
	writeFile(t, fs, "db/FORMAT", good)
	if err := open(); err != nil {
		t.Errorf("the refusal has changed the store: %v", err)
	}
}

// Without FORMAT and the marker of the manifest, a directory looks like a new one to Pebble,
// which would delete its tables.
func TestStoreWithoutFormatAndMarkerIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	db, err := engine.Open("db", engine.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name == "FORMAT" || strings.HasPrefix(name, "marker.") {
			if err := fs.Remove("db/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
	var corrupt *storetype.CorruptError
	if _, err := engine.Open("db", engine.Options{FS: fs}); !errors.As(err, &corrupt) || !strings.Contains(err.Error(), "marker.manifest") {
		t.Errorf("%v; want the missing marker named", err)
	}
	if _, err := fs.Stat("db/FORMAT"); err == nil {
		t.Error("the refusal has created FORMAT")
	}
}
