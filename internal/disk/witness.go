package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/storetype"
)

// Pebble opens what it finds. It doesn't notice that a write-ahead log is missing, and
// reads a manifest or a log only up to the first record that it cannot read, as if a
// crash had cut the file off there. It then deletes the tables that the rest of the
// manifest named. So the store remembers outside these files which of them exist and how
// far they reach: each has witnesses, which are empty files whose names say it.
//
//	LOG-000012         the log 000012.log exists
//	LOG-000012-4711    it is complete, and has 4711 bytes
//	EDITS-000014-815   MANIFEST-000014 has at least 815 bytes, and is or becomes the current one
//
// A witness never claims more than is durable, whatever order the file system writes its
// directory in:
//
//   - It is created after what it claims is durable. A log gets its first witness before it
//     is written to, and the second when Pebble has closed it. A manifest gets one at each
//     sync, before Pebble deletes the files that the synced edit makes obsolete.
//   - It is deleted, durably, before its file is deleted or renamed. The witnesses of a
//     manifest are also deleted when another one has durably become the current one.
//
// So a crash leaves a file without some of its witnesses, but a witness whose claim is
// false means that something else changed the file. A log without a witness is valid. The
// current manifest without one is damage, too, in a store of this format.
const (
	logSuffix         = ".log"
	manifestPrefix    = "MANIFEST-"
	logWitness        = "LOG-"
	manifestWitness   = "EDITS-"
	markerPrefix      = "marker."
	manifestMarker    = markerPrefix + "manifest."
	existence         = -1 // the size in a witness that claims only that its file exists
	restoreDirectory  = "restore the directory as a whole from a copy"
	maxLogTrailerSize = 19 // the size of the largest header of a record
)

// corrupt returns a *[storetype.CorruptError] whose Dir [Directory.Fault] adds.
func corrupt(format string, args ...any) error {
	return &storetype.CorruptError{Detail: fmt.Sprintf(format, args...)}
}

// isLog reports whether path names a write-ahead log.
func isLog(path string) bool { return strings.HasSuffix(path, logSuffix) }

// isManifest reports whether name, without a directory, is the name of a manifest.
func isManifest(name string) bool { return strings.HasPrefix(name, manifestPrefix) }

// markedManifest returns the manifest that a marker names, or "" if name, which has no
// directory, isn't the name of a manifest's marker.
func markedManifest(name string) string {
	if rest, ok := strings.CutPrefix(name, manifestMarker); ok {
		_, manifest, _ := strings.Cut(rest, ".")
		return manifest
	}
	return ""
}

// witnessOf returns the path of the witness of the log or manifest at path which claims
// that the file has size bytes, or just that it exists.
func witnessOf(fs vfs.FS, path string, size int64) string {
	name := fs.PathBase(path)
	if isManifest(name) {
		name = manifestWitness + strings.TrimPrefix(name, manifestPrefix)
	} else {
		name = logWitness + strings.TrimSuffix(name, logSuffix)
	}
	if size != existence {
		name += "-" + strconv.FormatInt(size, 10)
	}
	return fs.PathJoin(fs.PathDir(path), name)
}

// parseWitness returns the file whose witness has the given name, and the size that it
// claims. ok reports whether it is the name of a witness.
func parseWitness(name string) (file string, size int64, ok bool) {
	number, isLog := strings.CutPrefix(name, logWitness)
	if !isLog {
		if number, ok = strings.CutPrefix(name, manifestWitness); !ok {
			return "", 0, false
		}
	}
	number, text, sized := strings.Cut(number, "-")
	size = existence
	if sized {
		var err error
		if size, err = strconv.ParseInt(text, 10, 64); err != nil {
			return "", 0, false
		}
	}
	if isLog {
		return number + logSuffix, size, true
	}
	return manifestPrefix + number, size, true
}

