package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// catalogue contains the scenarios, and the reasons for those that an SDK cannot run.
type catalogue struct {
	scenarios []scenario
	// missing contains the reason why a suite omits a scenario, by the suite's directory
	// and the scenario's name.
	missing map[string]map[string]string
}

// scenario is one row of interop/scenarios.json.
type scenario struct {
	// Name is the name of the scenario in reports.
	Name string
	// Suites are the suites that run the scenario or declare it as missing.
	Suites []string
	// Asserts describes the checks of the scenario, for readers.
	Asserts string
}

// readCatalogue reads scenarios.json and the missing.json of each suite in the repository
// at root.
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
