//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// lockDirectoryItself locks the directory dir, whatever files it has. It returns an error
// that wraps syscall.EAGAIN if another opening has locked it, in this process or another.
// Some network file systems cannot lock a directory. There only the lock on the LOCK file
// keeps others out.
func lockDirectoryItself(dir string) (io.Closer, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(&os.PathError{Op: "lock", Path: dir, Err: err}, d.Close())
	}
	return d, nil // closing it ends the lock
}
