package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// suitesCost is printed after cost if the conformance suites run, too.
const suitesCost = `Then it runs the conformance suites of feed and lease and a processor, which takes a few minutes. They
send some 10,000 requests, to containers of the database changefeed-conformance. It has a throughput
of 1,000 RU/s, which is billed for an hour (about 0.08 USD), and is deleted again, too.
`

// suites is the package with the conformance suites and a processor on an account, and
// suitesDatabase is the database that it uses.
const (
	suites         = "./internal/integration/azure"
	suitesDatabase = "changefeed-conformance"
)

// outcome is the result of one test of the suites. why is the output of a test that failed
// or was skipped.
type outcome struct{ test, result, why string }

// event is a line that `go test -json` prints.
type event struct{ Action, Test, Output string }

// judge runs the suites in a database of their own, and writes the report.
func (r *replay) judge(ctx context.Context, out io.Writer, o options, replayed string) error {
	body := fmt.Sprintf(`{"id":%q}`, suitesDatabase)
	a, err := r.send(ctx, &recorded{
		Method: http.MethodPost, Path: "/dbs", Body: &body,
		// The containers share this throughput, so that each of them costs nothing.
		Headers: map[string]string{"content-type": "application/json", "x-ms-offer-throughput": "1000"},
	})
	if err != nil {
		return err
	}
	if a.status != http.StatusCreated {
		return fmt.Errorf("cannot create the database %s: status %d: %.300s", suitesDatabase, a.status, a.body)
	}
	defer r.drop(context.WithoutCancel(ctx), out, suitesDatabase)
	_, _ = fmt.Fprintln(out, "\nThe suites run, which takes some minutes.")
	all, failed := runSuites(ctx, o)
	for _, x := range all {
		if x.result == "fail" {
			_, _ = fmt.Fprintf(out, "FAIL %s\n%s\n", x.test, x.why)
		}
	}
	_, _ = fmt.Fprintf(out, "%d tests passed, %d failed, and %d were skipped.\n", count(all, "pass"), count(all, "fail"), count(all, "skip"))
	if o.report == "" || ctx.Err() != nil {
		return failed
	}
	text := report(time.Now(), replayed, all)
	return errors.Join(failed, os.WriteFile(o.report, []byte(text), 0o644)) //nolint:gosec // a page for everybody
}

// runSuites runs the tests of the suites against an account, and returns their outcomes. The
// key is passed in the environment, because every user of the machine sees arguments.
func runSuites(ctx context.Context, o options) ([]outcome, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout=60m", suites, "-azure.endpoint="+o.endpoint)
	cmd.Env = append(os.Environ(), "COSMOS_KEY="+o.key)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	all, failed := outcomes(lines)
	if err := errors.Join(failed, cmd.Wait()); err != nil {
		return all, fmt.Errorf("the suites: %w", err)
	}
	return all, nil
}

// outcomes reads the lines of `go test -json`. A test with subtests counts by them, and the
// package only if it fails without a test that does.
func outcomes(lines io.Reader) ([]outcome, error) {
	var all []outcome
	output, parents, failed := map[string]string{}, map[string]bool{}, false
	s := bufio.NewScanner(lines)
	for s.Scan() {
		var e event
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			return all, fmt.Errorf("a line of go test -json: %w", err)
		}
		switch e.Action {
		case "output":
			if text := strings.TrimSpace(e.Output); !strings.HasPrefix(text, "=== ") && !strings.HasPrefix(text, "--- ") {
				output[e.Test] += text + "\n"
			}
		case "pass", "fail", "skip":
			if parent, _, ok := strings.Cut(e.Test, "/"); ok {
				parents[parent] = true
			}
			if (parents[e.Test] || e.Test == "") && (e.Action != "fail" || failed) {
				continue
			}
			failed = failed || e.Action == "fail"
			o := outcome{test: e.Test, result: e.Action}
			if e.Action != "pass" {
				o.why = strings.TrimSpace(output[e.Test])
			}
			all = append(all, o)
		}
	}
	return all, s.Err()
}

// count returns how many outcomes have a result.
func count(all []outcome, result string) (n int) {
	for _, o := range all {
		if o.result == result {
			n++
		}
	}
	return n
}

// report returns a page about a run against an account. It does not name the account.
func report(at time.Time, replayed string, all []outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# A run against an account\n\n`make azure` wrote this page on %s.\n\n", at.UTC().Format("2 January 2006"))
	fmt.Fprintf(&b, "## The conformance suites and a processor\n\n%d tests passed, %d failed, and %d were skipped.\n", count(all, "pass"), count(all, "fail"), count(all, "skip"))
	for _, part := range []struct{ result, title string }{{"fail", "Failed"}, {"skip", "Skipped"}, {"pass", "Passed"}} {
		if count(all, part.result) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n", part.title)
		for _, o := range all {
			if o.result != part.result {
				continue
			}
			name := strings.ReplaceAll(o.test, "_", " ")
			if name == "" {
				name = "the package"
			}
			fmt.Fprintf(&b, "- %s\n", name)
			for line := range strings.Lines(o.why) {
				fmt.Fprintf(&b, "  - %s\n", strings.TrimSpace(line))
			}
		}
	}
	fmt.Fprintf(&b, "\n## The recorded requests\n\nThese are the cases that differ from the recording, and the totals.\n\n```\n%s\n```\n", strings.TrimSpace(replayed))
	return b.String()
}
