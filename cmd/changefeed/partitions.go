package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/admin"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// partitionsOptions are the flags of `changefeed partitions`.
type partitionsOptions struct {
	admin.Config
	database, container string
	json                bool
}

func partitionsCommand() *cobra.Command {
	var o partitionsOptions
	cmd := &cobra.Command{
		Use:   "partitions ls|split|merge --database NAME --container NAME",
		Short: "List, split and merge the physical partitions of a container of a running server",
		Long: `Asks a running "changefeed serve" for the physical partitions of a container, and
splits and merges them while clients read and write.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.Endpoint, "endpoint", "https://127.0.0.1:8081/", "`URL` of the server")
	flags.StringVar(&o.Key, "key", wire.EmulatorKey, "account `key` in base64")
	flags.StringVar(&o.Certificate, "certificate", "", "`file` of the server's certificate (default: the one that `serve --memory` makes)")
	flags.StringVar(&o.database, "database", "", "`name` of the database")
	flags.StringVar(&o.container, "container", "", "`name` of the container")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	cmd.AddCommand(o.list(), o.split(), o.merge())
	return cmd
}

func (o *partitionsOptions) list() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the partitions, with what is in them",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			all, err := client.Partitions(cmd.Context(), o.database, o.container)
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), all, true)
		},
	}
}

func (o *partitionsOptions) split() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "split ID",
		Short: "Divide a partition in two",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			made, err := client.Split(cmd.Context(), o.database, o.container, args[0], at)
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), made, false)
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "effective partition `key` (hex) where the second one begins (default: the middle)")
	return cmd
}

func (o *partitionsOptions) merge() *cobra.Command {
	return &cobra.Command{
		Use:   "merge ID [NEIGHBOUR]",
		Short: "Join a partition with a neighbour (default: the next one)",
		Args:  usageArgs(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			with := ""
			if len(args) > 1 {
				with = args[1]
			}
			made, err := client.Merge(cmd.Context(), o.database, o.container, args[0], with)
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), made, false)
		},
	}
}

// client checks the flags and makes a client of them.
func (o *partitionsOptions) client() (*admin.Client, error) {
	for _, f := range []struct{ flag, value string }{{"--database", o.database}, {"--container", o.container}} {
		if f.value == "" {
			return nil, &usageError{fmt.Errorf("%s is missing", f.flag)}
		}
	}
	cfg := o.Config
	if cfg.Certificate == "" {
		cfg.Certificate = ownCertificate(cfg.Endpoint)
	}
	client, err := admin.New(cfg)
	if err != nil {
		return nil, &usageError{err}
	}
	return client, nil
}

// ownCertificate is where a server of this user in memory keeps its certificate, for an endpoint on this
// machine; empty: there is none.
func ownCertificate(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" {
		return ""
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return ""
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	name := filepath.Join(cache, "changefeed", "localhost.crt")
	if _, err := os.Stat(name); err != nil {
		return ""
	}
	return name
}

// print prints partitions; counted tells that it is known what is in them.
func (o *partitionsOptions) print(w io.Writer, all []admin.Partition, counted bool) error {
	if o.json {
		text, err := json.MarshalIndent(all, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", text)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	columns := []string{"ID", "FROM", "TO", "PARENTS"}
	if counted {
		columns = append(columns, "DOCUMENTS", "BYTES", "LSN", "")
	}
	lines := []string{strings.Join(columns, "\t")}
	for _, p := range all {
		from, parents, frozen := p.Min, strings.Join(p.Parents, ","), ""
		if from == "" {
			from = "-"
		}
		if parents == "" {
			parents = "-"
		}
		if p.Frozen {
			frozen = "frozen"
		}
		cells := []string{p.ID, from, p.Max, parents}
		if counted {
			cells = append(cells, fmt.Sprint(p.Documents), fmt.Sprint(p.Bytes), fmt.Sprint(p.LSN), frozen)
		}
		lines = append(lines, strings.Join(cells, "\t"))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(t, strings.TrimRight(line, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}
