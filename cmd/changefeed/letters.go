package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	shown "github.com/changefeed-go/changefeed/cmd/changefeed/internal/letters"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// lettersOptions are the flags of all subcommands of `changefeed letters`.
type lettersOptions struct {
	connect.Flags
	database, letters string
	processor, key    string
	state             string
	filter            shown.Filter
	json              bool
	all, dryRun, yes  bool
	// connection is open while a command works.
	connection *connect.Connection
}

func lettersCommand() *cobra.Command {
	var o lettersOptions
	cmd := &cobra.Command{
		Use:   "letters COMMAND --database NAME",
		Short: "Inspect, redrive and drop dead letters",
		Long: `Letters shows dead letters, hands them to their processor again, and deletes them. They are changes
that a processor's handler could not process, and the later changes of their partition keys, which
wait behind them. A letters container may have the letters of several processors.

If the letters are in another account than the container whose changes they are, --letters-endpoint and
the like name the letters' account, and --endpoint the other one.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	o.Add(flags)
	o.AddLetters(flags)
	flags.StringVar(&o.database, "database", "", "`name` of the letters container's database")
	flags.StringVar(&o.letters, "letters", "letters", "`name` of the letters container")
	cmd.AddCommand(o.list(), o.show(), o.redrive(), o.drop(), o.export())
	return cmd
}

// filters adds the flags that choose letters.
func (o *lettersOptions) filters(flags *pflag.FlagSet) {
	flags.StringVar(&o.processor, "processor", "", "only letters of the processor with this `name`")
	flags.StringVar(&o.filter.Container, "container", "", "only letters of the monitored container with this `name`")
	flags.StringVar(&o.key, "key", "", "only letters of this partition `key`: a text, or a JSON array")
	flags.StringVar(&o.filter.Error, "error", "", "only letters whose error contains this `text`, in upper or lower case")
	flags.StringVar(&o.state, "state", "", "only letters in this `state`: dead, parked or redriving")
	flags.DurationVar(&o.filter.Older, "older", 0, "only letters whose last failure is at least this `time` ago")
	flags.DurationVar(&o.filter.Newer, "newer", 0, "only letters whose last failure is less than this `time` ago")
}

// choose completes the filter from the flags.
func (o *lettersOptions) choose(cmd *cobra.Command) (err error) {
	if cmd.Flags().Changed("processor") {
		o.filter.Processor = &o.processor
	}
	if cmd.Flags().Changed("key") {
		if o.filter.Key, err = shown.ParseKey(o.key); err != nil {
			return &usageError{fmt.Errorf("--key is %q: %w", o.key, err)}
		}
	}
	switch s := letters.State(o.state); s {
	case "", letters.Dead, letters.Parked, letters.Redriving:
		o.filter.State = s
	default:
		return &usageError{fmt.Errorf("--state is %q; it must be dead, parked or redriving", o.state)}
	}
	if o.filter.Older < 0 || o.filter.Newer < 0 {
		return &usageError{errors.New("--older and --newer must not be negative")}
	}
	o.filter.Now = time.Now()
	return nil
}

// with opens the letters of all processors, and calls f.
func (o *lettersOptions) with(cmd *cobra.Command, f func(ctx context.Context, s letters.Store) error) (err error) {
	if err := required("--database", o.database, "--letters", o.letters); err != nil {
		return err
	}
	if err := o.choose(cmd); err != nil {
		return err
	}
	if o.connection, err = o.Open(cmd.ErrOrStderr()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.connection.Close()) }()
	s, err := lettersIn(o.connection.Letters, o.database, o.letters, "--letters and --database").Open(cmd.Context(), letters.Key{})
	if err != nil {
		return err
	}
	return f(cmd.Context(), s)
}

// lettersIn returns the letters container of an account. flags name it in the error that it does
// not exist.
func lettersIn(account *connect.Opened, database, container, flags string) letters.Container {
	return flaggedLetters{account.Letters(database, container, cosmos.LetterOptions{}), database + "/" + container, flags}
}

// flaggedLetters is a letters container whose errors advise flags, and no options of a Go program.
type flaggedLetters struct {
	letters.Container
	name, flags string
}

// Open implements [letters.Container].
func (f flaggedLetters) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	s, err := f.Container.Open(ctx, k)
	if errors.Is(err, feed.ErrNotFound) {
		return nil, fmt.Errorf("the letters container %s does not exist; name it with %s", f.name, f.flags)
	}
	return s, err
}

func (o *lettersOptions) list() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the letters",
		Long: `Ls lists letters by partition key, those of a key in the order of its changes. STATE is one of:

    dead       the handler could not process the change
    parked     the change waits, because an earlier one of its key is a letter
    redriving  the letter is to be handed to the handler again

LAST is when the handler last failed, or when a parked change became a letter.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd, func(ctx context.Context, s letters.Store) error {
				all, err := o.filter.Read(ctx, s)
				if err != nil {
					return err
				}
				if o.json {
					return shown.Lines(cmd.OutOrStdout(), all...)
				}
				return shown.Table(cmd.OutOrStdout(), all)
			})
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON, one letter per line, without the items")
	o.filters(cmd.Flags())
	return cmd
}

func (o *lettersOptions) show() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show LETTER...",
		Short: "Show whole letters: the items, the error and its stack",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, s letters.Store) error {
				for i, id := range args {
					head, err := find(ctx, s, id)
					if err != nil {
						return err
					}
					l, err := s.Get(ctx, head.Group, head.ID)
					switch {
					case err != nil:
					case o.json:
						err = shown.Lines(cmd.OutOrStdout(), l)
					default:
						if i > 0 {
							_, err = fmt.Fprintln(cmd.OutOrStdout())
						}
						err = errors.Join(err, shown.Show(cmd.OutOrStdout(), l))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON, one letter per line")
	return cmd
}

// find returns the letter with an id, without its items.
func find(ctx context.Context, s letters.Store, id string) (letters.Letter, error) {
	for l, err := range s.Read(ctx, letters.Query{ID: id}) {
		return l, err
	}
	return letters.Letter{}, fmt.Errorf("there is no letter %s; `changefeed letters ls` lists the letters", view.OneLine(id))
}

func (o *lettersOptions) export() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "export [--output FILE]",
		Short: "Write whole letters to a file, one JSON object per line",
		Long: `Export writes letters with their items as JSON, one per line, in the order of "ls". docs/letters.md
describes the members. Nothing is deleted.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd, func(ctx context.Context, s letters.Store) (err error) {
				all, err := o.filter.Read(ctx, s)
				if err != nil {
					return err
				}
				out := cmd.OutOrStdout()
				if file != "" {
					// Do not overwrite an existing file, because it may be the only copy of
					// letters that were dropped.
					f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
					if err != nil {
						return err
					}
					if err := errors.Join(exportTo(ctx, s, all, f), f.Close()); err != nil {
						return err
					}
					_, err = fmt.Fprintf(out, "wrote %s to %s\n", view.Plural(len(all), "letter", "letters"), file)
					return err
				}
				return exportTo(ctx, s, all, out)
			})
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "`file` to write; it must not exist (default: standard output)")
	o.filters(cmd.Flags())
	return cmd
}

// exportTo writes the letters, each with its items. One that was dropped meanwhile is left out.
func exportTo(ctx context.Context, s letters.Store, all []letters.Letter, w io.Writer) error {
	for _, head := range all {
		l, err := s.Get(ctx, head.Group, head.ID)
		switch {
		case errors.Is(err, feed.ErrNotFound):
			continue
		case err != nil:
			return err
		}
		if err := shown.Lines(w, l); err != nil {
			return err
		}
	}
	return nil
}
