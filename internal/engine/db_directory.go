package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// pidFile names the process that uses a directory. What keeps a second one out
// is the lock on Pebble's LOCK file, which ends with the process; this one only says
// who it is.
const pidFile = "PID"

// lockDirectory locks dir for this process, or returns *[LockedError].
func lockDirectory(fs vfs.FS, dir string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		if !isLocked(err) {
			return nil, fmt.Errorf("lock store %s: %w", dir, err)
		}
		return nil, &LockedError{Dir: dir, PID: readPID(fs, dir)}
	}
	if err := writeFile(fs, fs.PathJoin(dir, pidFile), strconv.Itoa(os.Getpid())+"\n"); err != nil {
		return nil, errors.Join(fmt.Errorf("lock store %s: %w", dir, err), lock.Close())
	}
	return lock, nil
}

// isLocked tells that somebody has the lock from trouble with the file. For a lock of this same
// process Pebble has a text only.
func isLocked(err error) bool {
	return errors.Is(err, syscall.EAGAIN) ||
		strings.Contains(err.Error(), "lock held by current process")
}

// unlockDirectory is the end of lockDirectory.
func unlockDirectory(fs vfs.FS, dir string, lock *pebble.Lock) error {
	err := fs.Remove(fs.PathJoin(dir, pidFile))
	if errors.Is(err, os.ErrNotExist) {
		err = nil // somebody tidied up
	}
	return errors.Join(err, lock.Close())
}

// readPID returns who has the directory; 0: it can't be told.
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

// writeFile writes a file and syncs it.
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
