package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// leasesOptions are the flags of all subcommands of `changefeed leases`.
type leasesOptions struct {
	connect.Flags
	database, container   string
	leaseDatabase, leases string
	processor, dialect    string
	expiration            time.Duration
	json, dryRun, yes     bool
	force, all            bool
	// outage prints the failures of a command that watches the leases, every interval. It
	// is nil for all other commands.
	outage   *connect.Outage
	interval time.Duration
	// made describes the leases that a conversion creates. It is nil for all other
	// commands.
	made *leases.Made
}

// maxExpiration is the longest lease expiration interval that a processor accepts.
const maxExpiration = 365 * 24 * time.Hour

func leasesCommand() *cobra.Command {
	var o leasesOptions
	cmd := &cobra.Command{
		Use:   "leases COMMAND --database NAME --container NAME",
		Short: "Inspect, repair and move the leases of a processor",
		Long: `Leases shows and changes the lease documents of a processor: this project's, .NET's or Java's.
It changes a document only if it has not changed since it was read. Leases that a live host owns
are not changed. Stop the hosts first, or use --force, after which changes are delivered again.

Commands that move, delete or overwrite leases print their plan first, and how many transactions
of unread changes it skips. On a terminal they ask before they carry it out. Elsewhere they need
--yes. --dry-run only prints the plan, also while hosts work.

The command finds the processor by its leases. If several processors share the lease container,
use --processor.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	o.which(flags)
	o.addExpiration(flags)
	cmd.AddCommand(o.list(), o.check(), o.release(), o.resume(), o.reset(), o.remove(), o.export(), o.importCommand(), o.convert())
	return cmd
}

// addExpiration adds the flag --expiration. Commands need it to tell live leases from
// expired ones, because lease documents do not contain the interval.
func (o *leasesOptions) addExpiration(flags *pflag.FlagSet) {
	flags.DurationVar(&o.expiration, "expiration", time.Minute, "the hosts' lease expiration `interval`: an owner that has not written its lease for longer is dead")
}

// which adds the flags that name the account, the containers, the processor and the
// dialect.
func (o *leasesOptions) which(flags *pflag.FlagSet) {
	o.Add(flags)
	o.AddLeases(flags)
	flags.StringVar(&o.database, "database", "", "`name` of the monitored container's database")
	flags.StringVar(&o.container, "container", "", "`name` of the monitored container")
	flags.StringVar(&o.leaseDatabase, "lease-database", "", "`name` of the lease container's database (default: the monitored container's)")
	flags.StringVar(&o.leases, "leases", "leases", "`name` of the lease container")
	flags.StringVar(&o.processor, "processor", "", "`name` of the processor; .NET and Java call it lease prefix (default: the only one in the lease container)")
	flags.StringVar(&o.dialect, "dialect", "", "`dialect` of the leases: dotnet, java-handle-changes or java-latest-version (default: the dialect of the existing leases)")
}

// opened is a lease container and the connection to it.
type opened struct {
	*leases.Container
	connection *connect.Connection
	choice     leases.Choice
}

// open connects to the account, and opens the lease container. The caller must close the
// connection.
func (o *leasesOptions) open(cmd *cobra.Command) (*opened, error) {
	if err := required("--database", o.database, "--container", o.container, "--leases", o.leases); err != nil {
		return nil, err
	}
	if o.expiration <= 0 {
		return nil, &usageError{fmt.Errorf("--expiration is %s: it must be the hosts' lease expiration interval, for instance 60s", o.expiration)}
	}
	if o.expiration > maxExpiration {
		return nil, &usageError{fmt.Errorf("--expiration is %s: it must be at most 365 days (%s), as for the hosts", o.expiration, maxExpiration)}
	}
	choice := leases.Choice{Made: o.made, Terms: protocol.Terms{Expiration: o.expiration, Acquire: o.expiration}}
	if cmd.Flags().Changed("processor") {
		choice.Processor = &o.processor // "" is a valid name: Azure Functions' processor has it without a prefix
	}
	if o.dialect != "" {
		d, err := lease.ParseDialect(o.dialect)
		if err != nil {
			return nil, &usageError{fmt.Errorf("--dialect: %w", err)}
		}
		choice.Dialect = &d
	}
	connection, err := o.Open(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	container, err := leases.Open(cmd.Context(), connection, leases.Names{Database: o.database, Container: o.container}, leases.Names{Database: cmp.Or(o.leaseDatabase, o.database), Container: o.leases})
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	return &opened{Container: container, connection: connection, choice: choice}, nil
}

// with opens the lease container, reads the processor's leases, and calls f with both.
func (o *leasesOptions) with(cmd *cobra.Command, f func(ctx context.Context, c *opened, s leases.Survey) error) (err error) {
	var c *opened
	ctx := cmd.Context()
	err = o.outage.WhileThrottled(ctx, o.interval, func() (err error) {
		c, err = o.open(cmd)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.connection.Close()) }()
	var s leases.Survey
	err = o.outage.WhileThrottled(ctx, o.interval, func() (err error) {
		s, err = c.Survey(ctx, c.choice)
		return err
	})
	if err != nil {
		return err
	}
	return f(ctx, c, s)
}

// watches adds the flag --interval of a command that watches the leases.
func (o *leasesOptions) watches(flags *pflag.FlagSet) {
	flags.DurationVar(&o.interval, "interval", 5*time.Second, "`time` between two rounds of --watch")
}

// watched makes the command wait for an account that throttles it or cannot be reached, and
// report that about subject.
func (o *leasesOptions) watched(cmd *cobra.Command, subject string) {
	o.outage = connect.NewOutage(subject, func(line string) { cmd.PrintErrln("changefeed: " + line) })
}

// asks adds the flags of a command that changes leases after it has asked. all is that of
// changes.
func (o *leasesOptions) asks(cmd *cobra.Command, all string) *cobra.Command {
	addYes(cmd, &o.yes)
	return o.changes(cmd, all)
}

// changes adds the flags that all commands which change leases have. all is the help text
// of --all. If it is empty, the command has no such flag.
func (o *leasesOptions) changes(cmd *cobra.Command, all string) *cobra.Command {
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the changes and make none")
	cmd.Flags().BoolVar(&o.force, "force", false, "change leases that a live host owns; the host continues until its next write, and changes are delivered again")
	if all != "" {
		cmd.Flags().BoolVar(&o.all, "all", false, all)
	}
	return cmd
}

// atStart matches the token of a lease whose range begins at the first key, as `ls`
// prints it: -FF. Such a token looks like a flag.
var atStart = regexp.MustCompile(`^-[0-9A-F]+$`)

// tokensLast moves tokens such as -FF after a "--", so that cobra does not parse them as
// flags.
// It changes only the arguments of commands that take leases, and never a flag's value.
func tokensLast(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Annotations[takesLeases] == "" || slices.Contains(args, "--") {
		return args
	}
	var rest, tokens []string
	for i, arg := range args {
		if atStart.MatchString(arg) && !(i > 0 && wantsValue(cmd, args[i-1])) {
			tokens = append(tokens, arg)
		} else {
			rest = append(rest, arg)
		}
	}
	if len(tokens) == 0 {
		return args
	}
	return append(append(rest, "--"), tokens...)
}

// takesLeases is an annotation of cobra commands. A command that has it takes lease
// tokens as arguments.
const takesLeases = "leases"

// wantsValue reports whether arg is a flag whose value is the next argument.
func wantsValue(cmd *cobra.Command, arg string) bool {
	name, long := strings.CutPrefix(arg, "--")
	if !long || strings.Contains(name, "=") {
		return false
	}
	f := cmd.Flag(name)
	return f != nil && f.NoOptDefVal == ""
}
