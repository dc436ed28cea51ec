package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// positionInterval is the minimum time between two writes of the position.
const positionInterval = time.Second

// positionFile stores the position of a reader in a file.
type positionFile struct {
	name    string // if empty, the position is not stored
	kept    string
	written time.Time
}

// read returns the saved position. It returns "" if the file does not exist. An empty
// file is an error: without a position everything would be printed again or, with --from
// now, be skipped.
func (f *positionFile) read() (string, error) {
	text, err := os.ReadFile(f.name)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	position := strings.TrimSpace(string(text))
	if position == "" {
		return "", fmt.Errorf("%s is empty; restore the file, or delete it to start at --from", f.name)
	}
	return position, nil
}

// positionMode returns the mode that a position contains. known is false if it contains
// none.
func positionMode(position string) (mode feed.Mode, known bool) {
	var p struct {
		Mode string `json:"mode"`
	}
	if json.Unmarshal([]byte(position), &p) != nil {
		return 0, false
	}
	for _, m := range []feed.Mode{feed.LatestVersion, feed.AllVersionsAndDeletes} {
		if p.Mode == m.String() {
			return m, true
		}
	}
	return 0, false
}

// next returns the name of a temporary file. A new position is written to it before it
// replaces the position file.
func (f *positionFile) next() string { return f.name + ".new" }

// check returns an error if the position file cannot be written.
func (f *positionFile) check() error {
	file, err := os.OpenFile(f.next(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(f.next()))
}

// keep writes the reader's position to the file. It does nothing if the position is
// unchanged, or if the last write was less than interval ago.
func (f *positionFile) keep(ctx context.Context, r *feed.Reader, interval time.Duration) error {
	if f.name == "" || time.Since(f.written) < interval {
		return nil
	}
	position, err := r.Position(ctx)
	if err != nil || position == f.kept {
		return err
	}
	// The file is replaced atomically, so that after a crash it contains the old position
	// or the new one.
	if err := writeSynced(f.next(), position+"\n"); err != nil {
		return fmt.Errorf("write the position: %w", err)
	}
	if err := os.Rename(f.next(), f.name); err != nil {
		return fmt.Errorf("write the position: %w", err)
	}
	f.kept, f.written = position, time.Now()
	return nil
}

// writeSynced writes a file, and returns when its content is on disk.
func writeSynced(name, text string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
