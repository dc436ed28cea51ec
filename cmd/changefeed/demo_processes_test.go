package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var killedHost = regexp.MustCompile(`host-\d is killed \(SIGKILL, process \d+\)`)

func TestDemoOfProcessesLosesNothingWhenOneIsKilled(t *testing.T) {
	t.Parallel() // the test waits most of the time
	out, err := process(t, "demo", "--processes", "--records", "600").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := string(out)
	if row(t, text, "missing") != "0" || row(t, text, "wrong") != "0" || !strings.Contains(text, "600 documents compared") {
		t.Errorf("the copy isn't whole:\n%s", text)
	}
	if !killedHost.MatchString(text) || strings.Count(text, " is process ") != 3 {
		t.Errorf("of three processes one was to be killed:\n%s", text)
	}
}

// A demo that is killed by SIGKILL cannot stop its host processes. They must end by
// themselves.
func TestNoHostOutlivesADemoThatWasKilled(t *testing.T) {
	t.Parallel()
	cmd := process(t, "demo", "--processes", "--records", "600")
	// All processes write to one pipe as their error output. The pipe ends when the last
	// process has ended.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	cmd.Stderr = write
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	joined := false
	for lines := bufio.NewScanner(said); !joined && lines.Scan(); {
		joined = strings.Contains(lines.Text(), "host-2 joins")
	}
	if err := cmd.Process.Kill(); err != nil || !joined {
		t.Fatalf("kill: %v; the second host joined: %t", err, joined)
	}
	if _, err := io.Copy(io.Discard, read); err != nil {
		t.Error(err)
	}
	var killed *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &killed) || killed.Exited() {
		t.Errorf("the demo was to be killed, but: %v", err)
	}
}

func TestADemoHostAloneNamesTheDemo(t *testing.T) {
	code, _, errOut := command(t, "demo-host")
	if code != exitFailed || !strings.Contains(errOut, "demo --processes") {
		t.Errorf("status %d: %s", code, errOut)
	}
}
