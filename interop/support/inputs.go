package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// sdk is a column of the tables.
type sdk struct {
	title string
	// suites are the names of the suites whose results count together; directory has their missing.json.
	suites    []string
	directory string
}

var sdks = []sdk{
	{"Go", []string{"go"}, "go/azcosmos"},
	{"JavaScript", []string{"js"}, "js"},
	{"Java", []string{"java"}, "java"},
	{"Python", []string{"python", "python-async"}, "python"},
	{"REST", []string{"raw"}, "go/raw"},
}

// inputs are what the page is made of, besides the table of routes.
type inputs struct {
	scenarios []scenario
	results   map[string]result
	// missing has the reasons why SDKs can't, by directory and scenario.
	missing map[string]map[string]string
}

type scenario struct {
	Name    string   `json:"name"`
	Suites  []string `json:"suites"`
	Asserts string   `json:"asserts"`
}

// result is what one suite did when it was last recorded.
type result struct {
	Scenarios  map[string]string `json:"scenarios"`
	Operations []string          `json:"operations"`
}

func read(root string) (inputs, error) {
	var (
		in        = inputs{missing: map[string]map[string]string{}}
		catalogue struct{ Scenarios []scenario }
		recorded  struct{ Suites map[string]result }
	)
	if err := decode(filepath.Join(root, "interop/scenarios.json"), &catalogue); err != nil {
		return in, err
	}
	if err := decode(filepath.Join(root, "interop/results.json"), &recorded); err != nil {
		return in, err
	}
	in.scenarios, in.results = catalogue.Scenarios, recorded.Suites
	for _, s := range sdks {
		reasons := map[string]string{}
		err := decode(filepath.Join(root, "interop", s.directory, "missing.json"), &reasons)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return in, err
		}
		in.missing[s.directory] = reasons
	}
	return in, nil
}

func decode(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
