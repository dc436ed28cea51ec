package engine_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/race"
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

// makeDamageStore returns the files of a closed store with damageItems items, some in
// tables and some in the write-ahead log.
func makeDamageStore(t *testing.T) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	var clone *vfs.MemFS
	for half := range 2 {
		db, err := engine.Open("db", engine.Options{FS: fs, PurgeInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		if half == 0 {
			if _, err := db.CreateDatabase(t.Context(), engine.DatabaseProperties{ID: "db"}); err != nil {
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
			if _, err := c.Upsert(t.Context(), nil, damageBody(n), engine.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		clone = fs.CrashClone(vfs.CrashCloneCfg{})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return clone
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
		res, err := c.Read(t.Context(), feed.PartitionKey{fmt.Sprintf("k%d", i%7)}, fmt.Sprint(i), engine.ReadOptions{})
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

// The test damages one file of a store: it changes a byte, cuts the file in half, or
// removes it. Open, Check or a read must then return a *CorruptError, or all items must
// be intact. The store must never return wrong data.
//
// There is one exception. A log that a power loss cut off looks like a log whose end is
// damaged. In both cases the store opens in the consistent state of an earlier moment. A
// log that is missing altogether is always noticed.
func TestDamagedFilesAreNoticed(t *testing.T) {
	if race.Enabled {
		t.Skip("checks damaged files, in which the race detector finds nothing")
	}
	origin := makeDamageStore(t)
	names, err := origin.List("db")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := readDamaged(t, copyFS(t, origin, "db")); err != nil || n != damageItems {
		t.Fatalf("undamaged: %d items, %v", n, err)
	}
	rng := rand.New(rand.NewPCG(1, 5))
	const changes = 12 // the number of changed bytes that are tried in each file
	outcome := map[string]int{}
	try := func(name, what string, damage func(fs vfs.FS, path string)) {
		fs := copyFS(t, origin, "db")
		damage(fs, fs.PathJoin("db", name))
		n, err := readDamaged(t, fs)
		var corrupt *engine.CorruptError
		var newer *engine.FormatError // the changed byte can make the version in FORMAT higher
		kind := name[strings.LastIndexByte(name, '.')+1:]
		switch {
		case errors.As(err, &corrupt), errors.As(err, &newer) && name == "FORMAT":
			outcome[kind+" refused"]++
		case err != nil:
			t.Errorf("%s %s: %v, want a *CorruptError", name, what, err)
		case n == damageItems:
			outcome[kind+" harmless"]++
		case kind == "log" && what != "removed" && n >= damageItems/2:
			outcome["log cut back"]++
		default:
			t.Errorf("%s %s: %d items are present and no error was returned", name, what, n)
		}
	}
	for _, name := range names {
		if name == "LOCK" || name == "PID" {
			continue
		}
		size := len(readFile(t, origin, origin.PathJoin("db", name)))
		for range min(size, changes) {
			at := rng.IntN(size)
			try(name, fmt.Sprintf("with byte %d of %d changed", at, size), func(fs vfs.FS, path string) {
				b := readFile(t, fs, path)
				b[at] ^= 1 << rng.IntN(8)
				writeFile(t, fs, path, b)
			})
		}
		try(name, "removed", func(fs vfs.FS, path string) {
			if err := fs.Remove(path); err != nil {
				t.Fatal(err)
			}
		})
		if size > 1 {
			try(name, "cut in half", func(fs vfs.FS, path string) {
				writeFile(t, fs, path, readFile(t, fs, path)[:size/2])
			})
		}
	}
	t.Logf("%v", outcome)
}

func TestNewerFormatIsRefusedByItsOwnError(t *testing.T) {
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
	newer := strings.Replace(string(good), "4", "5", 1)
	if newer == string(good) {
		t.Fatalf("FORMAT is %q", good)
	}
	writeFile(t, fs, "db/FORMAT", []byte(newer))
	var format *engine.FormatError
	if err := open(); !errors.As(err, &format) || format.Found != 5 || format.Known != 4 || format.Dir != "db" {
		t.Errorf("a newer format: %v", err)
	}
	writeFile(t, fs, "db/FORMAT", good)
	if err := open(); err != nil {
		t.Errorf("the refusal has changed the store: %v", err)
	}
}

func TestLockedDirectoryNamesItsUser(t *testing.T) {
	dir := t.TempDir()
	db, err := engine.Open(dir, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var locked *engine.LockedError
	if _, err := engine.Open(dir, engine.Options{}); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("open in this process: %v", err)
	}
	// A directory that is open must be locked under its other names, too. Otherwise two
	// stores would write to the same files.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Log(err) // some systems do not let every user create a symbolic link
	} else if second, err := engine.Open(link, engine.Options{}); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("open in this process through a symbolic link: %v", err)
		if err == nil {
			_ = second.Close()
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKillChild$")
	child.Env = append(os.Environ(), killDirEnv+"="+dir, killSeedEnv+"=1")
	child.Stdin = strings.NewReader("{}")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err) // the child prints a line once it has the directory
	}
	if _, err := engine.Open(dir, engine.Options{}); !errors.As(err, &locked) || locked.PID != child.Process.Pid {
		t.Errorf("open while process %d holds the lock: %v", child.Process.Pid, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // returns the signal of the kill
	db, err = engine.Open(dir, engine.Options{})
	if err != nil {
		t.Fatalf("the lock outlived its process: %v", err)
	}
	if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
		t.Error(err)
	}
}
