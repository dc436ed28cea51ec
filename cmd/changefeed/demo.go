package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/demo"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/metrics"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
)

func demoCommand() *cobra.Command {
	var cfg demo.Config
	var address string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Move 20,000 flights to another partition key, live",
		Long: `Demo writes records to a container while hosts copy every change to a second container that
has another partition key. Hosts join, a partition is split, one host crashes without releasing
its leases, and a quarter of the records is updated. At the end the demo compares both containers
document by document. The exit status is 1 if a document is missing or wrong.

Without --input the records are 20,000 flights. They are moved from the key origin to the key
destination. You can use your own records, as a JSON array of objects or as one object per line:

    changefeed demo --input orders.ndjson --id number --key customer \
      --new-key product

With --poison the hosts cannot copy twelve of the records. Each is given up after three attempts and
kept as a letter, and the later changes of its key wait behind it, while all other keys go on. In the
end the hosts are mended, and the letters are redriven in order.

In the demo a record never changes its id or its two keys. The latest version feed does not
report a key's old value, so the old copy of a moved record could not be found.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("records") && cfg.Records < 1 {
				return &usageError{fmt.Errorf("--records is %d: it must be at least 1", cfg.Records)}
			}
			if cmd.Flags().Changed("hosts") && cfg.Hosts < 1 {
				return &usageError{fmt.Errorf("--hosts is %d: it must be at least 1", cfg.Hosts)}
			}
			if err := dataGiven(cmd, cfg.Data); err != nil {
				return err
			}
			if err := metrics.Check(address); err != nil {
				return &usageError{err}
			}
			provider, stop, err := metrics.Start(cmd.Context(), address, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer stop()
			cfg.Metrics = provider
			return runDemo(cmd.Context(), cfg, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Input, "input", "", "`file` of records: a JSON array, or one object per line (default: the flights)")
	flags.IntVar(&cfg.Records, "records", 0, "`number` of records to use (default: all)")
	flags.StringVar(&cfg.ID, "id", "", "`field` that names a record (default: id if the records have it, otherwise the row number)")
	flags.StringVar(&cfg.Key, "key", "", "`field` that is the partition key of the first container (required with --input)")
	flags.StringVar(&cfg.NewKey, "new-key", "", "`field` that is the partition key of the copy (default: the id)")
	flags.IntVar(&cfg.Hosts, "hosts", 3, "`number` of hosts that share the work")
	flags.StringVar(&cfg.Data, "data", "", "`directory` of the store; it is kept (default: a temporary one, removed at the end)")
	flags.BoolVar(&cfg.Poison, "poison", false, "make the hosts fail with some records: these become letters, and are redriven in the end")
	metrics.Add(flags, &address)
	flags.Uint64Var(&cfg.Seed, "seed", 1, "random seed: a `number` that determines the order of events")
	return cmd
}

// runDemo runs the demo and prints its report. It shows the progress live if out is a
// terminal.
func runDemo(ctx context.Context, cfg demo.Config, in io.Reader, out io.Writer) error {
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	endView := func() error { return nil }
	if screen := terminalOf(out); screen != nil && terminal(in) {
		live := view.NewLive(ctx, in, screen, interrupt)
		cfg.View, endView = live, live.Close
	} else {
		cfg.View = view.NewText(out)
	}
	report, err := demo.Run(ctx, cfg)
	if err := errors.Join(err, endView()); err != nil {
		if _, ok := errors.AsType[*demo.ConfigError](err); ok {
			return &usageError{err}
		}
		return err
	}
	if err := report.Write(out); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if !report.OK() {
		return errReported
	}
	return nil
}
