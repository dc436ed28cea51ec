package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/admin"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// faultOptions are the flags of `changefeed fault`.
type faultOptions struct {
	account *connect.Account
	// fault is the fault that set and throttle build from their flags.
	fault     admin.Fault
	key, keys string
	// retryAfter is the flag of set, and throttled the same flag of throttle, which has
	// another default.
	delay, retryAfter, throttled time.Duration
	json                         bool
}

func faultCommand() *cobra.Command {
	var o faultOptions
	cmd := &cobra.Command{
		Use:   "fault ls|set|throttle|freeze|thaw|clear",
		Short: "Make requests to a running server fail, for tests",
		Long: `Fault makes requests to a running "changefeed serve" fail as they may fail in Azure: throttled,
unavailable, slow, or with an answer that never arrives. The account is found as by all commands,
for instance by the line that "serve" prints for a shell.

    changefeed fault throttle --database shop --container orders --count 3
    changefeed fault set --operation "create document" --drop --after --count 1
    changefeed fault freeze --database shop --container orders 0
    changefeed fault ls
    changefeed fault clear

Faults and frozen partitions are gone when the server restarts.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	o.account = connect.NewAccount("")
	o.account.Add(cmd.PersistentFlags())
	cmd.AddCommand(o.list(), o.set(), o.throttle(), o.freeze(), o.thaw(), o.clear())
	return cmd
}

// with opens the account, and calls f with its admin API.
func (o *faultOptions) with(cmd *cobra.Command, f func(*admin.Client) error) (err error) {
	account, err := o.account.Open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, account.Close()) }()
	client, err := account.Admin()
	if err != nil {
		return err
	}
	if err = f(client); o.fault.Container == "" {
		return err
	}
	return notFound(cmd.Context(), account, o.fault.Database, o.fault.Container, err)
}

func (o *faultOptions) list() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the faults and the frozen partitions",
		Long: `Ls lists the faults in the order in which requests are compared with them: of several that select
a request, the first one applies. HITS is the number of requests that have failed.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd, func(client *admin.Client) error {
				all, err := client.Faults(cmd.Context())
				if err != nil {
					return err
				}
				if o.json {
					return leases.WriteJSON(cmd.OutOrStdout(), all)
				}
				return printFaults(cmd.OutOrStdout(), all)
			})
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// printFaults prints faults as a table, and below it a line for each frozen range.
func printFaults(w io.Writer, all admin.Faults) error {
	if len(all.Faults)+len(all.Frozen) == 0 {
		_, err := fmt.Fprintln(w, "no request fails on purpose")
		return err
	}
	if len(all.Faults) > 0 {
		rows := [][]string{{"FAULT", "HITS", "REQUESTS", "EFFECT"}}
		for _, f := range all.Faults {
			rows = append(rows, []string{f.ID, fmt.Sprint(f.Hits), faultRequests(f), faultEffect(f)})
		}
		if err := view.Table(w, rows); err != nil {
			return err
		}
	}
	for _, f := range all.Frozen {
		if _, err := fmt.Fprintf(w, "frozen: %s, keys %s\n", view.OneLine(f.Database+"/"+f.Container), view.RangeName(feed.Range{Min: f.Min, Max: f.Max})); err != nil {
			return err
		}
	}
	return nil
}

// faultRequests describes the requests that a fault selects.
func faultRequests(f admin.Fault) string {
	parts := []string{cmp.Or(f.Operation, "all")}
	if f.Database != "" {
		parts[0] += " in " + strings.TrimSuffix(f.Database+"/"+f.Container, "/")
	}
	if f.Partition != "" {
		parts = append(parts, "partition "+f.Partition)
	}
	if f.Min != "" || f.Max != "" {
		parts = append(parts, "keys "+view.RangeName(feed.Range{Min: f.Min, Max: f.Max}))
	}
	if len(f.Key) > 0 {
		parts = append(parts, "key "+string(f.Key))
	}
	if f.Skip > 0 {
		parts = append(parts, fmt.Sprintf("after %d", f.Skip))
	}
	if f.Count > 0 {
		parts = append(parts, view.Plural(f.Count, "time", "times"))
	}
	if f.Probability > 0 && f.Probability < 1 {
		parts = append(parts, fmt.Sprintf("%g %% of them", f.Probability*100))
	}
	return strings.Join(parts, ", ")
}

// faultEffect describes how the requests of a fault fail.
func faultEffect(f admin.Fault) string {
	var parts []string
	if f.DelayMS > 0 {
		parts = append(parts, "wait "+(time.Duration(f.DelayMS)*time.Millisecond).String())
	}
	if f.After {
		parts = append(parts, "carried out")
	}
	if f.Drop {
		parts = append(parts, "no answer")
	}
	if f.Status != 0 {
		status := fmt.Sprint(f.Status)
		if f.SubStatus != 0 {
			status += fmt.Sprintf("/%d", f.SubStatus)
		}
		parts = append(parts, status)
	}
	if f.RetryAfterMS > 0 {
		parts = append(parts, "retry after "+(time.Duration(f.RetryAfterMS)*time.Millisecond).String())
	}
	return strings.Join(parts, ", ")
}

// addSelection adds the flags that select requests.
func (o *faultOptions) addSelection(flags *pflag.FlagSet) {
	flags.StringVar(&o.fault.Operation, "operation", "", "`name` of the operation as in the server's log, for instance \"create document\"")
	o.addContainer(flags)
	flags.StringVar(&o.fault.Partition, "partition", "", "`id` of a physical partition")
	flags.StringVar(&o.keys, "range", "", "`MIN-MAX`: effective partition keys in hexadecimal, for instance -80")
	flags.StringVar(&o.key, "key-value", "", "a partition `key` as a JSON array, for instance [\"ada\"]")
	flags.IntVar(&o.fault.Skip, "skip", 0, "`number` of requests that pass first")
	flags.IntVar(&o.fault.Count, "count", 0, "`number` of requests that fail (default: all, until the fault is cleared)")
	flags.Float64Var(&o.fault.Probability, "probability", 1, "`probability` with which a request fails, above 0")
	flags.Uint64Var(&o.fault.Seed, "seed", 0, "`seed` of the random numbers for --probability")
}

// addContainer adds the flags that name a container.
func (o *faultOptions) addContainer(flags *pflag.FlagSet) {
	flags.StringVar(&o.fault.Database, "database", "", "`name` of the database")
	flags.StringVar(&o.fault.Container, "container", "", "`name` of the container")
}

func (o *faultOptions) set() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set --status CODE|--drop|--delay TIME",
		Short: "Set a fault: which requests fail, and how",
		Long: `Set sets a fault. A fault selects the requests that all given flags select, and without such flags
every request. If several faults select a request, only the one that was set first applies.

docs/admin.md explains what each flag selects.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.fault.Status == 0 && !o.fault.Drop && o.delay == 0 {
				return &usageError{errors.New("the effect is missing: use --status, --drop or --delay")}
			}
			return o.add(cmd)
		},
	}
	flags := cmd.Flags()
	o.addSelection(flags)
	flags.IntVar(&o.fault.Status, "status", 0, "answer with this HTTP `status`, 400 to 599")
	flags.IntVar(&o.fault.SubStatus, "substatus", 0, "`sub-status` of the answer")
	flags.StringVar(&o.fault.Message, "message", "", "`text` of the answer")
	flags.DurationVar(&o.retryAfter, "retry-after", 0, "`time` that the answer tells the client to wait")
	flags.BoolVar(&o.fault.Drop, "drop", false, "close the connection without an answer")
	flags.DurationVar(&o.delay, "delay", 0, "wait for this `time` first; without another effect, the request then succeeds")
	flags.BoolVar(&o.fault.After, "after", false, "carry out the request before it fails")
	return cmd
}

func (o *faultOptions) throttle() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "throttle [--database NAME] [--container NAME]",
		Short: "Set a fault that throttles requests",
		Long: `Throttle sets a fault that answers requests with 429 and sub-status 3200, as Azure does when the
throughput of a container is exhausted. Without flags it throttles every request.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.fault.Status, o.fault.SubStatus = http.StatusTooManyRequests, wire.SubThroughput
			o.retryAfter = o.throttled
			return o.add(cmd)
		},
	}
	o.addSelection(cmd.Flags())
	cmd.Flags().DurationVar(&o.throttled, "retry-after", time.Second, "`time` that the answer tells the client to wait")
	return cmd
}

