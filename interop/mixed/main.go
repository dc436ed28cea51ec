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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/stand"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mixed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("mixed", flag.ContinueOnError)
	full := flags.Bool("full", false, "every scene, not only the short one")
	modes := flags.String("modes", "", "which modes, with commas: handleChanges, latestVersion, allVersions; default: all")
	only := flags.String("scenes", "", "which scenes, with commas; default: the short one, or with -full all others")
	binary := flags.String("binary", "", "the command to run as the server; default: built")
	if err := flags.Parse(args); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "changefeed-mixed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a directory of the system's own for such things
	s := &stage{out: out, goHost: filepath.Join(work, "gohost")}
	commands := [][]string{{"interop/java/run", "prepare"}, {"go", "build", "-o", s.goHost, "./interop/gohost"}}
	if *binary == "" {
		*binary = filepath.Join(work, "changefeed")
		commands = append(commands, []string{"go", "build", "-o", *binary, "./cmd/changefeed"})
	}
	for _, command := range commands {
		if text, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s (run it from the repository's root): %w\n%s", strings.Join(command, " "), err, text)
		}
	}
	s.server = &stand.Server{Binary: *binary, Work: work, Key: stand.NewKey(), ReadOnlyKey: stand.NewKey()}
	if err := s.server.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.server.Stop()) }()
	if s.client, err = stand.NewClient(s.server.Endpoint, s.server.Key); err != nil {
		return err
	}
	chosen := func(list, name string) bool { return slices.Contains(strings.Split(list, ","), name) }
	var failed []string
	played := 0
	for _, p := range scenes {
		if *only != "" && !chosen(*only, p.name) || *only == "" && p.short == *full {
			continue
		}
		for _, mode := range p.modes {
			if *modes != "" && !chosen(*modes, mode) {
				continue
			}
			played++
			began := time.Now()
			writef(out, "--- %s, %s\n", p.name, mode)
			verdict := "ok"
			if err := s.play(ctx, mode, p.name, "", p.play); err != nil {
				verdict = "FAILED: " + err.Error()
				failed = append(failed, p.name+"/"+mode)
			}
			writef(out, "--- %s, %s: %.0f s, %s\n", p.name, mode, time.Since(began).Seconds(), verdict)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	if played == 0 {
		return fmt.Errorf("no scene is %q in a mode %q", *only, *modes)
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d scenes failed: %s", len(failed), played, strings.Join(failed, ", "))
	}
	writef(out, "%d scenes, all as they should be\n", played)
	return nil
}

// play makes a scene and plays it; whatever happens, its hosts and its writer have ended afterwards.
func (s *stage) play(ctx context.Context, mode, name, database string, play func(context.Context, *scene) error) error {
	c, err := s.newScene(ctx, mode, name, database)
	if err != nil {
		return err
	}
	defer c.end()
	defer c.writer.stop() //nolint:errcheck // judge has looked at it, or something else failed
	err = play(ctx, c)
	if err != nil {
		err = fmt.Errorf("%w\n      %s\n      hosts said: %.3000s", err, c.deliveries.summary(), c.said())
	}
	return err
}

// writef prints to a terminal or a pipe; who closed it doesn't read.
func writef(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
