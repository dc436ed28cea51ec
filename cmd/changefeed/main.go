// Command changefeed shows and inspects change feeds: `changefeed demo` moves
// real records to another partition key, live, and `changefeed tail` prints the
// feed of a container.
//
// It exits with 0 when all went well, 1 when it did not, 2 when it was called
// wrongly, 130 when a signal ended it, and 141 when nobody reads its output.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/store"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
	exitUnread      = 141 // what a shell says of a program that SIGPIPE ended
)

func main() {
	// The first signal ends the work in good order. After it the signals have
	// their usual effect again, so a second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	code := run(endWithReader(ctx), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// endWithReader makes a context that ends when nobody reads the output any more.
// The process isn't killed by that, then and later: it has to tidy up.
func endWithReader(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	go func() { // until the process ends
		<-unread
		cancel()
	}()
	return ctx
}

// run executes the command and returns its exit code. What the command has to
// say goes to out, what went wrong to errOut.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := rootCommand() //nolint:contextcheck // cobra hands each command the context of ExecuteContextC
	root.SetArgs(tokensLast(root, args))
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	return exit(ctx, cmd, err)
}

// rootCommand is the command with all its subcommands.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "changefeed",
		Short:         "A change feed processor, and a change feed to run it on",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(demoCommand(), demoHostCommand(), lagCommand(), leasesCommand(), partitionsCommand(), replicateCommand(), serveCommand(), tailCommand(), versionCommand())
	return completed(root)
}

// exit tells of err, if there is one, and returns the exit code.
func exit(ctx context.Context, cmd *cobra.Command, err error) int {
	var (
		usage   *usageError
		account *connect.UsageError
	)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailed
	case errors.Is(err, syscall.EPIPE):
		return exitUnread
	case errors.As(err, &usage), errors.As(err, &account):
		cmd.PrintErrf("changefeed: %s\nRun '%s --help' for what it takes.\n", connect.Secretless(err.Error()), cmd.CommandPath())
		return exitUsage
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		// A signal ends the work with an error of its own, or with none; what else went wrong while it was tidied up is news.
		if rest := besidesCanceled(err); rest != nil {
			cmd.PrintErrf("changefeed: interrupted, and it didn't end well: %s\n", connect.Secretless(connect.Text(rest)))
			return exitFailed
		}
		cmd.PrintErrln("changefeed: interrupted")
		return exitInterrupted
	}
	advice := connect.Advice(err)
	var locked *store.LockedError
	if errors.As(err, &locked) {
		advice = "; wait for its end, or stop it"
	}
	cmd.PrintErrf("changefeed: %s%s\n", connect.Secretless(connect.Text(err)), advice)
	return exitFailed
}

// besidesCanceled is what of err doesn't come from the end of a context; nil: all of it does.
func besidesCanceled(err error) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return nil
	}
	var rest []error
	for _, e := range joined.Unwrap() {
		rest = append(rest, besidesCanceled(e))
	}
	return errors.Join(rest...)
}

// usageError tells that the command was called wrongly.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

// Unwrap returns the error underneath.
func (e *usageError) Unwrap() error { return e.err }

// errReported tells that the command has said itself what went wrong.
var errReported = errors.New("reported")

// usageArgs makes check's errors usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err}
		}
		return nil
	}
}
