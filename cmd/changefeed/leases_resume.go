package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
)

func (o *leasesOptions) resume() *cobra.Command {
	cmd := &cobra.Command{
		Annotations: map[string]string{takesLeases: "yes"},
		Use:         "resume LEASE...|--all",
		Short:       "Resume leases that their handler has stopped",
		Long: `Resume lets leases go on that their handler has stopped, by an error of changefeed.Stop. "changefeed
leases ls" shows which are stopped, since when and why. What had failed is delivered again, so mend the
cause first: the handler, or what it writes to. If the change itself must be skipped, stop the hosts
and move the position, by "changefeed leases reset".

The owner of a lease goes on at its next write of it, within a renew interval (13 s by default). The
command does not wait for that.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *opened, s leases.Survey) error {
				items, err := s.Select(args, o.all)
				if err != nil {
					return &usageError{err}
				}
				if o.all {
					if items = leases.StoppedAmong(items); len(items) == 0 {
						_, err := fmt.Fprintln(cmd.OutOrStdout(), "no lease is stopped")
						return err
					}
				}
				return leases.Resume{DryRun: o.dryRun, Out: cmd.OutOrStdout()}.Run(ctx, c.Container, s, items)
			})
		},
	}
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the changes and make none")
	cmd.Flags().BoolVar(&o.all, "all", false, "resume all stopped leases")
	return cmd
}
