package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

// attempt is one run of a suite over one transport. It has a server of its own.
type attempt struct {
	suite, directory, transport string
	binary, work                string
	flags                       []string
	verbose                     bool
	timeout                     time.Duration
	// served collects the names of the operations that the server carried out.
	served map[string]bool
}

// run runs the suite and returns the outcome of each scenario. It returns an error if the
// server did not start or stop, or if the suite's exit status was not 0.
func (a attempt) run(ctx context.Context, out io.Writer) (map[string]string, error) {
	if err := os.MkdirAll(a.work, 0o700); err != nil {
		return nil, err
	}
	server := harness.Server{
		Binary: a.binary, Work: a.work, TLS: a.transport == "tls", Flags: append(slices.Clone(a.flags), "--metrics", "127.0.0.1:0"),
		Key: harness.NewKey(), ReadOnlyKey: harness.NewKey(),
	}
	if err := server.Start(ctx); err != nil {
		return nil, fmt.Errorf("cannot start the server: %w", err)
	}
	report, err := filepath.Abs(filepath.Join(a.work, "report"))
	if err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	limited, cancel := context.WithTimeoutCause(ctx, a.timeout, fmt.Errorf("the suite ran for more than %s", a.timeout))
	defer cancel()
	var output bytes.Buffer
	failed := harness.Run(limited, &output, a.directory, []string{
		"CHANGEFEED_SUITE=" + a.suite,
		"CHANGEFEED_ENDPOINT=" + server.Endpoint,
		"CHANGEFEED_KEY=" + server.Key,
		"CHANGEFEED_READONLY_KEY=" + server.ReadOnlyKey,
		"CHANGEFEED_CA=" + server.Certificate,
		"CHANGEFEED_REPORT=" + report,
	}, "./run")
	if failed != nil {
		failed = fmt.Errorf("suite failed: %w", errors.Join(failed, context.Cause(limited)))
	}
	measured := readOperations(ctx, server.Metrics, a.served)
	stopped := server.Stop()
	if failed != nil || stopped != nil || a.verbose {
		printf(out, "--- output of %s over %s\n%s--- end of output\n", a.suite, a.transport, output.Bytes())
	}
	reported, err := readReport(report)
	return reported, errors.Join(failed, measured, stopped, err)
}

// readReport reads the report of a suite. Each line contains a scenario's name, a tab,
// and "ok" or "failed". If a scenario occurs several times, one "failed" makes it failed.
func readReport(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("the suite wrote no report")
	}
	if err != nil {
		return nil, err
	}
	reported := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, verdict, found := strings.Cut(strings.TrimRight(line, "\r\n"), "\t")
		if !found || !strings.HasPrefix(verdict, "ok") && !strings.HasPrefix(verdict, "failed") {
			return nil, fmt.Errorf("report line %q contains neither ok nor failed", line)
		}
		if !strings.HasPrefix(reported[name], "failed") {
			reported[name] = verdict
		}
	}
	return reported, nil
}
