// Command compare measures the rates at which this module's processor and Java's read the changes
// of one container. Both read over loopback HTTP from the same server, in turns: 4 partitions,
// documents of 1 KB, one host each. Both keep their leases in the same dialect and write a
// checkpoint after each page.
//
//	make compare-java            (go run ./interop/compare)
//
// Both processes stay, and each reads everything once before the measurement, to warm up. A rate
// counts all changes, from the first batch of a handler to the last. The command needs Java 17 and
// Maven, and takes 3 to 5 minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

func main() { os.Exit(harness.Main("compare", run)) }

const (
	partitions = 4
	// keys of the documents: enough to fill the partitions evenly.
	keys = 4000
	// size of a document as it is sent, in bytes.
	size = 1000
	// cache of the server, in MiB: all documents fit into it beside what was just written.
	cache = "768"
	// patience is the longest time that one host may take for all changes.
	patience = 10 * time.Minute
)

// A stage has the server, the containers and a process of each kind.
type stage struct {
	harness.Driver
	out       io.Writer
	documents int
	turns     int
	process   map[string]*harness.Process
	reached   chan []string
}

var monitored, leases = harness.Container{Database: "compare", Name: "monitored"}, harness.Container{Database: "compare", Name: "leases"}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	documents := flags.Int("documents", 150_000, "`number` of documents; these fit into the cache of the server")
	rounds := flags.Int("rounds", 5, "how often each is measured")
	binary := flags.String("binary", "", "the command to run as the server; default: built")
	goHost := flags.String("gohost", "", "our host; default: built")
	only := flags.String("only", "", "java: its host alone; go: ours alone; default: both")
	setting := flags.String("setting", "", "one setting alone: a mode and a page's size, as handleChanges/1000 or handleChanges/0 for the default size")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := &stage{
		Driver: harness.Driver{Binary: *binary, GoHost: *goHost, Flags: []string{"--cache", cache}},
		out:    out, documents: *documents, process: map[string]*harness.Process{}, reached: make(chan []string, 1),
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	if err := s.load(ctx); err != nil {
		return err
	}
	defer func() {
		for _, p := range s.process {
			err = errors.Join(err, p.Quit(ctx))
		}
	}()
	launch := map[string]func() (*harness.Process, error){
		"java": func() (*harness.Process, error) { return s.LaunchJava(ctx, "java", s.line) },
		"go":   func() (*harness.Process, error) { return s.LaunchGo(ctx, "go", s.line) },
		// Decoding makes much garbage, and the heap another one.
		"decoding": func() (*harness.Process, error) { return s.LaunchGo(ctx, "decoding", s.line) },
		// At GOGC=400 the collector runs less often; see docs/where-to-run.md.
		"gogc": func() (*harness.Process, error) { return s.LaunchGo(ctx, "gogc", s.line, "GOGC=400") },
	}
	for name, start := range launch {
		if *only != "" && *only != "java" == (name == "java") {
			continue
		}
		p, err := start()
		if err != nil {
			return err
		}
		s.process[name] = p
	}
	if err := s.measure(ctx, *rounds, *setting); err != nil {
		return err
	}
	for name, p := range s.process {
		mib, err := p.Memory()
		if err != nil {
			return err
		}
		harness.Printf(out, "%s: %d MiB of memory at most\n", name, mib)
	}
	return nil
}

// line takes what a host prints: that it has reached the number of changes.
func (s *stage) line(fields []string) {
	if fields[0] == "reached" {
		s.reached <- fields
	}
}

// load writes the documents.
func (s *stage) load(ctx context.Context) error {
	if err := errors.Join(
		s.Client.CreateDatabase(ctx, monitored.Database),
		s.Client.CreateContainer(ctx, monitored, "/pk", partitions),
		s.Client.CreateContainer(ctx, leases, "/id", 1),
	); err != nil {
		return err
	}
	const writers = 16
	failed := make(chan error, writers)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := w; n < s.documents; n += writers {
				key := "k" + strconv.Itoa(n%keys)
				if err := s.Client.Upsert(ctx, monitored, key, document(n, key)); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	live, err := s.Client.Partitions(ctx, monitored)
	if err != nil {
		return err
	}
	for _, p := range live {
		harness.Printf(s.out, "partition %s: %d documents of %d bytes, and what the service adds\n", p.ID, p.Documents, len(document(0, "k0")))
	}
	return nil
}

// document is an order of about size bytes: members of several kinds, as documents have.
func document(n int, key string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":"i%08d","pk":%q,"n":%d,"customer":{"name":"Customer %d","city":"Rotterdam","vip":%t},"lines":[`, n, key, n, n%997, n%7 == 0)
	for i := 0; b.Len() < size-140; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"sku":"SKU-%06d","quantity":%d,"price":%d.%02d}`, (n*31+i*7)%1_000_000, i%9+1, n%400, i%100)
	}
	fmt.Fprintf(&b, `],"total":%d.50,"state":"shipped","note":%q}`, n%10_000, strings.Repeat("x", max(0, size-b.Len()-50)))
	return b.String()
}
