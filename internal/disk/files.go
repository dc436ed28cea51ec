package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/storetype"
)

// pidFile has the id of the process that has a directory open. It is only for messages.
// The locks on the directory and on Pebble's LOCK file keep other processes out, and end
// with the process.
const pidFile = "PID"

// isLocked reports whether an error of LockDirectory means that the directory is locked.
// If this process has the lock, Pebble's error can be recognised only by its text.
func isLocked(err error) bool {
	return errors.Is(err, syscall.EAGAIN) ||
		strings.Contains(err.Error(), "lock held by current process")
}

// readPID returns the id of the process that has the directory open, or 0 if it is
// unknown.
func readPID(fs vfs.FS, dir string) int {
	text, err := readFile(fs, fs.PathJoin(dir, pidFile))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0
	}
	return pid
}

func readFile(fs vfs.FS, name string) (string, error) {
	f, err := fs.Open(name)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(f)
	return string(b), errors.Join(err, f.Close())
}

// writeFile creates a file with the given text, and syncs it.
func writeFile(fs vfs.FS, name, text string) error {
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// formatVersion is the format that this release writes. FORMAT.md describes it.
const formatVersion = 5

// pebbleFormat is the format of Pebble's files. It is pinned, because Pebble cannot go
// back to an older format. So another Pebble format is a new format of the store.
const pebbleFormat = pebble.FormatValueSeparation

// FormatFile has the format. It is a separate file, so that it can be read if a newer
// release has raised Pebble's format.
const FormatFile = "FORMAT"

const formatPrefix = "changefeed store format "

// readFormat returns the format of a directory, or 0 if the directory has no store.
func readFormat(fs vfs.FS, dir string) (int, error) {
	text, err := readFile(fs, fs.PathJoin(dir, FormatFile))
	if err == nil {
		found, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(text, formatPrefix)))
		switch {
		case err != nil || found < 1 || !strings.HasPrefix(text, formatPrefix):
			return 0, &storetype.CorruptError{Dir: dir, Detail: fmt.Sprintf("the file %s contains %.40q", FormatFile, text)}
		case found != formatVersion:
			return 0, &storetype.FormatError{Dir: dir, Found: found, Known: formatVersion}
		}
		return found, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("open store %s: %w", dir, err)
	}
	desc, err := pebble.Peek(dir, fs)
	if err != nil {
		return 0, &storetype.CorruptError{Dir: dir, Detail: "the files cannot be read", Err: err}
	}
	if desc.Exists {
		return 0, &storetype.CorruptError{Dir: dir, Detail: "the file " + FormatFile + " is missing"}
	}
	return 0, nil
}

// writeFormat writes the format of this release. It writes a temporary file and renames
// it, so that the file is never incomplete.
func writeFormat(fs vfs.FS, dir string) error {
	name := fs.PathJoin(dir, FormatFile)
	temporary := name + ".new"
	if err := writeFile(fs, temporary, formatPrefix+strconv.Itoa(formatVersion)+"\n"); err != nil {
		return err
	}
	return errors.Join(fs.Rename(temporary, name), syncDir(fs, dir))
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Other users of the machine must not read the documents. So only the owner may read the
// directory of a store and its files. Pebble creates files with the mode 0666, less the
// umask.
const (
	ownerOnlyDirectory = 0o700
	ownerOnlyFile      = 0o600
	// others are the mode bits that allow access by others.
	others = 0o077
)

// ownerOnlyFS is the operating system's file system. Only the owner may read the files
// that it creates, from the moment at which they exist.
type ownerOnlyFS struct{ vfs.FS }

// Create creates a file that only the owner may read. As in Pebble's own file systems, it
// removes a file that has the name already.
func (p ownerOnlyFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := p.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return p.OpenReadWrite(name, category)
}

// OpenReadWrite opens a file and restricts it to the owner. It creates the file if the
// file does not exist.
func (p ownerOnlyFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := reserve(name); err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, category, opts...)
}

// Lock locks the directory of a file. It then creates the file, which only the owner may
// read, and locks it, too. Without the lock on the directory, a second process could open
// a store whose LOCK file somebody has deleted. Without the file, an earlier release could,
// because it locks nothing else.
func (p ownerOnlyFS) Lock(name string) (io.Closer, error) {
	dir, err := lockDirectoryItself(p.PathDir(name))
	if err != nil {
		return nil, err
	}
	if err := reserve(name); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	file, err := p.FS.Lock(name)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return locks{dir, file}, nil
}

// locks are several locks that end together.
type locks []io.Closer

// Close ends the locks.
func (l locks) Close() error {
	var errs []error
	for _, lock := range l {
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}

// Unwrap returns the underlying file system. Pebble looks for it.
func (p ownerOnlyFS) Unwrap() vfs.FS { return p.FS }

// reserve creates an empty file that only the owner may read. An existing file is
// restricted to its owner, unless it belongs to another user.
func reserve(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, ownerOnlyFile)
	switch {
	case err == nil:
		return f.Close()
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	if err := os.Chmod(name, ownerOnlyFile); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// makeDirectory creates the directory of a store if it does not exist. It reports whether
// it created the directory.
func makeDirectory(dir string) (made bool, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return false, err
	}
	err = os.Mkdir(dir, ownerOnlyDirectory)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// closeToOthers restricts an existing directory, and the store's files in it, to the
// owner. If the directory belongs to another user or is shared, as /tmp is, it only logs
// a warning.
func closeToOthers(dir string, logger *slog.Logger) {
	info, err := os.Stat(dir)
	if err != nil {
		return // the later steps of Open return this error
	}
	mode := info.Mode().Perm()
	logger = logger.With(slog.String("dir", dir), slog.String("mode", fmt.Sprintf("%04o", mode)))
	files := 0
	switch open := mode&others != 0; {
	case open && (!isOurs(info) || info.Mode()&fs.ModeSticky != 0):
		err = errNotOurs
	case open:
		err = os.Chmod(dir, mode&^others)
	}
	if err == nil {
		files, err = closeFiles(dir)
	}
	switch {
	case err != nil:
		logger.Warn("data directory open to others, who may read its documents; its owner can close it: chmod 700", slog.Any("error", err))
	case mode&others != 0 || files > 0:
		logger.Info("data directory closed to others", slog.Int("files", files))
	}
}

var errNotOurs = errors.New("it belongs to somebody else or is shared")

// closeFiles restricts the store's files in a directory to the owner. It returns the
// number of files whose modes it changed.
func closeFiles(dir string) (n int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !isStoreFile(e.Name()) {
			continue
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&others != 0 {
			n++
			err = os.Chmod(filepath.Join(dir, e.Name()), info.Mode().Perm()&^others)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
	}
	return n, nil
}

// isStoreFile reports whether name is the name of a file of the store.
func isStoreFile(name string) bool {
	switch name {
	case FormatFile, FormatFile + ".new", pidFile, "LOCK":
		return true
	}
	if slices.ContainsFunc([]string{manifestPrefix, "OPTIONS-", markerPrefix, "CURRENT", logWitness, manifestWitness}, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return true
	}
	number, kind, _ := strings.Cut(name, ".")
	return number != "" && strings.Trim(number, "0123456789") == "" && (kind == "log" || kind == "sst" || kind == "blob" || kind == "dbtmp")
}
