package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// runVale runs Vale once over pages and over the prose of Go files.
func runVale(ctx context.Context, vale string, sources []*source, pages []string) (findings []finding, err error) {
	dir, err := os.MkdirTemp("", "prose")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	type origin struct {
		path  string
		lines []int
	}
	origins := map[string]origin{}
	for _, src := range sources {
		path := filepath.Join(dir, src.path+".md")
		page, numbers := src.markdown()
		origins[path] = origin{src.path, numbers}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, page, 0o600); err != nil {
			return nil, err
		}
	}
	command := exec.CommandContext(ctx, vale, append([]string{"--no-exit", "--no-global", "--output=JSON", dir}, pages...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("vale: %w: %s%s", err, out, stderr.Bytes())
	}
	var alerts map[string][]struct {
		Check, Message string
		Line           int
	}
	if err := json.Unmarshal(out, &alerts); err != nil {
		return nil, fmt.Errorf("cannot read the output of vale: %w: %s", err, stderr.Bytes())
	}
	for path, list := range alerts {
		from := origins[path]
		for _, alert := range list {
			f := finding{path, alert.Line, alert.Check + ": " + alert.Message}
			if from.path != "" {
				f.path, f.line = from.path, from.lines[max(alert.Line, 1)-1]
			}
			findings = append(findings, f)
		}
	}
	return findings, nil
}
