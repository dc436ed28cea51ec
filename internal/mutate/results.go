package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// results are the killed mutants of this run and of earlier ones. They are kept in a file with
// one line of JSON for each, which is appended as soon as a mutant is killed. So a run that is
// interrupted loses only the mutant that it was at.
type results struct {
	file    *os.File
	killed  map[string]bool          // by key
	lengths map[string]time.Duration // name of a mutant -> how long its test ran the last time
}

// result is one line of the file.
type result struct {
	Mutant  string  `json:"mutant"`
	Key     string  `json:"key"`
	Seconds float64 `json:"seconds"`
}

// openResults reads the results in a file, and creates the file if there is none.
func openResults(name string) (*results, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	r := &results{killed: map[string]bool{}, lengths: map[string]time.Duration{}}
	for line := range bytes.Lines(text) {
		// A line that isn't complete was cut off by a crash, and its mutant runs again.
		var one result
		if json.Unmarshal(line, &one) == nil && one.Key != "" {
			r.note(one)
		}
	}
	r.file, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		if _, err := r.file.WriteString("\n"); err != nil {
			_ = r.file.Close()
			return nil, err
		}
	}
	return r, nil
}

func (r *results) note(one result) {
	r.killed[one.Key] = true
	r.lengths[one.Mutant] = time.Duration(one.Seconds * float64(time.Second))
}

// add records that a mutant was killed. It writes the line in one piece, so that several runs
// may add to the file at the same time.
func (r *results) add(name, key string, took time.Duration) error {
	one := result{Mutant: name, Key: key, Seconds: took.Seconds()}
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("cannot keep the result: %w", err)
	}
	r.note(one)
	return nil
}

// estimate returns how long the tests of the named mutants will take together, judging by how
// long they took the last time. A mutant that never ran counts as the average of the others.
// The answer is 0 if none ever ran.
func (r *results) estimate(names []string) time.Duration {
	if len(r.lengths) == 0 {
		return 0
	}
	var sum time.Duration
	for _, length := range r.lengths {
		sum += length
	}
	average := sum / time.Duration(len(r.lengths))
	var total time.Duration
	for _, name := range names {
		if length, ok := r.lengths[name]; ok {
			total += length
		} else {
			total += average
		}
	}
	return total
}

func (r *results) close() error { return r.file.Close() }
