//go:build unix

package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

// writePrivately opens the store in dir, writes more than a memtable holds, and closes
// the store. Only the owner may then have access to any file. writePrivately returns the
// lines that the store logged.
func writePrivately(t *testing.T, dir string) string {
	t.Helper()
	var log bytes.Buffer
	db, err := engine.Open(dir, engine.Options{Memory: 4 << 20, PurgeInterval: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Database(t.Context(), "db"); err != nil {
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
			t.Fatal(err)
		}
		newContainer(t, db, storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/id"}})
	}
	c, err := db.Container(t.Context(), "db", "c")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 1<<20)
	for i := range 4 {
		if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%d","text":%q}`, i, text), storetype.WriteOptions{NoBody: true}); err != nil {
			t.Fatal(err)
		}
	}
	wantPrivate(t, dir) // the open store also has the files LOCK and PID
	if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
		t.Fatal(err)
	}
	return log.String()
}

func wantPrivate(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		want := os.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		if err == nil && info.Mode().Perm() != want && !strings.HasSuffix(path, ".crt") {
			t.Errorf("%s has the mode %s, want %s", path, info.Mode(), want)
		}
		if errors.Is(err, os.ErrNotExist) {
			err = nil // the store deleted the file after it was listed
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Only the owner may read the files of a store, whatever the umask of the process is.
func TestOnlyTheOwnerMayReadAStore(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "parent", "data")
	if log := writePrivately(t, dir); strings.Contains(log, "closed to others") {
		t.Errorf("the log for a new directory is %s", log)
	}
	if info, err := os.Stat(filepath.Dir(dir)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode of the parent is %v, %v", info.Mode(), err)
	}
	// An older release left the directory and its files readable by everybody. The next
	// Open must restrict the store's files to the owner. The public certificate in the
	// directory stays readable.
	if err := os.WriteFile(filepath.Join(dir, "localhost.crt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Chmod(filepath.Join(dir, e.Name()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if log := writePrivately(t, dir); strings.Count(log, "data directory closed to others") != 1 || !strings.Contains(log, "mode=0755") {
		t.Errorf("the log for a directory that was open to all is %s", log)
	}
	if info, err := os.Stat(filepath.Join(dir, "localhost.crt")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the mode of the certificate is %v, %v", info.Mode(), err)
	}
	if log := writePrivately(t, dir); strings.Contains(log, "closed to others") {
		t.Errorf("the log for a closed directory is %s", log)
	}
	if err := os.Chmod(filepath.Join(dir, "FORMAT"), 0o644); err != nil {
		t.Fatal(err)
	}
	if log := writePrivately(t, dir); !strings.Contains(log, "closed to others") || !strings.Contains(log, "files=1") {
		t.Errorf("the log for a file that was open to all is %s", log)
	}
}

// If the directory of a store belongs to another user or is shared by all users, Open
// does not change its mode. It logs a warning and uses the directory.
func TestDirectoryOfOthersIsLeftAsItIs(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"shared":        func(dir string) error { return os.Chmod(dir, 0o777|os.ModeSticky) },
		"somebody else": func(dir string) error { return errors.Join(os.Chmod(dir, 0o777), os.Chown(dir, 12345, -1)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := prepare(dir); errors.Is(err, os.ErrPermission) {
				t.Skip("only root may give a directory away")
			} else if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			db, err := engine.Open(dir, engine.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o777 {
				t.Errorf("the mode of the directory is %v, %v", info.Mode(), err)
			}
			if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "chmod 700") {
				t.Errorf("the log is %s", &log)
			}
			if info, err := os.Stat(filepath.Join(dir, "LOCK")); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the mode of a file in it is %v, %v", info.Mode(), err)
			}
			if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A directory of another format may be in use by the release that wrote it, so a refusal
// leaves its mode and its files alone.
func TestRefusedFormatLeavesTheDirectoryAsItWas(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "FORMAT"), []byte("changefeed store format 4\n"), 0o644)); err != nil { //nolint:gosec // the point of this test
		t.Fatal(err)
	}
	if _, err := engine.Open(dir, engine.Options{}); !errors.As(err, new(*storetype.FormatError)) {
		t.Errorf("the directory is opened: %v", err)
	}
	entries, err := os.ReadDir(dir)
	info, statErr := os.Stat(dir)
	if err := errors.Join(err, statErr); err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || info.Mode().Perm() != 0o755 {
		t.Errorf("the directory has the mode %v and %v", info.Mode(), entries)
	}
}
