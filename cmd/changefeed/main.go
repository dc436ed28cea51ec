// Command changefeed shows and inspects change feeds: `changefeed demo` moves
// real records to another partition key, live, and `changefeed tail` prints the
// feed of a container.
//
// It exits with 0 when its work is done, 1 when it failed, and 2 when it was called wrongly.
// A signal that stops unfinished work ends it with 128 and the signal's number: 130 after
// SIGINT, 143 after SIGTERM. Commands that run until a signal stops them exit with 0 then, but
// `changefeed replicate` only once its copy has caught up in this run. It exits with 141 when its
// standard output has no reader any more.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// A socket that its peer has closed raises SIGPIPE, too, and that must not end the process.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := untilSignal(context.Background())
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes the command and returns its exit code. Results go to out, errors to errOut.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	root := rootCommand() //nolint:contextcheck // cobra hands each command the context of ExecuteContextC
	root.SetArgs(tokensLast(root, args))
	root.SetIn(in)
	root.SetOut(&output{Writer: out, unread: end})
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	return exit(ctx, cmd, err)
}

// rootCommand is the command with all its subcommands.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "changefeed",
		Short: "A change feed processor, and a change feed to run it on",
		Long: `A change feed processor, and a change feed to run it on.

Exit status: 0 the work is done, 1 it failed, 2 the command was called wrongly, 130 or 143
a signal (SIGINT, SIGTERM) stopped unfinished work, 141 nobody reads the output any more.
serve, tail --follow, lag --watch, and replicate without --until-caught-up run until a signal
stops them; their status is 0 then, that of replicate only if the copy had caught up in this run.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}")
	root.AddCommand(demoCommand(), demoHostCommand(), lagCommand(), leasesCommand(), partitionsCommand(), replicateCommand(), serveCommand(), tailCommand(), versionCommand())
	checkBuiltins(root)
	return completed(root)
}

// checkBuiltins makes the commands that cobra adds refuse words that they do not know.
func checkBuiltins(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, builtin := range root.Commands() {
		switch builtin.Name() {
		case "help":
			builtin.Args = func(_ *cobra.Command, args []string) error {
				cmd, rest, err := root.Find(args)
				if err != nil || len(rest) == 0 {
					return err
				}
				return unknownCommand(cmd, rest[0])
			}
		case "completion":
			builtin.Args = noArguments
			builtin.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			for _, shell := range builtin.Commands() {
				shell.Args = noArguments
			}
		}
	}
}
