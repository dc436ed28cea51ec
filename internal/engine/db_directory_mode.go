package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Others on the machine must not read the documents: the directory of a store and its
// files are their owner's alone. Pebble makes its files with the mode 0666, less the umask.
const (
	privateDirectory = 0o700
	privateFile      = 0o600
	// others are the bits of a mode that let others in.
	others = 0o077
)

// privateFS is the operating system's file system. The files that it makes can be read by
// their owner only.
type privateFS struct{ vfs.FS }

// Create makes a file.
func (p privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	return private(f, name, err)
}

// OpenReadWrite opens a file, and makes it if there is none.
func (p privateFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := p.FS.OpenReadWrite(name, category, opts...)
	return private(f, name, err)
}

// Lock makes a file and locks it.
func (p privateFS) Lock(name string) (io.Closer, error) {
	lock, err := p.FS.Lock(name)
	return private(lock, name, err)
}

// Unwrap is for Pebble, which looks for the file system underneath.
func (p privateFS) Unwrap() vfs.FS { return p.FS }

// private keeps others out of a file that was opened. A file that belongs to somebody
// else keeps its mode.
func private[F io.Closer](f F, name string, err error) (F, error) {
	if err != nil {
		return f, err
	}
	if err := os.Chmod(name, privateFile); err != nil && !errors.Is(err, fs.ErrPermission) {
		var none F
		return none, errors.Join(err, f.Close())
	}
	return f, nil
}

// makeDirectory makes the directory of a store if there is none, and reports whether it did.
func makeDirectory(dir string) (made bool, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return false, err
	}
	err = os.Mkdir(dir, privateDirectory)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// closeToOthers keeps others out of a directory that was there before, and of the
// store's files in it. It warns, and changes nothing, where the directory belongs to
// somebody else or is shared (as /tmp is).
func closeToOthers(dir string, logger *slog.Logger) {
	info, err := os.Stat(dir)
	if err != nil {
		return // opening the store reports it
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

// closeFiles keeps others out of the store's files in a directory. It returns the number
// of files whose modes it changed.
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

// isStoreFile reports whether a file in the directory of a store is the store's own, by
// its name.
func isStoreFile(name string) bool {
	switch name {
	case formatFile, formatFile + ".new", pidFile, "LOCK":
		return true
	}
	for _, prefix := range []string{"MANIFEST-", "OPTIONS-", "marker.", "CURRENT"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	number, kind, _ := strings.Cut(name, ".")
	return number != "" && strings.Trim(number, "0123456789") == "" && (kind == "log" || kind == "sst" || kind == "blob" || kind == "dbtmp")
}
