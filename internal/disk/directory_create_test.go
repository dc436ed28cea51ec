//go:build unix

package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Another user could open a file between its creation and a later change of its mode. So
// each file must be private from its creation.
func TestFileIsPrivateFromItsCreation(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := t.TempDir()
	files := ownerOnlyFS{privateFS{vfs.Default, t}}
	existing := filepath.Join(dir, "existing")
	if err := os.WriteFile(existing, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{existing, filepath.Join(dir, "new")} {
		f, err := files.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := f.Stat(); err != nil || info.Size() != 0 {
			t.Errorf("the created file %s has the size %d, %v", name, info.Size(), err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	f, err := files.OpenReadWrite(filepath.Join(dir, "opened"), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := files.Lock(filepath.Join(dir, "LOCK"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), lock.Close()); err != nil {
		t.Error(err)
	}
}

// privateFS requires of each file that it opens for writing that the file exists and is
// private.
type privateFS struct {
	vfs.FS
	t *testing.T
}

func (p privateFS) wantPrivate(name string) {
	p.t.Helper()
	if info, err := os.Stat(name); err != nil {
		p.t.Error(err)
	} else if mode := info.Mode().Perm(); mode != ownerOnlyFile {
		p.t.Errorf("%s has the mode %s", name, mode)
	}
}

func (p privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	p.wantPrivate(name)
	return p.FS.Create(name, category)
}

func (p privateFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	p.wantPrivate(name)
	return p.FS.OpenReadWrite(name, category, opts...)
}

func (p privateFS) Lock(name string) (io.Closer, error) {
	p.wantPrivate(name)
	return p.FS.Lock(name)
}
