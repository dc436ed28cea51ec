package harness

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// reporting guards the report's file: scenarios run side by side.
var reporting sync.Mutex

// Scenario runs a scenario of interop/scenarios.json as a test of its name and appends
// its outcome to the report. A scenario that ends the process early is in no report, and
// the runner then calls it failed.
func (e Env) Scenario(t *testing.T, name string, run func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Cleanup(func() {
			line := name + "\tok\n"
			if t.Failed() || t.Skipped() {
				line = name + "\tfailed\tsee the suite's output\n"
			}
			if err := e.report(line); err != nil {
				t.Errorf("report: %v", err)
			}
		})
		run(t)
	})
}

func (e Env) report(line string) error {
	if e.Report == "" {
		return nil
	}
	reporting.Lock()
	defer reporting.Unlock()
	f, err := os.OpenFile(e.Report, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the report: %w", err)
	}
	_, err = f.WriteString(line)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
