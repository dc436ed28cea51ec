// Command changefeed serves, reads and operates change feeds. `changefeed demo` moves
// real records to another partition key, live. `changefeed tail` prints the feed of a
// container. `changefeed help` lists the other commands, and docs/command.md describes
// all of them with their flags.
//
// Its exit status is 0 when its work is done, 1 when it failed, and 2 when its flags or
// arguments are wrong. A signal that stops unfinished work ends it with 128 plus the
// signal's number: 130 after SIGINT, 143 after SIGTERM. Commands that run until a signal
// stops them then exit with 0. `changefeed replicate` does so only if its copy has caught
// up in this run. The status is 141 when the reader of its standard output has closed it.
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
	// Ignore SIGPIPE: a write to a socket that its peer has closed must not end the process.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := untilSignal(context.Background())
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs the command with these arguments and returns its exit code. It writes results
// to out and errors to errOut.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	root := rootCommand() //nolint:contextcheck // cobra hands each command the context of ExecuteContextC
	root.SetArgs(tokensLast(root, args))
	root.SetIn(in)
	root.SetOut(&output{Writer: out, unread: end})
	root.SetErr(harmless{errOut})
	cmd, err := root.ExecuteContextC(ctx)
	return exit(ctx, cmd, err)
}

// rootCommand returns the command with all its subcommands.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "changefeed",
		Short: "Serve, read and operate change feeds",
		Long: `Changefeed serves, reads and operates change feeds: of Azure Cosmos DB, and of an embedded
store that speaks its protocol.

Exit status:
    0         the work is done
    1         the command failed
    2         the flags or arguments are wrong
    130, 143  SIGINT or SIGTERM stopped unfinished work
    141       the reader of the output closed it

serve, tail --follow, lag --watch, and replicate without --until-caught-up run until a signal
stops them. Their status is then 0; that of replicate only if the copy caught up in this run.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}")
	root.AddCommand(demoCommand(), emulateCommand(), faultCommand(), lagCommand(), leasesCommand(), lettersCommand(), partitionsCommand(), replicateCommand(), restoreCommand(), serveCommand(), tailCommand(), versionCommand())
	checkBuiltins(root)
	wrapHelp(root)
	return completed(root)
}

// checkBuiltins makes cobra's own commands, such as help, return an error for unknown
// arguments.
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
