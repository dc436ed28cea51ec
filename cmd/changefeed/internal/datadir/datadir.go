// Package datadir checks whether a directory may become the data directory of a store.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ours matches the files that Check accepts in a directory without a store. Some of them
// remain when the opening of a store was interrupted. A certificate may outlive its
// server's documents. Names that begin with a dot, and lost+found, belong to file systems
// and desktops.
var ours = regexp.MustCompile(`^(\..*|lost\+found|LOCK|PID|FORMAT\.new|CURRENT.*|MANIFEST-.*|OPTIONS-.*|marker\..*|LOG-[0-9]+|.*\.(crt|key))$`)

// numbered matches the names of a store's logs and tables. Files of other programs may
// have such names, and a store would delete them.
var numbered = regexp.MustCompile(`^[0-9]+\.(log|sst|blob|dbtmp)$`)

// manifestMarker is the prefix of a file that every directory with a store's logs and
// tables has.
const manifestMarker = "marker.manifest."

// Check returns an error if the directory dir has files but no store. Otherwise a
// mistyped name would mix the files of a store with those of another program. It accepts
// a directory that does not exist.
func Check(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the data directory: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "FORMAT")); err == nil {
		return nil // each store has this file, see internal/layout/FORMAT.md
	}
	store := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), manifestMarker) })
	foreign := slices.IndexFunc(entries, func(e os.DirEntry) bool {
		return !ours.MatchString(e.Name()) && !(store && numbered.MatchString(e.Name()))
	})
	if foreign < 0 {
		return nil
	}
	return fmt.Errorf("the data directory %s has no store and is not empty (it has %q); name an empty directory, or one that does not exist",
		dir, entries[foreign].Name())
}
