package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// A scenario is one row of interop/scenarios.json.
type scenario struct {
	// Name is what suites report.
	Name string `json:"name"`
	// Suites are those that have to run it, or to say why they can't.
	Suites []string `json:"suites"`
	// Asserts says what it is about, for readers.
	Asserts string `json:"asserts"`
}

func readCatalogue(path string) ([]scenario, error) {
	var file struct {
		Scenarios []scenario `json:"scenarios"`
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(file.Scenarios) == 0 {
		return nil, fmt.Errorf("%s has no scenarios", path)
	}
	return file.Scenarios, nil
}

// readMissing reads what a suite declares that its SDK can't, with the reasons. No file is none.
func readMissing(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var missing map[string]string
	if err := json.Unmarshal(text, &missing); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for name, reason := range missing {
		if reason == "" {
			return nil, fmt.Errorf("%s: %s has no reason", path, name)
		}
	}
	return missing, nil
}
