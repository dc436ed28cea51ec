package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// patience is how long a document may take to appear.
const patience = 90 * time.Second

// errNever says that a document did not appear.
var errNever = errors.New("not seen")

// A scene is what hosts of one mode do on containers of their own; it saves documents under names.
type scene struct {
	stage     *stage
	directory string // of the golden files
	database  string
	monitored string
	leases    string
	mark      int // exchanges before it are of the past
	patience  time.Duration
}

// await waits for a write, since the last next, that fits, and returns it.
func (s *scene) await(ctx context.Context, what string, fits func(l lease) bool) (write, error) {
	return s.awaitWrite(ctx, what, func(w write) bool { return fits(w.document) })
}

func (s *scene) awaitWrite(ctx context.Context, what string, fits func(w write) bool) (write, error) {
	for end := time.Now().Add(s.patience); ; {
		all, err := s.stage.proxy.writes(s.mark, s.path(s.leases))
		if err != nil {
			return write{}, err
		}
		for _, w := range all {
			if fits(w) {
				return w, nil
			}
		}
		if time.Now().After(end) {
			return write{}, fmt.Errorf("%s/%s: no such document was written within %s: %w", s.directory, what, s.patience, errNever)
		}
		if err := pause(ctx); err != nil {
			return write{}, err
		}
	}
}

// save waits for a write that fits and keeps it as a golden file, both as it was sent and as the server answered.
func (s *scene) save(ctx context.Context, name string, fits func(l lease) bool) (write, error) {
	w, err := s.await(ctx, name, fits)
	if err != nil {
		return w, err
	}
	return w, s.keep(name, w)
}

func (s *scene) keep(name string, w write) error {
	writef(s.stage.out, "%-40s %s\n", filepath.Join(filepath.Base(s.directory), name), w.sent)
	if state := decoded(text(w.document.ContinuationToken)); state != "" {
		writef(s.stage.out, "%-40s %s\n", "", state)
	}
	return errors.Join(
		os.MkdirAll(s.directory, 0o750),
		os.WriteFile(filepath.Join(s.directory, name+".sent.json"), append(w.sent, '\n'), 0o600),
		os.WriteFile(filepath.Join(s.directory, name+".json"), append(w.answered, '\n'), 0o600),
	)
}

// requests keeps which reads of the change feed the scene made, since so many exchanges.
func (s *scene) requests(name string, from int) error {
	kinds := feedRequests(s.stage.proxy.since(from), s.path(s.monitored))
	for _, k := range kinds {
		writef(s.stage.out, "    %s\n", k)
	}
	return os.WriteFile(filepath.Join(s.directory, "requests-"+name+".txt"), []byte(strings.Join(kinds, "\n")+"\n"), 0o600)
}

// path is the path of a container of the scene, as its documents are asked for.
func (s *scene) path(container string) string { return "/dbs/" + s.database + "/colls/" + container }

// next makes the writes so far ones of the past.
func (s *scene) next() { s.mark = s.stage.proxy.count() }

// decoded is the JSON of a position of Java's second dialect; empty for others.
func decoded(token string) string {
	state, err := base64.URLEncoding.DecodeString(token)
	if err != nil || len(state) == 0 || state[0] != '{' {
		return ""
	}
	return string(state)
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(50 * time.Millisecond):
		return nil
	}
}

// writef prints to a terminal or a pipe; who closed it doesn't read.
func writef(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