// check returns an error that names the flag whose value the server would refuse.
func (o *faultOptions) check() error {
	f := o.fault
	switch {
	case f.Operation != "" && !slices.Contains(admin.Operations(), f.Operation):
		return fmt.Errorf("--operation is %q: it must be one of %s", f.Operation, strings.Join(admin.Operations(), ", "))
	case f.Status != 0 && (f.Status < http.StatusBadRequest || f.Status > 599):
		return fmt.Errorf("--status is %d: it must be 400 to 599", f.Status)
	case f.Status != 0 && f.Drop:
		return errors.New("--status and --drop exclude each other: a dropped connection has no status")
	case f.SubStatus < 0:
		return fmt.Errorf("--substatus is %d: it must not be negative", f.SubStatus)
	case f.SubStatus != 0 && f.Status == 0:
		return errors.New("--substatus needs --status")
	case o.retryAfter < 0:
		return fmt.Errorf("--retry-after is %s: it must not be negative", o.retryAfter)
	case o.retryAfter > 0 && f.Status == 0:
		return errors.New("--retry-after needs --status")
	case f.After && f.Status == 0 && !f.Drop:
		return errors.New("--after needs --status or --drop: a delay alone cannot come after the request is carried out")
	case o.delay < 0 || o.delay > time.Hour:
		return fmt.Errorf("--delay is %s: it must be at most 1h", o.delay)
	case f.Skip < 0:
		return fmt.Errorf("--skip is %d: it must not be negative", f.Skip)
	case f.Count < 0:
		return fmt.Errorf("--count is %d: it must not be negative", f.Count)
	case !(f.Probability > 0 && f.Probability <= 1):
		return fmt.Errorf("--probability is %v: it must be above 0 and at most 1", f.Probability)
	case f.Container != "" && f.Database == "":
		return errors.New("--container needs --database")
	case f.Partition != "" && f.Container == "":
		return errors.New("--partition needs --database and --container")
	}
	return nil
}