// witness creates a witness of the log or manifest at path. The caller must sync the
// directory, which makes the witness durable.
func witness(fs vfs.FS, path string, size int64) error {
	f, err := fs.Create(witnessOf(fs, path, size), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	return f.Close()
}

// forget deletes the witnesses of the log or manifest at path, and syncs the directory if
// there were any.
func forget(fs vfs.FS, path string) error {
	dir, base := fs.PathDir(path), fs.PathBase(path)
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	found := false
	for _, name := range names {
		if file, _, ok := parseWitness(name); ok && file == base {
			found = true
			err = errors.Join(err, fs.Remove(fs.PathJoin(dir, name)))
		}
	}
	if !found {
		return nil
	}
	return errors.Join(err, syncDir(fs, dir))
}

// checkLogs returns a *CorruptError if a log is missing or incomplete although a witness
// claims the opposite. The error names the oldest such log.
func checkLogs(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		log, size, ok := parseWitness(name)
		if !ok || !isLog(log) {
			continue
		}
		if !slices.Contains(names, log) {
			return corrupt("its write-ahead log %s is missing; %s", log, restoreDirectory)
		}
		if size == existence {
			continue
		}
		number, err := strconv.ParseUint(strings.TrimSuffix(log, logSuffix), 10, 64)
		if err != nil {
			continue // no log of Pebble has this name
		}
		end, err := recordsEnd(fs, fs.PathJoin(dir, log), number)
		if err != nil {
			return err
		}
		// Pebble ends a log with a header without a record, the trailer. Without it the
		// log has all records, too.
		if size-end > maxLogTrailerSize {
			return corrupt("its write-ahead log %s can be read up to byte %d of %d; %s", log, end, size, restoreDirectory)
		}
	}
	return nil
}

// checkManifest returns a *CorruptError if there is no current manifest in a directory
// that needs one, or if it does not reach as far as its witnesses claim.
func checkManifest(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	current, err := currentManifest(fs, dir)
	if err != nil {
		return err
	}
	if current == "" {
		// Pebble creates its first log after the first manifest has become the current
		// one, so a crash in between leaves no log.
		if slices.ContainsFunc(names, func(name string) bool { return isLog(name) || isTable(name) }) {
			return corrupt("its file %s* is missing; %s", manifestMarker, restoreDirectory)
		}
		return nil
	}
	size := int64(existence)
	for _, name := range names {
		if file, n, ok := parseWitness(name); ok && file == current {
			size = max(size, n)
		}
	}
	if size == existence {
		return corrupt("no file %s* tells how much of %s must exist; %s",
			fs.PathBase(witnessOf(fs, current, existence)), current, restoreDirectory)
	}
	end, err := recordsEnd(fs, fs.PathJoin(dir, current), 0)
	if errors.Is(err, os.ErrNotExist) {
		return corrupt("its file %s is missing; %s", current, restoreDirectory)
	}
	if err != nil {
		return err
	}
	if end < size {
		return corrupt("its file %s can be read up to byte %d of %d; %s", current, end, size, restoreDirectory)
	}
	return nil
}

// currentManifest returns the name of the manifest that Pebble would open, or "" if the
// directory has none.
func currentManifest(fs vfs.FS, dir string) (string, error) {
	desc, err := pebble.Peek(dir, fs)
	if err != nil || !desc.Exists {
		return "", err
	}
	return fs.PathBase(desc.ManifestFilename), nil
}

// recordsEnd returns the offset in a log or a manifest at which the last record ends that
// can be read. number is the log's number, and 0 for a manifest.
func recordsEnd(fs vfs.FS, path string, number uint64) (end int64, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := readRecords(record.NewReader, f, number)
	for {
		end = r.Offset()
		next, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, next)
		}
		switch {
		case errors.Is(err, io.EOF):
			return r.Offset(), nil
		case record.IsInvalidRecord(err):
			return end, nil
		case err != nil:
			return end, fmt.Errorf("read %s: %w", fs.PathBase(path), err)
		}
	}
}

// readRecords calls record.NewReader, one of whose parameters has a type that only Pebble
// can name.
func readRecords[N ~uint64](open func(io.Reader, N) *record.Reader, f io.Reader, number uint64) *record.Reader {
	return open(f, N(number))
}
