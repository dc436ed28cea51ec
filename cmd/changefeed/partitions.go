package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/admin"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
)

// partitionsOptions are the flags of `changefeed partitions`.
type partitionsOptions struct {
	account             *connect.Account
	database, container string
	json                bool
}

func partitionsCommand() *cobra.Command {
	var o partitionsOptions
	cmd := &cobra.Command{
		Use:   "partitions ls|split|merge --database NAME --container NAME",
		Short: "List, split and merge the partitions of a container",
		Long: `Partitions lists, splits and merges the physical partitions of a container. It does so in a running
"changefeed serve", while clients read and write, or in an embedded store (--data) that no other process
has opened.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	o.account = connect.NewAccount("")
	o.account.Add(flags)
	o.account.AddData(flags)
	flags.StringVar(&o.database, "database", "", "`name` of the database")
	flags.StringVar(&o.container, "container", "", "`name` of the container")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	cmd.AddCommand(o.list(), o.split(), o.merge())
	return cmd
}

func (o *partitionsOptions) list() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the partitions and their sizes",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd, func(client *admin.Client) error {
				all, err := client.Partitions(cmd.Context(), o.database, o.container)
				if err != nil {
					return err
				}
				return o.print(cmd.OutOrStdout(), all, true)
			})
		},
	}
}

func (o *partitionsOptions) split() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "split ID",
		Short: "Split a partition in two",
		Args:  arguments(1, 1, "partition's id", "0"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !splitPoint.MatchString(at) {
				return &usageError{fmt.Errorf("--at is %q: it must be an effective partition key in hexadecimal, for instance 1FFFFF", at)}
			}
			return o.with(cmd, func(client *admin.Client) error {
				made, err := client.Split(cmd.Context(), o.database, o.container, args[0], at)
				if err != nil {
					return err
				}
				return o.print(cmd.OutOrStdout(), made, false)
			})
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "effective partition `key` (hex) where the second partition begins (default: the middle)")
	return cmd
}

// splitPoint matches a valid value of --at: hexadecimal digits. The empty value stands
// for the middle.
var splitPoint = regexp.MustCompile(`^[0-9A-Fa-f]*$`)

func (o *partitionsOptions) merge() *cobra.Command {
	return &cobra.Command{
		Use:   "merge ID [NEIGHBOUR]",
		Short: "Merge a partition with a neighbour (default: the next one)",
		Args:  arguments(1, 2, "partition's id", "0"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(client *admin.Client) error {
				with := ""
				if len(args) > 1 {
					with = args[1]
				}
				made, err := client.Merge(cmd.Context(), o.database, o.container, args[0], with)
				if err != nil {
					return err
				}
				return o.print(cmd.OutOrStdout(), made, false)
			})
		},
	}
}

// with checks the flags, opens the account, and calls f with its admin API.
func (o *partitionsOptions) with(cmd *cobra.Command, f func(*admin.Client) error) (err error) {
	if err := required("--database", o.database, "--container", o.container); err != nil {
		return err
	}
	account, err := o.account.Open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, account.Close()) }()
	client, err := account.Admin()
	if err != nil {
		return err
	}
	return notFound(cmd.Context(), account, o.database, o.container, f(client))
}

// notFound returns an error that names the container, if err reports that something does
// not exist and that is the container.
func notFound(ctx context.Context, account *connect.Opened, database, container string, err error) error {
	if _, ok := errors.AsType[*admin.NotFoundError](err); ok { // the container or one of its partitions does not exist
		if _, read := keyPaths(ctx, account, database, container); connect.Missing(read) {
			return read
		}
	}
	return err
}

// print prints partitions as a table or as JSON. counted reports whether their counts are
// known.
func (o *partitionsOptions) print(w io.Writer, all []admin.Partition, counted bool) error {
	switch {
	case o.json && counted:
		return leases.WriteJSON(w, admin.PartitionList{Partitions: all})
	case o.json:
		return leases.WriteJSON(w, barePartitionList{bare(all)})
	}
	columns := []string{"ID", "RANGE", "PARENTS"}
	if counted {
		columns = append(columns, "DOCUMENTS", "BYTES", "LSN", "")
	}
	rows := [][]string{columns}
	for _, p := range all {
		cells := []string{p.ID, view.RangeName(feed.Range{Min: p.Min, Max: p.Max}), cmp.Or(strings.Join(p.Parents, ","), "-")}
		if counted {
			frozen := ""
			if p.Frozen {
				frozen = "frozen"
			}
			cells = append(cells, fmt.Sprint(p.Documents), fmt.Sprint(p.Bytes), fmt.Sprint(p.LSN), frozen)
		}
		rows = append(rows, cells)
	}
	return view.Table(w, rows)
}

// barePartitionList is the JSON form of new partitions.
type barePartitionList struct {
	Partitions []barePartition `json:"partitions"`
}

// barePartition is the JSON form of a partition whose counts are unknown.
type barePartition struct {
	ID      string   `json:"id"`
	Min     string   `json:"min"`
	Max     string   `json:"max"`
	Parents []string `json:"parents"`
}

// bare returns the partitions without counts. The server does not return counts for new
// partitions, and JSON would show them as zero.
func bare(all []admin.Partition) []barePartition {
	out := make([]barePartition, len(all))
	for i, p := range all {
		out[i] = barePartition{p.ID, p.Min, p.Max, p.Parents}
	}
	return out
}
