// Command runner runs the interop suites. For each suite and transport it starts a fresh
// server, runs the suite, stops the server with SIGTERM, and prints the outcome of each
// scenario. interop/README.md describes the suites.
//
//	go run ./interop/runner [-suites go,js] [-transports tls,plain] [-v]
//
// The exit status is 1 if a scenario failed, if a scenario was neither run nor declared
// missing, or if a server's exit status was not 0.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

// suite is a program in a directory under interop/ that runs scenarios. If two suites
// share a directory, the environment variable CHANGEFEED_SUITE selects one.
type suite struct {
	directory string
	// tls contains additional flags for the suite's servers over TLS.
	tls []string
}

// elsewhere makes a server listen on another address of this machine. Python's SDK does
// not check the certificates of localhost and 127.0.0.1.
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
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

// printf prints to a terminal or a pipe. It ignores errors, because the reader may have
// closed the pipe.
func printf(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("runner", flag.ContinueOnError)
	names := flags.String("suites", "raw,go,js,python,python-async,java", "suites to run, in this order, separated by commas")
	transports := flags.String("transports", "tls,plain", "transports, separated by commas")
	verbose := flags.Bool("v", false, "also print the output of suites that pass")
	keep := flags.String("record", "", "file for the results of the suites that pass: interop/results.json")
	support := flags.Bool("support", false, "only write docs/support.md from interop/results.json")
	timeout := flags.Duration("timeout", 10*time.Minute, "time limit of a suite over one transport")
	if err := flags.Parse(args); err != nil {
		return err
	}
	scenarios, err := readCatalogue(".")
	if err != nil {
		return fmt.Errorf("%w; run the command in the repository's root", err)
	}
	if *support {
		return writeSupport(".", scenarios)
	}
	work, err := os.MkdirTemp("", "changefeed-interop-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is in the system's temporary directory

	binary := filepath.Join(work, "changefeed")
	if err := harness.Build(ctx, binary, "./cmd/changefeed"); err != nil {
		return err
	}
	table := newTable(scenarios)
	for _, name := range strings.Split(*names, ",") {
		suite, known := suites[name]
		if !known {
			return fmt.Errorf("suite %q does not exist; use raw, go, js, python, python-async or java", name)
		}
		directory := filepath.Join("interop", suite.directory)
		began := time.Now()
		if err := harness.Prepare(ctx, directory); err != nil {
			return err
		}
		printf(out, "%s: prepared in %d s\n", name, int(time.Since(began).Seconds()))
		served := map[string]bool{} // names of the operations that the server carried out
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
			table.add(name, transport, reported, err)
			verdict := "without error"
			if err != nil {
				verdict = err.Error()
			}
			printf(out, "%s over %s: %d scenarios in %d s, ended %s\n", name, transport, len(reported), int(time.Since(began).Seconds()), verdict)
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
