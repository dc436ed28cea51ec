package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

func (o *leasesOptions) list() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the leases: their ranges, owners and positions",
		Long: `Ls lists the leases of a processor. STATE is one of:

    free     the lease has no owner
    live     its owner has written it within --expiration
    expired  its owner has not, and any host may acquire it

with "stopped" after it if its handler has stopped it; "changefeed leases resume" makes it go on.

POSITION is where reading resumes. LSNs of different partitions cannot be compared. "changefeed lag"
shows how many changes are unread.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.interval <= 0 {
				return &usageError{fmt.Errorf("--interval is %s: it must be positive, for instance 5s", o.interval)}
			}
			if watch {
				o.watched(cmd, "listings")
			}
			return o.with(cmd, func(ctx context.Context, c *opened, s leases.Survey) error {
				if watch {
					return o.watch(ctx, cmd, c, s)
				}
				return o.show(cmd, s)
			})
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON; with --watch, one object per line")
	cmd.Flags().BoolVar(&watch, "watch", false, "list repeatedly, until interrupted")
	o.watches(cmd.Flags())
	return cmd
}

// show prints the leases of a survey once.
func (o *leasesOptions) show(cmd *cobra.Command, s leases.Survey) error {
	if o.json {
		return leases.WriteJSON(cmd.OutOrStdout(), leases.List(s))
	}
	return leases.List(s).Write(cmd.OutOrStdout())
}

// watch prints the leases every interval until ctx ends. A failed read is reported, and
// the next one follows.
func (o *leasesOptions) watch(ctx context.Context, cmd *cobra.Command, c *opened, s leases.Survey) error {
	out := cmd.OutOrStdout()
	choice, processor := c.choice, s.Processor
	choice.Processor = &processor // later lists may have another processor, too
	for err := error(nil); ; s, err = c.Survey(ctx, choice) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			o.outage.Failed("", err)
		default:
			o.outage.Worked("")
			if err := o.showAgain(cmd, s); err != nil {
				return err
			}
			if !o.json && terminalOf(out) == nil {
				if _, err := fmt.Fprintln(out); err != nil {
					return err
				}
			}
		}
		if follow.Sleep(ctx, o.interval) != nil {
			return nil
		}
	}
}

// showAgain prints the leases of a survey for --watch. On a terminal they replace those
// before.
func (o *leasesOptions) showAgain(cmd *cobra.Command, s leases.Survey) error {
	out := cmd.OutOrStdout()
	if o.json {
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		return e.Encode(leases.List(s))
	}
	if t := terminalOf(out); t != nil {
		if _, err := io.WriteString(t, view.ClearScreen); err != nil {
			return err
		}
	}
	list := leases.List(s)
	if _, err := fmt.Fprintln(out, list.Time.Format(time.RFC3339)); err != nil {
		return err
	}
	return list.Write(out)
}

func (o *leasesOptions) release() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Annotations: map[string]string{takesLeases: "yes"},
		Use:         "release LEASE...|--all",
		Short:       "Release leases without redelivery",
		Long: `Release makes leases free. It asks a live host of this project, as another host would. That host
finishes its current batch, checkpoints and releases the lease. The command waits for it. No change
is delivered twice. An expired lease is freed at once. Since no position moves, it asks nothing.

Hosts of .NET and Java do not release leases on request. If a live one owns a lease, the command
fails and names the lease.

A free lease does not stay free. After an acquire interval (17 s by default) any host may acquire
it, including the same one. To keep it free, stop the hosts.

--force frees a live lease without asking its owner. The owner notices at its next write, within a
renew interval. The next owner delivers again the changes that the old one delivers until then.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return &usageError{fmt.Errorf("--timeout is %s: it must be a time to wait, for instance 2m", timeout)}
			}
			return o.with(cmd, func(ctx context.Context, c *opened, s leases.Survey) error {
				items, err := s.Select(args, o.all)
				if err != nil {
					return &usageError{err}
				}
				name, err := os.Hostname()
				if err != nil {
					name = "unknown"
				}
				r := leases.Release{
					Owner:   protocol.NewOwner("changefeed leases release on "+name, rand.Uint32()),
					Timeout: timeout, Force: o.force, DryRun: o.dryRun, Out: cmd.OutOrStdout(),
				}
				return r.Run(ctx, c.Container, s, items)
			})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "`time` to wait while owners finish their batches")
	return o.changes(cmd, "release all leases")
}

