// Command mixed runs hosts of this module's processor and of Java's that share leases, in each
// mode of Java's. They balance, take over from each other, are killed (SIGKILL) and replaced. In the
// meantime partitions are split and merged, and writes continue. It exits with 1 if
//
//   - a change was not delivered, or was delivered before an earlier one of its key,
//   - the leases are not balanced in time,
//   - a lease document has members that neither side writes.
//
// It needs Java 17 and Maven.
//
//	go run ./interop/mixed                  the short run: one scene in each dialect (2 to 3 minutes)
//	go run ./interop/mixed -full            every scene in every mode (make interop-java)
//	go run ./interop/mixed -modes latestVersion -scenes rolling
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

func main() { os.Exit(harness.Main("mixed", run)) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("mixed", flag.ContinueOnError)
	full := flags.Bool("full", false, "every scene, not only the short one")
	modes := flags.String("modes", "", "which modes, with commas: handleChanges, latestVersion, allVersions; default: all")
	only := flags.String("scenes", "", "which scenes, with commas; default: the short one, or with -full all others")
	binary := flags.String("binary", "", "the command to run as the server; default: built")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := &stage{out: out, Driver: harness.Driver{Binary: *binary}}
	if err := s.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
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
			harness.Printf(out, "--- %s, %s\n", p.name, mode)
			verdict := "ok"
			if err := s.play(ctx, mode, p.name, "", p.play); err != nil {
				verdict = "FAILED: " + err.Error()
				failed = append(failed, p.name+"/"+mode)
			}
			harness.Printf(out, "--- %s, %s: %.0f s, %s\n", p.name, mode, time.Since(began).Seconds(), verdict)
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
	harness.Printf(out, "%d scenes, all as they should be\n", played)
	return nil
}

// play plays a scene. Its hosts and its writer have ended when it returns.
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
