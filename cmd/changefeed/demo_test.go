package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// If this environment variable is set, the test binary acts as the changefeed command. So
// tests can run the command as a process, kill it, and observe how it ends.
const asCommand = "CHANGEFEED_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	// Remove the variables that name an account. Otherwise the tests could use a real
	// account of the person who runs them.
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "COSMOS_") || strings.HasPrefix(name, "CHANGEFEED_SERVE_") {
			_ = os.Unsetenv(name) // a variable that is set counts as given, even if it is empty
		}
	}
	os.Exit(m.Run())
}

func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+t.TempDir())
	return cmd
}

// finishDemo runs the demo on the store in dir until it ends, and returns its exit code
// and its output. It runs in a bubble, because the demo would take many seconds.
func finishDemo(t *testing.T, dir string, args ...string) (code int, out string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var errOut string
		code, out, errOut = command(t, append([]string{"demo", "--data", dir, "--records", "1000"}, args...)...)
		out += errOut
	})
	return code, out
}

func TestDemoKilledAtAnyMomentIsFinishedByTheNextRun(t *testing.T) {
	// Each run of the demo is killed when it has printed a certain line. The first is
	// killed before it has written a record. The next run continues, and the last one
	// finishes the copy.
	dir := filepath.Join(t.TempDir(), "data")
	for i, until := range []string{"host-1 joins", "is split into", "crashes", "a second wave"} {
		cmd := process(t, "demo", "--data", dir, "--records", "1000", "--seed", fmt.Sprint(i))
		said, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		found := false
		for lines := bufio.NewScanner(said); !found && lines.Scan(); {
			found = strings.Contains(lines.Text(), until)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		var killed *exec.ExitError
		if !found || !errors.As(err, &killed) || killed.Exited() {
			t.Fatalf("the run was to be killed at %q (found: %t), but: %v", until, found, err)
		}
	}
	code, out := finishDemo(t, dir)
	written, delivered := number(t, row(t, out, "written")), number(t, row(t, out, "delivered"))-number(t, row(t, out, "redelivered"))
	if delivered > written || !strings.Contains(out, "an earlier run wrote records here") {
		t.Errorf("more is delivered than was written:\n%s", out)
	}
	if code != exitOK || row(t, out, "missing") != "0" || row(t, out, "wrong") != "0" || !strings.Contains(out, "1,000 documents compared") {
		t.Errorf("status %d:\n%s", code, out)
	}
	checkStore(t, dir, func(*store.DB) {})
}

func TestDemoExitsWithOneWhenSomethingIsMissingOrWrong(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if code, out := finishDemo(t, dir); code != exitOK {
		t.Fatalf("status %d:\n%s", code, out)
	}
	// One copy is deleted, and another one is changed, without the processor. The
	// comparison of the next run must report both. Its second wave must not update their
	// records, because the processor would then copy them again.
	lost, spoilt := "", ""
	checkStore(t, dir, func(db *store.DB) {
		c, err := db.Container(t.Context(), "demo", "flights-by-destination")
		if err != nil {
			t.Fatal(err)
		}
		page, err := c.Items(t.Context(), storetype.ItemsRequest{MaxItems: 1000})
		if err != nil {
			t.Fatal(err)
		}
		key := regexp.MustCompile(`"demo_revision":1,"destination":"(\w+)".*"id":"(\d+)"`)
		for _, item := range page.Items {
			m := key.FindSubmatch(item.Body) // a record of revision 1 is not updated in the second wave
			switch {
			case m == nil:
			case lost == "":
				lost = string(m[2])
				_, err = c.Delete(t.Context(), feed.PartitionKey{string(m[1])}, lost, storetype.WriteOptions{})
			case spoilt == "":
				spoilt = string(m[2])
				_, err = c.Upsert(t.Context(), nil, []byte(strings.Replace(string(item.Body), `"delay"`, `"delayed"`, 1)), storetype.WriteOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	code, out := finishDemo(t, dir)
	if code != exitFailed || row(t, out, "missing") != "1" || row(t, out, "wrong") != "1" {
		t.Errorf("status %d:\n%s", code, out)
	}
	for _, want := range []string{"document " + lost + " is not in", "document " + spoilt + " is different"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

func TestDemoNamesTheProcessThatUsesItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	checkStore(t, dir, func(*store.DB) {
		code, _, errOut := command(t, "demo", "--data", dir)
		want := fmt.Sprintf("in use by process %d; wait for it to end", os.Getpid())
		if code != exitFailed || !strings.Contains(errOut, want) {
			t.Errorf("status %d, %q; want %q", code, errOut, want)
		}
	})
}

func TestDemoRemovesItsFilesOnASignal(t *testing.T) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores SIGHUP, and child processes inherit that
		signals = append(signals, syscall.SIGHUP)
	}
	for _, sent := range signals {
		cmd := process(t, "demo", "--records", "500")
		temporary := temporaryOf(cmd)
		var errOut strings.Builder
		cmd.Stderr = &errOut
		said, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if strings.Contains(lines.Text(), "host-1 joins") {
				if made, err := os.ReadDir(temporary); err != nil || len(made) != 1 {
					t.Errorf("the store should be in %s: %v, %v", temporary, made, err)
				}
				if err := cmd.Process.Signal(sent); err != nil {
					t.Fatal(err)
				}
			}
		}
		err = cmd.Wait()
		if cmd.ProcessState.ExitCode() != exitSignal+int(sent.(syscall.Signal)) || !strings.Contains(errOut.String(), "interrupted") {
			t.Errorf("%v: %v, %s", sent, err, errOut.String())
		}
		if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
			t.Errorf("%v: left behind: %v, %v", sent, left, err)
		}
	}
}

// In "changefeed demo | head", the reader closes the pipe early. The demo must end and
// delete its temporary store.
func TestDemoWithAClosedOutputLeavesNothing(t *testing.T) {
	cmd := process(t, "demo", "--records", "500")
	temporary := temporaryOf(cmd)
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "host-1 joins") {
	}
	if err := said.Close(); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitUnread {
		t.Errorf("status %d: %v", code, err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// temporaryOf returns the directory in which a process creates its temporary directories.
func temporaryOf(cmd *exec.Cmd) (dir string) {
	for _, v := range cmd.Env {
		if d, is := strings.CutPrefix(v, "TMPDIR="); is {
			dir = d // the last value of a variable applies
		}
	}
	return dir
}

// number converts a number with commas to an int.
func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// row returns the value in the row name of the last table in the demo's output.
func row(t *testing.T, out, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^  ` + name + ` +(\S+)$`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("there is no row %q in:\n%s", name, out)
	}
	return m[1]
}

// checkStore opens the store in dir, checks its invariants, and calls do with it.
func checkStore(t *testing.T, dir string, do func(db *store.DB)) {
	t.Helper()
	db, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	do(db)
	if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