func (o *leasesOptions) reset() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Annotations: map[string]string{takesLeases: "yes"},
		Use:         "reset LEASE...|--all --to START",
		Short:       "Move leases to another position",
		Long: `Reset moves leases to another position: beginning, now, a time (2026-11-21T09:30:00Z or 2026-11-21,
UTC), or after:LSN. An earlier position delivers changes again; a later one skips changes. A lease whose
feed ends before after:LSN is an error, also with --force. Hosts of .NET and Java ignore a beginning
or a time in a lease. They start such a lease at the start that they are configured with.

Stop the hosts first: a lease that a live host owns is not changed.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return &usageError{errors.New("--to is missing: beginning, now, a time, or after:LSN")}
			}
			start, err := parseStart(to, time.Now())
			if err != nil {
				return &usageError{fmt.Errorf("--to is %q: %w", to, err)}
			}
			return o.with(cmd, func(ctx context.Context, c *opened, s leases.Survey) error {
				items, err := s.Select(args, o.all)
				if err != nil {
					return &usageError{err}
				}
				plan, err := leases.ResetPlan(s, items, start)
				if err != nil {
					return err
				}
				if err := c.Reachable(ctx, items, start); err != nil {
					return err
				}
				return o.move(ctx, cmd, c, s, "reset", plan)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`start`: beginning, now, a time, or after:LSN")
	return o.asks(cmd, "reset all leases")
}

func (o *leasesOptions) remove() *cobra.Command {
	cmd := &cobra.Command{
		Annotations: map[string]string{takesLeases: "yes"},
		Use:         "delete LEASE...|--all",
		Short:       "Delete leases, or all of them and the marker, to start again",
		Long: `Delete deletes lease documents. --all deletes the marker first and then every lease. The next host
that starts creates them again, at its configured start. Deleting a single lease leaves a hole. Hosts
fill it with a lease that starts when the marker was created (or at the configured start). Changes
since then are delivered again, and if the deleted lease had not read up to there, the changes
between are skipped. The plan says how many. In all versions and deletes mode the new lease starts
at now, and skips what is unread.

Stop the hosts first: a lease that a live host owns is not deleted, because its owner would write it
again.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *opened, s leases.Survey) error {
				plan, err := leases.DeletePlan(s, args, o.all)
				if err != nil {
					return &usageError{err}
				}
				return o.move(ctx, cmd, c, s, "delete", plan)
			})
		},
	}
	return o.asks(cmd, "delete all leases, and the marker")
}

func (o *leasesOptions) export() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "export [--output FILE]",
		Short: "Write the leases of a processor to a file",
		Long: `Export writes the leases of a processor as JSON. Use it as a backup, or to move leases to another
lease container; "import" reads the file. Positions of leases that live hosts own soon become older in
the file than in the container. An import then delivers changes again, and loses none.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd, func(_ context.Context, c *opened, s leases.Survey) (err error) {
				f, err := leases.Export(s, c.Identity)
				if err != nil {
					return err
				}
				if file == "" {
					return leases.WriteJSON(cmd.OutOrStdout(), f)
				}
				// Do not overwrite an existing file, because it may be the only copy of
				// lost leases.
				out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, out.Close()) }()
				if err := leases.WriteJSON(out, f); err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s to %s\n", view.Plural(len(f.Leases), "lease", "leases"), file)
				return err
			})
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "`file` to write; it must not exist (default: standard output)")
	return cmd
}

func (o *leasesOptions) importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Replace the leases by those of an exported file",
		Long: `Import replaces the leases of a processor by those of a file. It creates missing leases, moves
existing ones to the file's position, and deletes leases that the file does not have. Afterwards all
are free. If FILE is -, it reads standard input. --processor gives the leases to another processor.

The file must belong to the same monitored container. A container that was recreated has other
positions. Leases that a live host owns are not changed.`,
		Args: arguments(1, 1, "file", "leases.json"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var text []byte
			if args[0] == "-" {
				text, err = io.ReadAll(cmd.InOrStdin())
			} else {
				text, err = os.ReadFile(args[0])
			}
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("file %s does not exist; name one that `changefeed leases export --output FILE` wrote, or - for standard input", args[0])
			}
			if err != nil {
				return err
			}
			f, err := leases.Parse(text)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			d, err := lease.ParseDialect(f.Dialect)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			c, err := o.open(cmd)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.connection.Close()) }()
			if c.choice.Dialect != nil && *c.choice.Dialect != d {
				return fmt.Errorf("the file is in %s; import it in that dialect, and then use `changefeed leases convert`", d)
			}
			processor := f.Processor
			if c.choice.Processor != nil {
				processor = *c.choice.Processor
			}
			s, err := c.SurveyOf(cmd.Context(), processor, d, c.choice.Terms)
			if err != nil {
				return err
			}
			plan, err := leases.ImportPlan(f, s, c.Identity, o.force)
			if err != nil {
				return err
			}
			return o.move(cmd.Context(), cmd, c, s, "import", plan)
		},
	}
	return o.asks(cmd, "")
}
