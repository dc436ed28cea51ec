package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/lag"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/metrics"
	"github.com/changefeed-go/changefeed/cosmos"
)

// lagOptions are the flags of `changefeed lag`.
type lagOptions struct {
	leasesOptions
	watch    bool
	interval time.Duration
	metrics  string
}

func lagCommand() *cobra.Command {
	var o lagOptions
	cmd := &cobra.Command{
		Use:   "lag --database NAME --container NAME",
		Short: "Show how far a processor is behind, lease by lease",
		Long: `Shows what the hosts of a processor, of this project, of .NET or of Java, have not
checkpointed yet. It reads the leases, and of each lease's feed one change.

LAG is in transactions of the lease's partition, by the formula of the .NET estimator: the
last one, less the oldest unread one, plus one. AGE is for how long the oldest unread change
has been waiting. "?" is what can't be known: the lag of a lease that has no position yet, or
of a partition that was split or merged and whose new leases no host has made. (The .NET
estimator says 1 there; --json has its number beside, as "reference".)

STATE is free, live (its owner wrote the lease within --expiration), or expired (it did not:
any host may take it, and an owner that was killed never comes back to it).

The total counts each partition once, by the largest lag among its leases.

With --watch it goes on until interrupted, and offers the figures to Prometheus with --metrics.
Without, it exits with 1 when a lease could not be read, or the processor has no leases: then
"reference" is 1, with which a scaler starts the first host.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := cmd.Flags()
	o.which(flags)
	o.addExpiration(flags)
	flags.BoolVar(&o.watch, "watch", false, "measure again and again, until interrupted")
	flags.DurationVar(&o.interval, "interval", 5*time.Second, "`time` from one measurement of --watch to the next")
	flags.BoolVar(&o.json, "json", false, "print JSON; with --watch an object a line")
	metrics.Add(flags, &o.metrics)
	return cmd
}

// run finds the processor and shows its lag.
func (o *lagOptions) run(cmd *cobra.Command) (err error) {
	switch {
	case o.interval <= 0:
		return &usageError{fmt.Errorf("--interval is %s: it is a time, as in 5s", o.interval)}
	case o.metrics != "" && !o.watch:
		return &usageError{errors.New("--metrics goes with --watch: nobody could read them of a command that ends")}
	}
	if err := metrics.Check(o.metrics); err != nil {
		return &usageError{err}
	}
	ctx := cmd.Context()
	c, err := o.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.connection.Close()) }()
	s, err := c.Survey(ctx, c.choice)
	if err != nil {
		return err
	}
	provider, stop, err := metrics.Start(ctx, o.metrics, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer stop()
	d := s.Codec.Dialect()
	return lag.Run(ctx, lag.Config{
		Processor:  s.Processor,
		Source:     c.connection.Monitored.Source(o.database, o.container, cosmos.SourceOptions{Dialect: d}),
		Leases:     c.connection.Leases.Leases(cmp.Or(o.leaseDatabase, o.database), o.leases, cosmos.LeaseOptions{Dialect: d}),
		Expiration: o.expiration,
		Watch:      o.watch, Interval: o.interval, JSON: o.json, Terminal: terminal(cmd.OutOrStdout()), Metrics: provider,
		Out: cmd.OutOrStdout(), Log: cmd.ErrOrStderr(),
	})
}
