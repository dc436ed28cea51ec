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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/stand"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

const (
	partitions = 4
	// keys of the documents: enough to fill the partitions evenly.
	keys = 4000
	// size of a document as it is sent, in bytes.
	size = 1000
	// cache of the server, in MiB: all documents fit into it beside what was just written.
	cache = "768"
	// patience is how long one host may take for all changes.
	patience = 10 * time.Minute
)

// A stage has the server, the containers and a process of each kind.
type stage struct {
	out       io.Writer
	server    *stand.Server
	client    *stand.Client
	documents int
	turns     int
	process   map[string]*stand.Process
	reached   chan []string
}

var monitored, leases = stand.Container{Database: "compare", Name: "monitored"}, stand.Container{Database: "compare", Name: "leases"}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	documents := flags.Int("documents", 150_000, "how many documents: so many fit into the cache of the server, and take a host a second or so")
	rounds := flags.Int("rounds", 5, "how often each is measured")
	binary := flags.String("binary", "", "the command to run as the server; default: built")
	goHost := flags.String("gohost", "", "our host; default: built")
	only := flags.String("only", "", "java: its host alone; go: ours alone; default: both")
	setting := flags.String("setting", "", "one setting alone: a mode and a page's size, as handleChanges/1000; 0: the default size")
	if err := flags.Parse(args); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "changefeed-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a directory of the system's own for such things
	commands := [][]string{{"interop/java/run", "prepare"}}
	if *goHost == "" {
		*goHost = filepath.Join(work, "gohost")
		commands = append(commands, []string{"go", "build", "-o", *goHost, "./interop/gohost"})
	}
	if *binary == "" {
		*binary = filepath.Join(work, "changefeed")
		commands = append(commands, []string{"go", "build", "-o", *binary, "./cmd/changefeed"})
	}
	for _, command := range commands {
		if text, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s (run it from the repository's root): %w\n%s", strings.Join(command, " "), err, text)
		}
	}
	s := &stage{
		out: out, documents: *documents, process: map[string]*stand.Process{}, reached: make(chan []string, 1),
		server: &stand.Server{Binary: *binary, Work: work, Key: stand.NewKey(), ReadOnlyKey: stand.NewKey(), Flags: []string{"--cache", cache}},
	}
	if err := s.server.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.server.Stop()) }()
	if s.client, err = stand.NewClient(s.server.Endpoint, s.server.Key); err != nil {
		return err
	}
	if err := s.load(ctx); err != nil {
		return err
	}
	defer func() {
		for _, p := range s.process {
			err = errors.Join(err, p.Quit(ctx))
		}
	}()
	launch := map[string]func() (*stand.Process, error){
		"java": func() (*stand.Process, error) {
			return stand.Java(ctx, "java", "interop/java", s.server.Endpoint, s.server.Key, s.line)
		},
		"go": func() (*stand.Process, error) {
			return stand.Launch(ctx, "go", stand.Account(s.server.Endpoint, s.server.Key), s.line, *goHost)
		},
		// Decoding makes much garbage, and the heap another one.
		"decoding": func() (*stand.Process, error) {
			return stand.Launch(ctx, "decoding", stand.Account(s.server.Endpoint, s.server.Key), s.line, *goHost)
		},
		// At GOGC=400 the collector runs less often; see docs/where-to-run.md.
		"gogc": func() (*stand.Process, error) {
			return stand.Launch(ctx, "gogc", append(stand.Account(s.server.Endpoint, s.server.Key), "GOGC=400"), s.line, *goHost)
		},
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
		writef(out, "%s: %d MiB of memory at most\n", name, mib)
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
		s.client.CreateDatabase(ctx, monitored.Database),
		s.client.CreateContainer(ctx, monitored, "/pk", partitions),
		s.client.CreateContainer(ctx, leases, "/id", 1),
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
				if err := s.client.Upsert(ctx, monitored, key, document(n, key)); err != nil {
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
	live, err := s.client.Partitions(ctx, monitored)
	if err != nil {
		return err
	}
	for _, p := range live {
		writef(s.out, "partition %s: %d documents of %d bytes, and what the service adds\n", p.ID, p.Documents, len(document(0, "k0")))
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

// writef prints to a terminal or a pipe; who closed it doesn't read.
func writef(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
