package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/lease"
)

func (o *leasesOptions) convert() *cobra.Command {
	var to, processor, container, database string
	cmd := &cobra.Command{
		Use:   "convert --to DIALECT [--to-processor NAME]",
		Short: "Convert leases to another dialect while no host runs",
		Long: `Convert moves the leases of a processor to another dialect:

    dotnet               this project's default, .NET, Azure Functions, KEDA
    java-handle-changes  Java's handleChanges
    java-latest-version  Java's handleLatestVersionChanges and
                         handleAllVersionsAndDeletesChanges

The leases keep their positions. If a lease cannot be converted, the command names it and writes
nothing. If the command skips a document, it names that one too, and says why. --dry-run prints the
changes in each document.

Stop all hosts first, of the old dialect and of the new one. The command writes the new leases and
their marker, and reads them again. Then it deletes the old leases. The old marker stays. If a
conversion was interrupted, run it again, and it resumes.

dotnet and java-latest-version use the same ids. Between these two, the new leases need another
processor name (Java's lease prefix) or another lease container.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return &usageError{errors.New("--to is missing: dotnet, java-handle-changes or java-latest-version")}
			}
			d, err := lease.ParseDialect(to)
			if err != nil {
				return &usageError{fmt.Errorf("--to: %w", err)}
			}
			o.made = &leases.Made{Dialect: d}
			if cmd.Flags().Changed("to-processor") {
				o.made.Processor = &processor
			}
			return o.with(cmd, func(ctx context.Context, c *opened, s leases.Survey) error {
				target, err := o.target(ctx, c, database, container)
				if err != nil {
					return err
				}
				name := s.Processor
				if cmd.Flags().Changed("to-processor") {
					name = processor
				}
				t, err := target.SurveyOf(ctx, name, d, c.choice.Terms)
				if err != nil {
					return err
				}
				refusal := leases.Conversion{Source: s, Target: t}.Refuse(o.force)
				if refusal != nil && !o.dryRun {
					return refusal
				}
				plan, err := leases.PlanConversion(s, t, target.Name == c.Name)
				if err != nil {
					return err
				}
				names := view.NamesIn(slices.Concat(plan.Notes, plan.Unchanged)...)
				for _, n := range plan.Notes {
					cmd.PrintErrf("changefeed: note: %s\n", view.OneLine(names.In(n)))
				}
				for _, text := range plan.Skipped {
					cmd.PrintErrf("changefeed: %s\n", view.OneLine(text))
				}
				for _, token := range plan.Unchanged {
					cmd.Printf("lease %s exists already\n", view.OneLine(names.In(token)))
				}
				ch := o.change(plan.Plan(o.dryRun), func() error {
					return leases.Convert(ctx, c.Container, target, plan, printDone(cmd.OutOrStdout(), plan.Plan(false)))
				})
				ch.effect, ch.refusal = "it skips no changes: the new leases have the positions of the old ones", refusal
				return ch.carryOut(ctx, cmd)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`dialect` of the new leases")
	cmd.Flags().StringVar(&processor, "to-processor", "", "processor `name` of the new leases (default: the same)")
	cmd.Flags().StringVar(&container, "to-leases", "", "`name` of the new leases' container (default: the same)")
	cmd.Flags().StringVar(&database, "to-lease-database", "", "`name` of the database of the new leases' container (default: the same)")
	return o.asks(cmd, "")
}

// target returns the lease container for the new leases: the named container, or c if no
// flag names one.
func (o *leasesOptions) target(ctx context.Context, c *opened, database, container string) (*leases.Container, error) {
	if database == "" && container == "" {
		return c.Container, nil
	}
	return leases.Open(ctx, c.connection, leases.Names{Database: o.database, Container: o.container},
		leases.Names{Database: cmp.Or(database, o.leaseDatabase, o.database), Container: cmp.Or(container, o.leases)})
}
