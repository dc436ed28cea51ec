// Command runner runs the interop suites. For each suite and transport it starts a fresh server,
// runs the suite against it, ends the server by SIGTERM, and prints the outcome of each scenario.
// interop/README.md describes the suites.
//
//	go run ./interop/runner [-suites go,js] [-transports tls,plain] [-v]
//
// It exits with 1 if a scenario failed, if one was neither run nor declared missing, or if a server
// did not end with 0.
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

// A suite is a program in a directory under interop/. Two suites may share one, which gets the
// suite's name by CHANGEFEED_SUITE.
type suite struct {
	directory string
	// tls are flags of its servers over TLS.
	tls []string
}

// Python's SDK checks no certificate of localhost and 127.0.0.1, so its servers are at another
// address of this machine.
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

// printf writes to a terminal or a pipe. A reader that has closed it misses the text.
func printf(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("runner", flag.ContinueOnError)
	names := flags.String("suites", "raw,go,js,python,python-async,java", "which suites, with commas; they run in that order")
	transports := flags.String("transports", "tls,plain", "over what, with commas")
	verbose := flags.Bool("v", false, "show the output of suites that pass, too")
	keep := flags.String("record", "", "a file to keep the results of the suites that pass: interop/results.json")
	support := flags.Bool("support", false, "only write docs/support.md, from interop/results.json")
	timeout := flags.Duration("timeout", 10*time.Minute, "how long a suite may run over one transport")
	if err := flags.Parse(args); err != nil {
		return err
	}
	scenarios, err := readCatalogue(".")
	if err != nil {
		return fmt.Errorf("run it from the repository's root: %w", err)
	}
	if *support {
		return writeSupport(".", scenarios)
	}
	work, err := os.MkdirTemp("", "changefeed-interop-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a directory of the system's own for such things

	binary := filepath.Join(work, "changefeed")
	if err := harness.Build(ctx, binary, "./cmd/changefeed"); err != nil {
		return err
	}
	table := newTable(scenarios)
	for _, name := range strings.Split(*names, ",") {
		suite, known := suites[name]
		if !known {
			return fmt.Errorf("no suite %q; there are raw, go, js, python, python-async and java", name)
		}
		directory := filepath.Join("interop", suite.directory)
		began := time.Now()
		if err := harness.Prepare(ctx, directory); err != nil {
			return err
		}
		printf(out, "%s: prepared in %d s\n", name, int(time.Since(began).Seconds()))
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
			table.add(name, transport, reported, err)
			verdict := "as it should"
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
