package disk

import (
	"context"
	"errors"
	"fmt"
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

// Directory is the directory of one store, which this process has locked. Its methods check
// the files, open Pebble in them, and report errors as the store's callers see them.
type Directory struct {
	FS vfs.FS
	// path is the directory in fs. name is the directory in errors; it is empty for a store
	// in memory.
	Path, Name string
	lock       *pebble.Lock
}

// Prepare makes the directory dir of the operating system ready for a store. It
// creates it if it does not exist, closes it to others, and refuses one with another format
// before it changes anything. It returns the canonical name of the directory, and the file
// system through which a store uses it.
func Prepare(dir string, logger *slog.Logger) (name string, fs vfs.FS, err error) {
	// Within a process, Pebble locks a directory by its name. Without a canonical name, a
	// second open through a symbolic link would succeed.
	name, made, err := realDirectory(dir)
	if err != nil {
		return "", nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	if !made {
		if _, err := readFormat(vfs.Default, name); errors.As(err, new(*storetype.FormatError)) {
			return "", nil, err
		}
		closeToOthers(name, logger)
	}
	return name, ownerOnlyFS{vfs.Default}, nil
}

// realDirectory creates the directory dir if it does not exist. It returns its absolute
// name without symbolic links, and reports whether it created the directory.
func realDirectory(dir string) (name string, made bool, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", false, err
	}
	if made, err = makeDirectory(abs); err != nil {
		return "", false, err
	}
	name, err = filepath.EvalSymlinks(abs)
	return name, made, err
}

// Lock creates the directory path in fs if it does not exist, and locks it for this
// process. It returns a *[storetype.LockedError] if it is locked. Errors call it name.
func Lock(fs vfs.FS, path, name string) (*Directory, error) {
	if err := fs.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	d := &Directory{FS: fs, Path: path, Name: name}
	var err error
	if d.lock, err = pebble.LockDirectory(path, fs); err != nil {
		if !isLocked(err) {
			return nil, d.withNeed(fmt.Errorf("lock store %s: %w", path, err))
		}
		return nil, &storetype.LockedError{Dir: path, PID: readPID(fs, path)}
	}
	if err := writeFile(fs, fs.PathJoin(path, pidFile), strconv.Itoa(os.Getpid())+"\n"); err != nil {
		return nil, errors.Join(d.withNeed(fmt.Errorf("lock store %s: %w", path, err)), d.lock.Close())
	}
	return d, nil
}

// Unlock deletes the file with the process id and unlocks the directory.
func (d *Directory) Unlock() error {
	err := d.FS.Remove(d.FS.PathJoin(d.Path, pidFile))
	if errors.Is(err, os.ErrNotExist) {
		err = nil // another program deleted it
	}
	return errors.Join(err, d.lock.Close())
}

// CheckFiles checks the files by their witnesses and changes nothing if it refuses them,
// because Pebble would delete what a damaged manifest does not name. It then writes the
// format of this release into a directory that is new.
func (d *Directory) CheckFiles() error {
	fs, dir := d.FS, d.Path
	found, err := readFormat(fs, dir)
	if err != nil {
		return d.withNeed(err)
	}
	if err := checkLogs(fs, dir); err != nil {
		return d.OpenFault(err)
	}
	if err := checkManifest(fs, dir); err != nil {
		return d.OpenFault(err)
	}
	if found == 0 {
		if err := writeFormat(fs, dir); err != nil {
			return d.withNeed(fmt.Errorf("create store %s: %w", dir, err))
		}
	}
	return nil
}

// Fault returns the error to report for an error of reading or writing the store's files.
// It returns a *[storetype.CorruptError] for damage. It returns the error of a context unchanged.
func (d *Directory) Fault(err error) error {
	if known, ok := errors.AsType[*storetype.CorruptError](err); ok {
		if known.Dir == "" {
			return &storetype.CorruptError{Dir: d.Name, Detail: known.Detail, Err: known.Err}
		}
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if pebble.IsCorruptionError(err) {
		return &storetype.CorruptError{Dir: d.Name, Detail: "a file was changed or cut off", Err: damage{err}}
	}
	return fmt.Errorf("store: %w", err)
}

// OpenFault returns the error to report for an error of opening. If the operating system
// refused an operation, it wraps the error of the system. It reports all other errors, a
// missing file included, as damage.
func (d *Directory) OpenFault(err error) error {
	if known := (*storetype.CorruptError)(nil); errors.As(err, &known) {
		return d.Fault(err)
	}
	if errors.Is(err, pebble.ErrDBNotPristine) {
		return &storetype.CorruptError{Dir: d.Name, Detail: "its file " + markerPrefix + "format-version.* is missing; " + restoreDirectory}
	}
	var refused syscall.Errno
	if errors.As(err, &refused) && refused != syscall.ENOENT {
		return d.withNeed(fmt.Errorf("open store %s: %w", d.Path, err))
	}
	return &storetype.CorruptError{Dir: d.Name, Detail: "the files cannot be opened", Err: damage{err}}
}

// StartFault returns the error of OpenFault if the operating system refused an operation,
// and the error of fault otherwise.
func (d *Directory) StartFault(err error) error {
	if errors.As(err, new(syscall.Errno)) {
		return d.OpenFault(err)
	}
	return d.Fault(err)
}

// openReserve is the room in bytes that opening needs for a few small files, besides the
// room for the logs.
const openReserve = 64 << 10

// withNeed adds to the error of a full disk the room that opening may need.
func (d *Directory) withNeed(err error) error { return d.withRoom(err, "opening the store") }

// withRoom adds to the error of a full disk the room that a task may need which first
// makes tables from the logs.
func (d *Directory) withRoom(err error, task string) error {
	fs := d.FS
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	usage, usageErr := fs.GetDiskUsage(d.Path)
	logs, logsErr := d.logSize()
	if usageErr != nil || logsErr != nil {
		return err // the file system does not report its usage
	}
	return fmt.Errorf("%w; %s may need %d KiB, mostly for tables made from its write-ahead logs, and %d KiB are free",
		err, task, (logs+openReserve+1<<10-1)>>10, usage.AvailBytes>>10)
}

// logSize returns the size of the write-ahead logs in bytes.
func (d *Directory) logSize() (sum int64, err error) {
	fs := d.FS
	names, err := fs.List(d.Path)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if isLog(name) {
			if i, err := fs.Stat(fs.PathJoin(d.Path, name)); err == nil {
				sum += i.Size()
			}
		}
	}
	return sum, nil
}

// Refused returns the error of a write that Pebble refuses because of err: a
// *[storetype.CorruptError] if err reports damage, and otherwise a *[storetype.DiskError].
func (d *Directory) Refused(err error) error {
	if fault := d.Fault(err); errors.As(fault, new(*storetype.CorruptError)) {
		return fault
	}
	return &storetype.DiskError{Dir: d.Name, Err: d.withRoom(err, "writing")}
}

// damage is an error of Pebble about a damaged file. Its text is one line: Pebble joins to the
// error what its listener for damage gets, whose text says nothing, and several readers join
// errors of one file.
type damage struct{ error }

func (d damage) Error() string {
	lines := slices.Compact(slices.DeleteFunc(strings.Split(d.error.Error(), "\n"), func(line string) bool { return line == carrier }))
	return strings.Join(lines, "; ")
}

// Unwrap returns Pebble's error.
func (d damage) Unwrap() error { return d.error }

// carrier is the text of Pebble's error that carries details for its listener.
const carrier = "<corruption detail carrier>"
