//go:build unix

package main

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
)

// fewFiles makes a command's process run with a limit on its number of open files.
func fewFiles(cmd *exec.Cmd, files int) {
	cmd.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

// TestIdleConnectionsLeaveFileDescriptorsToTheStore checks that idle connections cannot
// use up the descriptors of the store. A store that gets no descriptor for its log ends
// its process.
func TestIdleConnectionsLeaveFileDescriptorsToTheStore(t *testing.T) {
	s := startServeAs(t, 1, func(cmd *exec.Cmd) { fewFiles(cmd, 64) }, "--data", t.TempDir(), "--cache", "4", "--metrics", "127.0.0.1:0")
	container, err := s.Make(t.Context(), "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(s.Endpoint, "http://")
	idle := make([]net.Conn, 200)
	for n := range idle {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		idle[n] = c
		// The client's connection must stay open: once a few others have been idle for
		// longer, the server doesn't close this one.
		if err := s.Put(t.Context(), container, "p", `{"id":"small","pk":"p"}`); err != nil {
			t.Fatalf("write beside %d idle connections: %v", n+1, err)
		}
	}
	text := strings.Repeat("x", 500<<10)
	for n := range 16 { // the writes fill several memtables, so the store writes and opens files
		if err := s.Put(t.Context(), container, "p", fmt.Sprintf(`{"id":"%d","pk":"p","text":%q}`, n, text)); err != nil {
			t.Fatalf("write %d: %v", n, err)
		}
	}
	for _, c := range idle { // otherwise the server would wait for these connections when it ends
		_ = c.Close()
	}
	s.stop(t)
}

func TestServeRefusesTooFewFileDescriptors(t *testing.T) {
	cmd := process(t, "serve", "--listen", "127.0.0.1:0", "--tls", "off", "--memory")
	fewFiles(cmd, 63)
	cmd.Env = append(cmd.Env, "GOTRACEBACK=none")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "cannot serve with 63 open files; raise the limit to at least 64") {
		t.Errorf("%v: %s", err, out)
	}
}
