package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/lag"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/metrics"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/letters"
)

// lagOptions are the flags of `changefeed lag`.
type lagOptions struct {
	leasesOptions
	watch                    bool
	metrics                  string
	letterDatabase, letterIn string
}

func lagCommand() *cobra.Command {
	var o lagOptions
	cmd := &cobra.Command{
		Use:   "lag --database NAME --container NAME",
		Short: "Show how far a processor lags, lease by lease",
		Long: `Lag shows the changes that the hosts of a processor have not checkpointed yet. The processor may be
this project's, .NET's or Java's. The command reads the leases, and one change of each lease's feed.

LAG counts transactions of the lease's partition, by the formula of the .NET estimator: the last one
minus the oldest unread one, plus one. AGE is the age of the oldest unread change. "?"
means unknown: the lease has no position yet, or its partition was split or merged and no host has
created the new leases. (The .NET estimator returns 1 for those. --json has its number as
"reference".)

STATE is free, live (the owner has written the lease within --expiration) or expired (it has not, and
any host may acquire the lease).

The total counts each partition once, with the largest lag among its leases.

With --letters, LETTERS counts the letters of each lease's range, and PARKED the keys of which a change
waits behind a letter. Each measurement then reads every letter of the processor, without its item.

With --watch the command measures until it is interrupted. --metrics exports the figures to
Prometheus. Without --watch it exits with 1 if a lease could not be read, or if the processor has no
leases. In the latter case it prints "reference" as 1 with --json, so that a scaler starts the first
host.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := cmd.Flags()
	o.which(flags)
	o.addExpiration(flags)
	o.AddLetters(flags)
	flags.StringVar(&o.letterIn, "letters", "", "`name` of the letters container, to count the letters, too")
	flags.StringVar(&o.letterDatabase, "letters-database", "", "`name` of the letters container's database (default: the monitored container's)")
	flags.BoolVar(&o.watch, "watch", false, "measure repeatedly, until interrupted")
	o.watches(flags)
	flags.BoolVar(&o.json, "json", false, "print JSON; with --watch, one object per line")
	metrics.Add(flags, &o.metrics)
	return cmd
}

// run connects to the account, finds the processor's leases, and shows the lag.
func (o *lagOptions) run(cmd *cobra.Command) error {
	switch {
	case o.interval <= 0:
		return &usageError{fmt.Errorf("--interval is %s: it must be positive, for instance 5s", o.interval)}
	case cmd.Flags().Changed("letters") && o.letterIn == "":
		return required("--letters", "")
	case o.letterDatabase != "" && o.letterIn == "":
		return &usageError{errors.New("--letters-database requires --letters")}
	case o.metrics != "" && !o.watch:
		return &usageError{errors.New("--metrics requires --watch: a command that ends cannot serve metrics")}
	}
	if err := metrics.Check(o.metrics); err != nil {
		return &usageError{err}
	}
	if o.watch {
		o.watched(cmd, "measurements")
	}
	err := o.with(cmd, func(ctx context.Context, c *opened, s leases.Survey) error {
		provider, stop, err := metrics.Start(ctx, o.metrics, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		defer stop()
		d := s.Codec.Dialect()
		var dead letters.Container
		if o.letterIn != "" {
			dead = lettersIn(c.connection.Letters, cmp.Or(o.letterDatabase, o.database), o.letterIn, "--letters and --letters-database")
		}
		return lag.Run(ctx, lag.Config{
			Processor:  s.Processor,
			Source:     c.connection.Monitored.Source(o.database, o.container, cosmos.SourceOptions{Dialect: d}),
			Leases:     c.connection.Leases.Leases(cmp.Or(o.leaseDatabase, o.database), o.leases, cosmos.LeaseOptions{Dialect: d}),
			Letters:    dead,
			Expiration: o.expiration,
			Watch:      o.watch, Interval: o.interval, JSON: o.json, Terminal: terminalOf(cmd.OutOrStdout()), Metrics: provider,
			Out: cmd.OutOrStdout(), Outage: o.outage,
		})
	})
	if choice, is := errors.AsType[*leases.ChoiceError](err); is && choice.None && o.json {
		return errors.Join(lag.Config{Processor: o.processor, Watch: o.watch, JSON: true, Out: cmd.OutOrStdout()}.None(), err)
	}
	return err
}
