// Package harness runs `changefeed serve` and processes with hosts of change feed processors, for
// the drivers under interop/. The suites in Go use its client of the admin API, and report their
// scenarios by it.
package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// Main runs a driver until it returns or a signal ends it. It returns the exit status.
func Main(name string, run func(ctx context.Context, args []string, out io.Writer) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// Printf writes to a terminal or a pipe. A reader that has closed it misses the text.
func Printf(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

// Run runs a program to its end, in a directory and with additions to the environment. If
// ctx ends, the program gets SIGTERM, and SIGKILL ten seconds later.
func Run(ctx context.Context, out io.Writer, directory string, environment []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = directory, append(os.Environ(), environment...), out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}

// Prepare runs the run program of a suite's directory to install and compile what the suite
// needs. The error has its output.
func Prepare(ctx context.Context, directory string) error {
	return quiet(ctx, directory, "./run", "prepare")
}

// Build compiles a command of this module. It runs in the repository's root.
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

// A Driver commands processes with hosts, over a server of its own.
type Driver struct {
	// Binary is the command to run as the server, GoHost the program of our hosts. Empty
	// ones are built.
	Binary, GoHost string
	// Flags are further flags of the server.
	Flags []string

	// Server and Client are set by Start.
	Server *Server
	Client *Client

	work string
}

// Start builds the hosts of both sides and starts the server. If it returns nil, Stop must
// be called.
func (d *Driver) Start(ctx context.Context) (err error) {
	if d.work, err = os.MkdirTemp("", "changefeed-interop-"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(d.work))
		}
	}()
	for _, b := range []struct {
		binary *string
		pkg    string
	}{{&d.Binary, "./cmd/changefeed"}, {&d.GoHost, "./interop/gohost"}} {
		if *b.binary != "" {
			continue
		}
		*b.binary = filepath.Join(d.work, filepath.Base(b.pkg))
		if err := Build(ctx, *b.binary, b.pkg); err != nil {
			return err
		}
	}
	if err := Prepare(ctx, javaDirectory); err != nil {
		return err
	}
	d.Server = &Server{Binary: d.Binary, Work: d.work, Key: NewKey(), ReadOnlyKey: NewKey(), Flags: d.Flags}
	if err := d.Server.Start(ctx); err != nil {
		return err
	}
	if d.Client, err = NewClient(d.Server.Endpoint, d.Server.Key); err != nil {
		return errors.Join(err, d.Server.Stop())
	}
	return nil
}

// Stop ends the server and deletes what Start built.
func (d *Driver) Stop() error { return errors.Join(d.Server.Stop(), os.RemoveAll(d.work)) }

// LaunchGo starts a process with hosts of this module's processor (interop/gohost). Further
// environment variables may follow; see [Launch].
func (d *Driver) LaunchGo(ctx context.Context, name string, lines func(fields []string), environment ...string) (*Process, error) {
	return Launch(ctx, name, append(d.account(), environment...), lines, d.GoHost)
}

// javaDirectory holds the program of Java's hosts, from the repository's root.
const javaDirectory = "interop/java"

// LaunchJava starts a process with hosts of Java's processor (interop/java). Options of the
// JVM may follow; see [Launch].
func (d *Driver) LaunchJava(ctx context.Context, name string, lines func(fields []string), jvm ...string) (*Process, error) {
	target := filepath.Join(javaDirectory, "target")
	args := append([]string{
		"-XX:-UsePerfData",
		// The client asks the cloud's metadata service where it runs; nothing is there to answer.
		"-DCOSMOS.DISABLE_IMDS_ACCESS=true",
		"-DCOSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED=true",
	}, jvm...)
	args = append(args, "-cp", filepath.Join(target, "classes")+":"+filepath.Join(target, "lib", "*"), "changefeed.Main", "live")
	return Launch(ctx, name, d.account(), lines, "java", args...)
}

// account is the environment by which a process learns which account to use.
func (d *Driver) account() []string {
	return []string{"CHANGEFEED_ENDPOINT=" + d.Server.Endpoint, "CHANGEFEED_KEY=" + d.Server.Key, "CHANGEFEED_READONLY_KEY=" + d.Server.Key}
}
