package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A suite is a program in a directory under interop/; two may share one, which is told the suite's name.
type suite struct {
	directory string
	// tls are flags of its servers over TLS.
	tls []string
}

// Python's SDK checks no certificate of localhost and 127.0.0.1, so its servers are at another address of this machine.
var elsewhere = []string{"--listen", "127.0.0.2:0"}

var suites = map[string]suite{
	"raw":          {directory: "go/raw"},
	"go":           {directory: "go/azcosmos"},
	"js":           {directory: "js"},
	"python":       {directory: "python", tls: elsewhere},
	"python-async": {directory: "python", tls: elsewhere},
	"java":         {directory: "java"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("runner", flag.ContinueOnError)
	names := flags.String("suites", "raw,go,js,python,python-async,java", "which suites, with commas; they run in that order")
	transports := flags.String("transports", "tls,plain", "over what, with commas")
	verbose := flags.Bool("v", false, "show the output of suites that pass, too")
	keep := flags.String("record", "", "a file to keep what each suite did in that ends as it should: interop/results.json")
	timeout := flags.Duration("timeout", 10*time.Minute, "how long a suite may run over one transport")
	if err := flags.Parse(args); err != nil {
		return err
	}
	catalogue, err := readCatalogue("interop/scenarios.json")
	if err != nil {
		return fmt.Errorf("run it from the repository's root: %w", err)
	}
	work, err := os.MkdirTemp("", "changefeed-interop-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a directory of the system's own for such things

	binary := filepath.Join(work, "changefeed")
	if err := command(ctx, out, ".", nil, "go", "build", "-o", binary, "./cmd/changefeed"); err != nil {
		return fmt.Errorf("build changefeed: %w", err)
	}
	table := newTable(catalogue)
	for _, name := range strings.Split(*names, ",") {
		suite, known := suites[name]
		if !known {
			return fmt.Errorf("no suite %q; there are raw, go, js, python, python-async and java", name)
		}
		directory := filepath.Join("interop", suite.directory)
		missing, err := readMissing(filepath.Join(directory, "missing.json"))
		if err != nil {
			return err
		}
		began := time.Now()
		if err := prepare(ctx, directory, work, name); err != nil {
			return fmt.Errorf("prepare %s: %w", name, err)
		}
		writef(out, "%s: prepared in %d s\n", name, int(time.Since(began).Seconds()))
		served := map[string]bool{} // operations
		for _, transport := range strings.Split(*transports, ",") {
			one := attempt{
				suite: name, directory: directory, transport: transport, binary: binary,
				work: filepath.Join(work, name+"-"+transport), verbose: *verbose, timeout: *timeout,
				served: served,
			}
			if transport == "tls" {
				one.flags = suite.tls
			}
			began := time.Now()
			reported, err := one.run(ctx, out)
			table.add(name, transport, reported, missing, err)
			verdict := "as it should"
			if err != nil {
				verdict = err.Error()
			}
			writef(out, "%s over %s: %d scenarios in %d s, ended %s\n", name, transport, len(reported), int(time.Since(began).Seconds()), verdict)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		if *keep != "" && table.clean(name) {
			if err := record(*keep, table, name, served); err != nil {
				return err
			}
		}
	}
	return table.print(out)
}

// prepare installs and compiles what a suite needs; its output shows only if that fails.
func prepare(ctx context.Context, directory, work, suite string) error {
	log, err := os.Create(filepath.Join(work, suite+"-prepare.log"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // it is read back by name
	if err := command(ctx, log, directory, nil, "./run", "prepare"); err != nil {
		text, readErr := os.ReadFile(log.Name())
		return errors.Join(fmt.Errorf("%w\n%s", err, text), readErr)
	}
	return nil
}

// command runs a program to its end. A context that ends sends it SIGTERM, and SIGKILL ten seconds later.
func command(ctx context.Context, out io.Writer, directory string, environment []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = directory, append(os.Environ(), environment...), out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}

// writef prints to a terminal or a pipe; who closed it doesn't read.
func writef(out io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(out, format, args...)
}
