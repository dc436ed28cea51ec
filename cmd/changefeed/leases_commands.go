package main

import (
	"context"
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
	"github.com/changefeed-go/changefeed/lease"
)

func (o *leasesOptions) list() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the leases: their ranges, owners and positions",
		Long: `Lists the leases of a processor. STATE is free, live (its owner wrote it within
--expiration), or expired (it didn't: any host may take it). POSITION is where
reading goes on; LSNs of two partitions can't be compared. Run "changefeed lag"
for what is still to be read.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd, func(_ context.Context, _ *opened, s leases.Survey) error {
				listing := leases.List(s)
				if o.json {
					warn(cmd.ErrOrStderr(), `the key "token" of leases ls --json is deprecated, and the next release leaves it out; use "lease"`)
					return leases.WriteJSON(cmd.OutOrStdout(), listing)
				}
				return listing.Write(cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *leasesOptions) release() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Annotations: map[string]string{takesLeases: "yes"},
		Use:         "release LEASE...|--all",
		Short:       "Get leases free, in good order",
		Long: `Gets leases free. A live host of this project is asked, as another host would ask: it finishes
the batch in hand, checkpoints, and lets the lease go; release waits for that. Nothing is
delivered twice. A lease that has expired is freed at once.

A host of .NET or Java hands nothing over when it is asked: its live leases are refused by name.

A free lease doesn't stay free: an acquire interval later (17 s by default) any host may take
it, the same one too. To keep it free, stop the hosts.

--force frees a live lease under its owner, which finds out with its next write, within a renew
interval, and delivers until then what the next owner delivers again.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return &usageError{fmt.Errorf("--timeout is %s: it is how long to wait, as in 2m", timeout)}
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
					Owner:   lease.NewOwner("changefeed leases release on "+name, rand.Uint32()),
					Timeout: timeout, Force: o.force, DryRun: o.dryRun, Out: cmd.OutOrStdout(),
				}
				return r.Run(ctx, c.Container, s, items)
			})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "`time` to wait for owners that finish their batches")
	return o.changes(cmd, "release all leases")
}

func (o *leasesOptions) reset() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Annotations: map[string]string{takesLeases: "yes"},
		Use:         "reset LEASE...|--all --to START",
		Short:       "Set leases to another position",
		Long: `Sets leases to another position: beginning, now, a time (2026-11-21T09:30:00Z or
2026-11-21, UTC), or after:LSN. Going back delivers changes again; going forward skips
them. Hosts of .NET and Java don't know a beginning or a time that a lease says: they start such
a lease as they are configured.

A lease on which a host works is refused: stop the hosts first.`,
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
				plan, err := leases.ResetPlan(s, items, start, o.force)
				if err != nil {
					return err
				}
				return o.carryOut(ctx, cmd, c, s, plan)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`start`: beginning, now, a time, or after:LSN")
	return o.changes(cmd, "reset all leases")
}

func (o *leasesOptions) remove() *cobra.Command {
	cmd := &cobra.Command{
		Annotations: map[string]string{takesLeases: "yes"},
		Use:         "delete LEASE...|--all",
		Short:       "Delete leases, or all of them with the marker, to start anew",
		Long: `Deletes lease documents. --all deletes the marker first and then every lease: the next host
that starts makes them anew, at its configured start. One lease alone leaves a hole, which hosts
close from where the marker was made (or the configured start): its changes are delivered
again from there.

A lease on which a host works is refused: its owner would put it back.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *opened, s leases.Survey) error {
				plan, err := leases.DeletePlan(s, args, o.all, o.force)
				var live *leases.LiveError
				if err != nil && !errors.As(err, &live) {
					return &usageError{err}
				}
				if err != nil {
					return err
				}
				return o.carryOut(ctx, cmd, c, s, plan)
			})
		},
	}
	return o.changes(cmd, "delete all leases, and the marker")
}

func (o *leasesOptions) export() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "export [--output FILE]",
		Short: "Write the leases of a processor to a file",
		Long: `Writes the leases of a processor as JSON: a copy to come back to with "import" before
something is tried, or to move them to another lease container. Leases that hosts work on are
older in the file than in the store a moment later; that redelivers, and loses nothing.`,
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
				// A file that is there may be the only copy of what is lost by now.
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
	cmd.Flags().StringVarP(&file, "output", "o", "", "`file` to write, which must not be there (default: the output)")
	return cmd
}

func (o *leasesOptions) importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Make the leases those of a file that export wrote",
		Long: `Makes the leases of a store those of a file: what is missing is created, what is there gets
the file's position, what the file doesn't have is deleted; all are free then. FILE is - for
the input. With --processor the leases become those of another processor.

The file must be of the same monitored container: one that was made anew has other
positions. Leases on which a host works are refused.`,
		Args: arguments(1, 1, "file", "leases.json"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var text []byte
			if args[0] == "-" {
				text, err = io.ReadAll(cmd.InOrStdin())
			} else {
				text, err = os.ReadFile(args[0])
			}
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("there is no file %s; name one that `changefeed leases export --output FILE` wrote, or - for the input", args[0])
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
				return fmt.Errorf("the file is in %s: import it so, and then use `changefeed leases convert`", d)
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
			return o.carryOut(cmd.Context(), cmd, c, s, plan)
		},
	}
	return o.changes(cmd, "")
}
