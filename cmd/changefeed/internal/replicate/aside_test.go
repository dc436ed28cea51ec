package replicate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/storetype"
)

// unique adds a container with a unique key, and returns a configuration that copies into
// it.
func (s *stage) unique(path, unique string) Config {
	s.Helper()
	c, err := s.account.DB.CreateContainer(s.Context(), "shop", storetype.ContainerProperties{ID: "unique", KeyPaths: []string{path}, UniqueKeys: [][]string{{unique}}})
	if err != nil {
		s.Fatal(err)
	}
	s.to = c
	cfg := s.config()
	cfg.To.Container = "unique"
	return cfg
}

// end returns the error of a run. A run that retries a refused document does not end by
// itself.
func (s *stage) end(cfg Config) error {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute)
	defer cancel()
	return Run(ctx, cfg)
}

// asideIn returns the ids and keys in a file of documents that were set aside.
func asideIn(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		var record struct {
			ID, Reason string
			Key        []any
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Reason == "" {
			t.Errorf("%s: %v", line, err)
		}
		all = append(all, fmt.Sprint(record.ID, record.Key))
	}
	slices.Sort(all)
	return all
}

// With a file for refused documents, a replication copies all others and then fails with
// their number. Without it, the first one ends the run.
func TestRefusedDocumentsAreSetAsideAndTheOthersCopied(t *testing.T) {
	for name, test := range map[string]struct {
		config  func(s *stage) Config
		refused []string // one of these
	}{
		"the same key":     {func(s *stage) Config { return s.unique("/customer", "/n") }, []string{"x[eve]", "y[eve]"}},
		"another key":      {func(s *stage) Config { return s.unique("/product", "/n") }, []string{"x[eve]", "y[eve]"}},
		"one from two":     {func(s *stage) Config { return s.config() }, []string{"same[ada]", "same[bob]"}},
		"all the versions": {func(s *stage) Config { c := s.config(); c.Versions = true; return c }, []string{"same[ada]", "same[bob]"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "refused.ndjson")
			onStage(t, func(s *stage) {
				cfg := test.config(s)
				for i := range 30 {
					s.write(fmt.Sprint(i), fmt.Sprint("c", i%7), fmt.Sprint("p", i), i)
				}
				if cfg.To.Container == "unique" {
					s.write("x", "eve", "book", 100)
					s.write("y", "eve", "book", 100)
				} else {
					s.write("same", "ada", "lamp", 100)
					s.write("same", "bob", "lamp", 100)
				}
				if err := s.end(cfg); !refusal(err) {
					s.Fatalf("without the file the run ended with %v", err)
				}
				cfg.SetAside = file
				err := s.end(cfg)
				var aside *SetAsideError
				if !errors.As(err, &aside) || aside.Documents != 1 || aside.File != file {
					s.Errorf("the run ended with %v", err)
				}
				if got := asideIn(t, file); len(got) != 1 || !slices.Contains(test.refused, got[0]) {
					s.Errorf("set aside: %q, want one of %q", got, test.refused)
				}
				if n := len(s.documents(s.to)); n != 31 {
					s.Errorf("the target has %d documents", n)
				}
				// The position is behind the refused document, so the next run is in order.
				s.run(cfg)
			})
		})
	}
}

// A document moves to a key under which the target refuses it. Its copy under the old key
// must stay, because it is the only one.
func TestARefusedMoveKeepsTheOldCopy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "refused.ndjson")
	onStage(t, func(s *stage) {
		cfg := s.unique("/product", "/n")
		cfg.SetAside = file
		s.write("x", "eve", "book", 1)
		s.write("y", "eve", "lamp", 2)
		s.run(cfg)
		s.write("x", "eve", "lamp", 2)
		err := s.end(cfg)
		if _, ok := errors.AsType[*SetAsideError](err); !ok {
			s.Errorf("the run ended with %v", err)
		}
		if got := asideIn(t, file); !slices.Equal(got, []string{"x[eve]"}) {
			s.Errorf("set aside: %q", got)
		}
		if n := len(s.documents(s.to)); n != 2 {
			s.Errorf("the target has %d documents: %v", n, s.documents(s.to))
		}
	})
}
