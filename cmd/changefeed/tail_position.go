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

// placeInterval is how often the place is written, at most.
const placeInterval = time.Second

// placeFile keeps the place of a reader.
type placeFile struct {
	name    string // empty: it is kept nowhere
	kept    string
	written time.Time
}

// read returns the place that is kept; empty: there is none. A file without one is refused: to take it for none would be to print
// everything again, or with --from now to skip what was written since.
func (f *placeFile) read() (string, error) {
	text, err := os.ReadFile(f.name)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	place := strings.TrimSpace(string(text))
	if place == "" {
		return "", fmt.Errorf("%s is empty, and keeps no place; restore the file, or delete it to begin at --from", f.name)
	}
	return place, nil
}

// placeMode is the mode of a place; known is false where it says none, or is no place.
func placeMode(place string) (mode feed.Mode, known bool) {
	var p struct {
		Mode string `json:"mode"`
	}
	if json.Unmarshal([]byte(place), &p) != nil {
		return 0, false
	}
	for _, m := range []feed.Mode{feed.LatestVersion, feed.AllVersionsAndDeletes} {
		if p.Mode == m.String() {
			return m, true
		}
	}
	return 0, false
}

// next is the file that a place is written to before it takes the name of the last one.
func (f *placeFile) next() string { return f.name + ".new" }

// check tells before anything is read that the place couldn't be kept.
func (f *placeFile) check() error {
	file, err := os.OpenFile(f.next(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(f.next()))
}

// keep writes the place, if it is another and was written longer than interval ago.
func (f *placeFile) keep(ctx context.Context, r *feed.Reader, interval time.Duration) error {
	if f.name == "" || time.Since(f.written) < interval {
		return nil
	}
	position, err := r.Position(ctx)
	if err != nil || position == f.kept {
		return err
	}
	// A crash leaves the old place or the new one, and never a name without what it is for.
	if err := writeSynced(f.next(), position+"\n"); err != nil {
		return fmt.Errorf("keep the place: %w", err)
	}
	if err := os.Rename(f.next(), f.name); err != nil {
		return fmt.Errorf("keep the place: %w", err)
	}
	f.kept, f.written = position, time.Now()
	return nil
}

// writeSynced writes a file, and waits until it is on disk.
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
