package deploy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire/wiretest"
)

// freeAddress returns an address of this machine on which a program may listen.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// build builds a package of the module in a directory, and returns the program's path.
func build(t *testing.T, directory, pkg string) string {
	t.Helper()
	binary := t.TempDir() + "/program"
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", binary, pkg)
	cmd.Dir = directory
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

// serving starts cmd, which is changefeed serve, and stops it by SIGTERM when the test ends,
// as Docker and systemd do. Once the server is ready, it returns what the server has printed
// by name, for instance its endpoint.
func serving(t *testing.T, cmd *exec.Cmd) map[string]string {
	t.Helper()
	cmd.Stderr = os.Stderr
	lines, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ready := make(chan map[string]string, 1)
	go func() {
		printed := map[string]string{}
		s := bufio.NewScanner(lines)
		for s.Scan() {
			name, value, _ := strings.Cut(s.Text(), " ")
			if name == "ready" {
				ready <- printed
				printed = map[string]string{}
			}
			printed[name] = strings.TrimSpace(value)
		}
		close(ready)
	}()
	select {
	case printed, ok := <-ready:
		if !ok {
			t.Fatal("the server ended before it was ready")
		}
		return printed
	case <-ctx.Done():
		t.Fatal("the server was not ready in a minute")
	}
	return nil
}

// client returns a client of a server that has printed banner, with the certificate trusted.
func client(t *testing.T, banner map[string]string, trusted []byte) *wiretest.Client {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(trusted) {
		t.Fatalf("%s is no certificate", trusted)
	}
	c, err := wiretest.New(banner["endpoint"], &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// statusOf returns the status of a GET request, or 0 if nothing answers.
func statusOf(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	_ = a.Body.Close()
	return a.StatusCode
}
