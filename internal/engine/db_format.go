package engine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatVersion is the format that this release writes. FORMAT.md describes it.
const formatVersion = 4

// pebbleFormat is the format of the files underneath. It is pinned: Pebble raises it when
// asked to and can't go back, so that a raise is a new format of the store.
const pebbleFormat = pebble.FormatValueSeparation

// formatFile holds the format. It is a file of its own, so that it can be read
// when a newer release has also raised Pebble's format.
const formatFile = "FORMAT"

const formatPrefix = "changefeed store format "

// checkFormat reads the format of a directory, or writes it when the directory
// has no store in it. A directory of an older format gets the number of this release's first, so
// that an older release refuses it from then on; [DB.upgrade] then brings its records up to date.
func checkFormat(fs vfs.FS, dir string) error {
	name := fs.PathJoin(dir, formatFile)
	text, err := readFile(fs, name)
	if err == nil {
		found, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(text, formatPrefix)))
		switch {
		case err != nil || found < 1 || !strings.HasPrefix(text, formatPrefix):
			return &CorruptError{Dir: dir, Detail: fmt.Sprintf("the file %s says %.40q", formatFile, text)}
		case found > formatVersion:
			return &FormatError{Dir: dir, Found: found, Known: formatVersion}
		case found < formatVersion:
			if err := writeFormat(fs, dir); err != nil {
				return fmt.Errorf("upgrade store %s from format %d: %w", dir, found, err)
			}
		}
		return nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("open store %s: %w", dir, err)
	}
	desc, err := pebble.Peek(dir, fs)
	if err != nil {
		return &CorruptError{Dir: dir, Detail: "it can't be read", Err: err}
	}
	if desc.Exists {
		return &CorruptError{Dir: dir, Detail: "the file " + formatFile + " is missing"}
	}
	if err := writeFormat(fs, dir); err != nil {
		return fmt.Errorf("create store %s: %w", dir, err)
	}
	return nil
}

// writeFormat writes the format of this release. The file is made complete under another name first, so
// that it is there whole or not at all.
func writeFormat(fs vfs.FS, dir string) error {
	name := fs.PathJoin(dir, formatFile)
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
