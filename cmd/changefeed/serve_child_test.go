package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire/wiretest"
)

// server is a process of `changefeed serve`, and a client of it.
type server struct {
	*wiretest.Client
	cmd *exec.Cmd
	// log is the error output of the process. It may be read after the process has ended.
	log *strings.Builder
	out chan error
}

// startServe starts `changefeed serve` without TLS on a free port, and waits for "ready".
// connections is the number of connections of its client.
func startServe(t *testing.T, connections int, args ...string) *server {
	t.Helper()
	return startServeAs(t, connections, func(*exec.Cmd) {}, args...)
}

// startServeAs does the same as startServe. It calls change with the command before the
// process starts.
func startServeAs(t *testing.T, connections int, change func(*exec.Cmd), args ...string) *server {
	t.Helper()
	s := &server{log: &strings.Builder{}, out: make(chan error, 1)}
	s.cmd = process(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--tls", "off"}, args...)...)
	change(s.cmd)
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	endpoint := ""
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		if rest, ok := strings.CutPrefix(lines.Text(), "endpoint"); ok {
			endpoint = strings.TrimSpace(rest)
		}
	}
	if endpoint == "" || lines.Text() != "ready" {
		t.Fatalf("the server didn't start: %v; %s", s.cmd.Wait(), s.log)
	}
	go func() {
		_, err := io.Copy(io.Discard, out)
		s.out <- err
	}()
	transport := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}
	t.Cleanup(transport.CloseIdleConnections)
	if s.Client, err = wiretest.New(endpoint, &http.Client{Transport: transport}); err != nil {
		t.Fatal(err)
	}
	return s
}

// kill ends the process with SIGKILL, which no program can catch.
func (s *server) kill(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.out
	err := s.cmd.Wait()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the server ended by itself: %v; %s", err, s.log)
	}
}

// stop shuts down the process by a signal, and waits until it has ended.
func (s *server) stop(t *testing.T) {
	t.Helper()
	s.HTTP.CloseIdleConnections()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-s.out
	if err := s.cmd.Wait(); err != nil {
		t.Fatalf("the server's end: %v; %s", err, s.log)
	}
}

// resident returns the resident memory of the process in bytes. name is VmRSS for the
// current value, or VmHWM for the maximum. It returns 0 if the system does not report it.
func (s *server) resident(t *testing.T, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	return 0
}
