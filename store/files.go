package store

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// orderedFS closes a gap in Pebble's order of writes. Pebble names its current
// manifest by a marker file: it makes and syncs the manifest, then makes the
// marker, then syncs the directory. A file system that writes directory entries
// in any order may, after a power loss, have the marker and not the manifest, and such a
// store can't be opened. So the directory is synced before a marker is made, which
// happens at the opening and once per manifest file.
type orderedFS struct{ vfs.FS }

// Create makes a file; markers behind what they name.
func (fs orderedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(fs.PathBase(name), "marker.") {
		if err := syncDir(fs.FS, fs.PathDir(name)); err != nil {
			return nil, err
		}
	}
	return fs.FS.Create(name, category)
}

// Unwrap is for Pebble, which looks for the file system underneath.
func (fs orderedFS) Unwrap() vfs.FS { return fs.FS }
