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

	"github.com/changefeed-go/changefeed/interop/internal/stand"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// A stage is what all scenes share: one server, and the proxy in front of it.
type stage struct {
	out    io.Writer
	server *stand.Server
	client *stand.Client
	proxy  *proxy
	into   string
	scenes int
}

// The scenes, by the names of the directories they write to.
var plays = []struct {
	name string
	play func(ctx context.Context, s *stage) error
}{
	{"handleChanges", func(ctx context.Context, s *stage) error { return s.life(ctx, "handleChanges") }},
	{"latestVersion", func(ctx context.Context, s *stage) error { return s.life(ctx, "latestVersion") }},
	{"allVersions", func(ctx context.Context, s *stage) error { return s.life(ctx, "allVersions") }},
	{"starts", func(ctx context.Context, s *stage) error { return s.starts(ctx) }},
	{"upgrade", func(ctx context.Context, s *stage) error { return s.upgrade(ctx) }},
	{"names", func(ctx context.Context, s *stage) error { return s.names(ctx) }},
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	into := flags.String("into", "lease/testdata/java", "the directory of the golden files")
	only := flags.String("only", "", "one scene: handleChanges, latestVersion, allVersions, starts, upgrade, names")
	binary := flags.String("binary", "", "the command to run as the server; default: built")
	if err := flags.Parse(args); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "changefeed-record-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a directory of the system's own for such things
	commands := [][]string{{"interop/java/run", "prepare"}}
	if *binary == "" {
		*binary = filepath.Join(work, "changefeed")
		commands = append(commands, []string{"go", "build", "-o", *binary, "./cmd/changefeed"})
	}
	for _, command := range commands {
		if text, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s (run it from the repository's root): %w\n%s", strings.Join(command, " "), err, text)
		}
	}
	s := &stage{out: out, into: *into, server: &stand.Server{Binary: *binary, Work: work, Key: stand.NewKey(), ReadOnlyKey: stand.NewKey()}}
	if err := s.server.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.server.Stop()) }()
	if s.client, err = stand.NewClient(s.server.Endpoint, s.server.Key); err != nil {
		return err
	}
	if s.proxy, err = newProxy(ctx, s.server.Endpoint); err != nil {
		return err
	}
	defer s.proxy.close()
	for _, p := range plays {
		if *only != "" && *only != p.name {
			continue
		}
		writef(out, "--- %s\n", p.name)
		if err := p.play(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// scene makes containers for a new scene: a monitored one of so many partitions, and a lease container.
func (s *stage) scene(ctx context.Context, directory, database string, partitions int) (*scene, error) {
	s.scenes++
	c := &scene{stage: s, directory: filepath.Join(s.into, directory), database: database, monitored: "orders", leases: "leases", patience: patience}
	if database == "" {
		c.database = fmt.Sprintf("shop%d", s.scenes)
	}
	c.next()
	return c, errors.Join(
		s.client.CreateDatabase(ctx, c.database),
		s.client.CreateContainer(ctx, stand.Container{Database: c.database, Name: c.monitored}, "/pk", partitions),
		s.client.CreateContainer(ctx, stand.Container{Database: c.database, Name: c.leases}, "/id", 1),
	)
}

// put writes so many documents, of as many keys.
func (c *scene) put(ctx context.Context, prefix string, count int) error {
	for i := range count {
		key := fmt.Sprintf("%s%d", prefix, i)
		document := fmt.Sprintf(`{"id":%q,"pk":%q,"n":%d}`, key, key, i)
		if err := c.stage.client.Upsert(ctx, stand.Container{Database: c.database, Name: c.monitored}, key, document); err != nil {
			return err
		}
	}
	return nil
}

// java starts a process for hosts, by the proxy or by another endpoint.
func (s *stage) java(ctx context.Context, endpoint string) (*stand.Process, error) {
	if endpoint == "" {
		endpoint = s.proxy.endpoint
	}
	return stand.Java(ctx, "java", "interop/java", endpoint, s.server.Key, func([]string) {}, stand.SmallJava()...)
}

// start is the command that starts a host.
func (c *scene) start(host, mode, from string) string {
	return fmt.Sprintf("start %s mode=%s database=%s monitored=%s leases=%s prefix=projector from=%s renew=1500 acquire=1000 expire=6000 poll=200 items=10",
		host, mode, c.database, c.monitored, c.leases, from)
}