// add sets the fault that the flags describe, and prints it.
func (o *faultOptions) add(cmd *cobra.Command) error {
	f := o.fault
	if err := o.check(); err != nil {
		return &usageError{err}
	}
	f.DelayMS, f.RetryAfterMS = o.delay.Milliseconds(), o.retryAfter.Milliseconds()
	if o.keys != "" {
		r, err := parseRange(o.keys)
		if err != nil {
			return &usageError{err}
		}
		f.Min, f.Max = r.Min, r.Max
	}
	if o.key != "" {
		if f.Key = json.RawMessage(o.key); !json.Valid(f.Key) {
			return &usageError{fmt.Errorf("--key-value is %q: it must be a JSON array, for instance [\"ada\"]", o.key)}
		}
	}
	return o.with(cmd, func(client *admin.Client) error {
		if err := o.live(cmd.Context(), client); err != nil {
			return err
		}
		set, err := client.SetFault(cmd.Context(), f)
		if err != nil {
			return err
		}
		return printFaults(cmd.OutOrStdout(), admin.Faults{Faults: []admin.Fault{set}})
	})
}

// live returns an error if --partition names no live partition. The server itself accepts a
// fault of a partition that a split will create.
func (o *faultOptions) live(ctx context.Context, client *admin.Client) error {
	if o.fault.Partition == "" {
		return nil
	}
	all, err := client.Partitions(ctx, o.fault.Database, o.fault.Container)
	if err != nil {
		return err
	}
	var ids []string
	for _, p := range all {
		ids = append(ids, p.ID)
	}
	if slices.Contains(ids, o.fault.Partition) {
		return nil
	}
	return fmt.Errorf("--partition is %q: there is no such partition now; the live partitions are %s", o.fault.Partition, strings.Join(ids, ", "))
}

// partition returns a command that calls f for each partition in its arguments, and prints
// what f has done.
func (o *faultOptions) partition(use, short, long string, f func(c *admin.Client, cmd *cobra.Command, id string) (done string, err error)) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: arguments(1, 1000, "partition's id", "0"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := required("--database", o.fault.Database, "--container", o.fault.Container); err != nil {
				return err
			}
			return o.with(cmd, func(client *admin.Client) error {
				for _, id := range args {
					done, err := f(client, cmd, id)
					if err != nil {
						return err
					}
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "partition %s %s\n", id, done); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	o.addContainer(cmd.Flags())
	return cmd
}

func (o *faultOptions) freeze() *cobra.Command {
	return o.partition("freeze --database NAME --container NAME ID...", "Hold the requests of partitions",
		`Freeze holds every request that addresses a key of the partitions, before it has any effect. The
keys stay frozen if the partition is split or merged. "changefeed partitions ls" shows the ids.`,
		func(c *admin.Client, cmd *cobra.Command, id string) (string, error) {
			return "is frozen", c.Freeze(cmd.Context(), o.fault.Database, o.fault.Container, id)
		})
}

func (o *faultOptions) thaw() *cobra.Command {
	return o.partition("thaw --database NAME --container NAME ID...", "Carry out the held requests of partitions",
		`Thaw carries out the requests that "fault freeze" holds, and holds no further ones. "fault clear"
thaws all partitions.`,
		func(c *admin.Client, cmd *cobra.Command, id string) (string, error) {
			all, err := c.Partitions(cmd.Context(), o.fault.Database, o.fault.Container)
			if err != nil {
				return "", err
			}
			done := "was not frozen"
			if slices.ContainsFunc(all, func(p admin.Partition) bool { return p.ID == id && p.Frozen }) {
				done = "is not frozen any more"
			}
			return done, c.Thaw(cmd.Context(), o.fault.Database, o.fault.Container, id)
		})
}

func (o *faultOptions) clear() *cobra.Command {
	return &cobra.Command{
		Use:   "clear [FAULT...]",
		Short: "Clear all faults and thaw all partitions, or clear some faults",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(client *admin.Client) error {
				ctx := cmd.Context()
				if len(args) == 0 {
					if err := errors.Join(client.ClearFaults(ctx), client.ThawAll(ctx)); err != nil {
						return err
					}
					_, err := fmt.Fprintln(cmd.OutOrStdout(), "no request fails on purpose")
					return err
				}
				for _, id := range args {
					if err := client.RemoveFault(ctx, id); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}
