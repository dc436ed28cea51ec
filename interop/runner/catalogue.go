package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// A catalogue is the list of scenarios, and what SDKs can't do of it.
type catalogue struct {
	scenarios []scenario
	// missing has the reasons why suites leave scenarios out, by directory and scenario.
	missing map[string]map[string]string
}

// A scenario is one row of interop/scenarios.json.
type scenario struct {
	// Name is the name in reports.
	Name string
	// Suites are those that run it, or declare it as missing.
	Suites []string
	// Asserts describes it to readers.
	Asserts string
}

// readCatalogue reads scenarios.json and each suite's missing.json, below the repository's root.
func readCatalogue(root string) (catalogue, error) {
	c := catalogue{missing: map[string]map[string]string{}}
	var file struct{ Scenarios []scenario }
	if err := readJSON(filepath.Join(root, "interop/scenarios.json"), &file); err != nil {
		return c, err
	}
	c.scenarios = file.Scenarios
	for _, s := range suites {
		reasons := map[string]string{}
		path := filepath.Join(root, "interop", s.directory, "missing.json")
		if err := readJSON(path, &reasons); err != nil && !errors.Is(err, os.ErrNotExist) {
			return c, err
		}
		c.missing[s.directory] = reasons
	}
	return c, nil
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
