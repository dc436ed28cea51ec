// Package harness supports the tests under interop/. It runs `changefeed serve`, and
// processes that run hosts of change feed processors. The suites in Go use its client of
// the admin API, and report their outcomes with it.
package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Run runs a program to its end, in a directory and with additions to the environment. If
// ctx ends, the program receives SIGTERM, and SIGKILL ten seconds later.
func Run(ctx context.Context, out io.Writer, directory string, environment []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = directory, append(os.Environ(), environment...), out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}

// Prepare runs the script `run prepare` in a suite's directory. That installs and compiles the
// suite's dependencies. An error contains the output.
func Prepare(ctx context.Context, directory string) error {
	return quiet(ctx, directory, "./run", "prepare")
}

// Build compiles a command of this module. The working directory must be the repository's
// root.
func Build(ctx context.Context, binary, pkg string) error {
	return quiet(ctx, ".", "go", "build", "-o", binary, pkg)
}

func quiet(ctx context.Context, directory, name string, args ...string) error {
	var log bytes.Buffer
	if err := Run(ctx, &log, directory, nil, name, args...); err != nil {
		return fmt.Errorf("%s %s in %s: %w\n%s", name, args, directory, err, log.Bytes())
	}
	return nil
}

// Driver runs a server for a test, and starts processes that run hosts.
type Driver struct {
	// Binary is the path of the changefeed command, and GoHost that of the program of our
	// hosts. Both are relative to the repository's root. If one is empty, it is built.
	Binary, GoHost string
	// Flags are additional flags of the server.
	Flags []string

	// Server and Client are set by Start.
	Server *Server
	Client *Client
}

// Start builds the hosts of both sides and starts the server. The server stops when the
// test ends. The working directory becomes the repository's root.
func (d *Driver) Start(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
	work := t.TempDir()
	for _, b := range []struct {
		binary *string
		pkg    string
	}{{&d.Binary, "./cmd/changefeed"}, {&d.GoHost, "./interop/gohost"}} {
		if *b.binary == "" {
			*b.binary = filepath.Join(work, filepath.Base(b.pkg))
			check(t, Build(t.Context(), *b.binary, b.pkg))
		}
	}
	check(t, Prepare(t.Context(), javaDirectory))
	d.Server = &Server{Binary: d.Binary, Work: work, Key: NewKey(), ReadOnlyKey: NewKey(), Flags: d.Flags}
	check(t, d.Server.Start(t.Context()))
	t.Cleanup(func() {
		if err := d.Server.Stop(); err != nil {
			t.Error(err)
		}
	})
	var err error
	d.Client, err = NewClient(d.Server.Endpoint, d.Server.Key)
	check(t, err)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// LaunchGo starts a process with hosts of this module's processor (interop/gohost).
// environment contains additional variables. The process is killed when the test ends;
// see [Launch].
func (d *Driver) LaunchGo(t *testing.T, name string, lines func(fields []string), environment ...string) *Process {
	t.Helper()
	return d.launch(t, name, environment, lines, d.GoHost)
}

// javaDirectory is the directory of the program of Java's hosts, from the repository's
// root.
const javaDirectory = "interop/java"

// LaunchJava starts a process with hosts of Java's processor (interop/java). jvm contains
// options of the JVM. The process is killed when the test ends; see [Launch].
func (d *Driver) LaunchJava(t *testing.T, name string, lines func(fields []string), jvm ...string) *Process {
	t.Helper()
	target := filepath.Join(javaDirectory, "target")
	args := append([]string{
		"-XX:-UsePerfData",
		// Without this option, the client sends a request to the cloud's metadata
		// service, which does not answer here.
		"-DCOSMOS.DISABLE_IMDS_ACCESS=true",
		"-DCOSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED=true",
	}, jvm...)
	args = append(args, "-cp", filepath.Join(target, "classes")+":"+filepath.Join(target, "lib", "*"), "changefeed.Main", "live")
	return d.launch(t, name, nil, lines, "java", args...)
}

func (d *Driver) launch(t *testing.T, name string, environment []string, lines func([]string), command string, args ...string) *Process {
	t.Helper()
	environment = append(environment,
		"CHANGEFEED_ENDPOINT="+d.Server.Endpoint, "CHANGEFEED_KEY="+d.Server.Key, "CHANGEFEED_READONLY_KEY="+d.Server.ReadOnlyKey)
	p, err := Launch(t.Context(), name, environment, lines, command, args...)
	check(t, err)
	t.Cleanup(p.Kill)
	return p
}
