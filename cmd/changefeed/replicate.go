package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/metrics"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/replicate"
	"github.com/changefeed-go/changefeed/feed"
)

// replicateOptions are the flags of `changefeed replicate`.
type replicateOptions struct {
	replicate.Config
	flags                 *pflag.FlagSet
	from, to              string
	data                  string
	source, target, lease *connect.Account
	// environment is the account of the variables without a prefix.
	environment              *connect.Account
	key, mode                string
	leaseDatabase, leaseName string
	metrics                  string
}

// replicateMemory is the soft memory limit of the process, in bytes. It is enough for all
// batches in flight, and keeps the process far below 300 MB.
const replicateMemory = 192 << 20

func replicateCommand() *cobra.Command {
	var o replicateOptions
	cmd := &cobra.Command{
		Use:   "replicate --from CONTAINER --to CONTAINER",
		Short: "Copy a container, and keep the copy up to date",
		Long: `Replicate copies every document of a container into another one, and then every change. It runs
until it is interrupted or, with --until-caught-up, until the copy has caught up. When you run it
again, it resumes where it ended. Several processes, on one machine or many, share the work
through leases.

The target may have another partition key. When a document's new key changes, the document is
moved: replicate finds the old copy by its id and deletes it. --no-moves skips that lookup. If two
documents have the same id and the same new key, the run ends and its error names them. It also
ends at a document that the target refuses. With --set-aside FILE it appends such documents to the
file, one JSON object a line with id, key and reason, and goes on. Its status is then 1.

    changefeed replicate --from https://a.documents.azure.com/shop/orders \
      --to https://b.documents.azure.com/shop/by-product --key /product --create

--create creates the target with the source's time to live, indexing and throughput. On a
changefeed server it also gets as many partitions as the source. Like its source, it may have no
partition key; with --key it has one. An existing target is not changed.

After a signal the status is 0 if the copy has caught up at least once in this run. Otherwise it is
130 (SIGINT) or 143 (SIGTERM). Replicate waits for an account that cannot be reached, from the first
request on. It says so when that begins, once a minute, and when it ends.

Deletes are copied only with --mode avad, from a container that retains all versions. Replicate
first copies the existing documents, and then every later version and delete.

Each side has its own credentials: --from-key-file, --from-connection-string, COSMOS_FROM_KEY and
so on, and the same with "to". A side without a URL uses the account of COSMOS_ENDPOINT, or the
embedded store of --data. A side with the URL of that account uses its credentials, too, unless it
has its own. Without credentials, Microsoft Entra ID is used. System properties are not
copied. A document's "ttl" starts again when it is copied. Nor is the order kept in which documents
were first written, by which reads and queries without ORDER BY return them: the target has the order
in which replicate has written them. Members keep their order and their
values, but the target stores them in its own form: Azure and changefeed remove white space and
write 1.0 as 1 and 12.50 as 12.5.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := o.run(cmd)
			if _, ok := errors.AsType[*replicate.ConfigError](err); ok {
				return &usageError{err}
			}
			return err
		},
	}
	flags := cmd.Flags()
	o.flags = flags
	o.source, o.target, o.lease = connect.NewAccount("from-"), connect.NewAccount("to-"), connect.NewAccount("lease-")
	o.environment = connect.NewAccount("")
	for _, a := range []*connect.Account{o.source, o.target, o.lease} {
		a.Like(o.environment)
	}
	flags.StringVar(&o.from, "from", "", "`container` to copy: [URL/]DATABASE/CONTAINER")
	flags.StringVar(&o.to, "to", "", "`container` to copy into: [URL/]DATABASE/CONTAINER")
	flags.StringVar(&o.data, "data", "", "`directory` of an embedded store that has both containers")
	o.source.Add(flags)
	o.source.AddData(flags)
	o.target.Add(flags)
	o.target.AddData(flags)
	o.lease.Add(flags)
	flags.StringVar(&o.leaseName, "leases", "leases", "`name` of the lease container")
	flags.StringVar(&o.leaseDatabase, "lease-database", "", "`name` of the lease container's database (default: the target's database; the account is the target's, too, unless --lease-endpoint names another)")
	flags.StringVar(&o.key, "key", "", "partition key `path` of the target, or several separated by commas (default: the existing target's, or the source's for a new target)")
	flags.StringVar(&o.mode, "mode", modeLatest, modeHelp)
	flags.BoolVar(&o.NoMoves, "no-moves", false, "do not look up old copies by id: when a document's new key changes, its old copy stays")
	flags.BoolVar(&o.Create, "create", false, "create the target, like the source, and the lease container if they do not exist")
	flags.IntVar(&o.Throughput, "throughput", 0, "throughput in `RU/s` of a target that is created, or -1 for no throughput of its own (default: the source's)")
	flags.BoolVar(&o.UntilCaughtUp, "until-caught-up", false, "end when every change older than a few seconds is copied")
	flags.StringVar(&o.SetAside, "set-aside", "", "append documents that the target refuses to this `file`, and go on (default: end at the first one)")
	flags.StringVar(&o.Processor, "processor", "", "`name` of the replication: processes of one name share the work (default: made from the target's database and container)")
	flags.IntVar(&o.Hosts, "hosts", 1, "`number` of hosts that this process runs")
	flags.DurationVar(&o.Expiration, "expiration", time.Minute, "lease expiration `interval`: how long the other processes wait before they take over from one that was killed; use the same in all processes")
	metrics.Add(flags, &o.metrics)
	return cmd
}

// run checks the flags, opens the accounts and copies.
func (o *replicateOptions) run(cmd *cobra.Command) (err error) {
	if err := o.check(cmd); err != nil {
		return &usageError{err}
	}
	ctx := cmd.Context()
	var open []*connect.Opened
	defer func() {
		for _, account := range open {
			err = errors.Join(err, account.Close())
		}
	}()
	account := func(a *connect.Account, urlAndNames string) (side replicate.Container, err error) {
		side, a, s, err := o.side(a, urlAndNames, cmd.ErrOrStderr())
		if err != nil {
			return side, err
		}
		for _, known := range open { // both sides may use one embedded store
			if known.Settings == s {
				side.Account = known
				return side, nil
			}
		}
		if side.Account, err = a.OpenSettings(s); err != nil {
			return side, err
		}
		open = append(open, side.Account)
		return side, nil
	}
	if o.From, err = account(o.source, o.from); err != nil {
		return err
	}
	if o.To, err = account(o.target, o.to); err != nil {
		return err
	}
	o.Leases = replicate.Container{Account: o.To.Account, Database: o.To.Database, Container: o.leaseName}
	if o.lease.Given() && (o.data == "" || o.flags.Changed("lease-endpoint") || o.flags.Changed("lease-connection-string")) {
		if o.Leases.Account, err = o.lease.Open(cmd.ErrOrStderr()); err != nil {
			return err
		}
		open = append(open, o.Leases.Account)
	} else if err := o.lease.CheckUnnamed(o.data == ""); err != nil {
		return err
	}
	if o.leaseDatabase != "" {
		o.Leases.Database = o.leaseDatabase
	}
	var stop func()
	if o.Metrics, stop, err = metrics.Start(ctx, o.metrics, cmd.ErrOrStderr()); err != nil {
		return err
	}
	defer stop()
	o.Out = cmd.OutOrStdout()
	return o.copy(ctx)
}

// copy runs the replication. It sets a soft memory limit, unless GOMEMLIMIT is set.
func (o *replicateOptions) copy(ctx context.Context) error {
	if os.Getenv("GOMEMLIMIT") == "" {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(replicateMemory))
	}
	return replicate.Run(ctx, o.Config)
}

// check returns an error if a flag is invalid. It checks everything that needs no
// account.
func (o *replicateOptions) check(cmd *cobra.Command) error {
	if err := dataGiven(cmd, o.data); err != nil {
		return err
	}
	mode, err := parseMode(o.mode)
	if err != nil {
		return err
	}
	o.Versions = mode == feed.AllVersionsAndDeletes
	if o.key != "" {
		o.Key = strings.Split(o.key, ",")
		for _, path := range o.Key {
			if !strings.HasPrefix(path, "/") || len(path) < 2 {
				return fmt.Errorf("--key is %q: a path must have the form /name", o.key)
			}
		}
	}
	if err := metrics.Check(o.metrics); err != nil {
		return err
	}
	if o.Throughput < -1 || o.Throughput > maxThroughput {
		return fmt.Errorf("--throughput is %d: it must be at most %d, or -1 for none", o.Throughput, maxThroughput)
	}
	if o.Hosts < 1 {
		return fmt.Errorf("--hosts is %d: it must be at least 1", o.Hosts)
	}
	if o.Expiration < minExpiration {
		return fmt.Errorf("--expiration is %s: it must be at least %s", o.Expiration, minExpiration)
	}
	return nil
}

// maxThroughput is the highest throughput, in RU/s, that the service provides without a
// support request.
const maxThroughput = 1_000_000

// minExpiration is the shortest lease expiration interval. It leaves time for one renewal
// that is answered late and for a second one.
const minExpiration = 8 * time.Second

// side returns the container on one side of the copy, and its account with the settings.
// The account is a, or that of the variables without a prefix.
func (o *replicateOptions) side(a *connect.Account, text string, warnings io.Writer) (side replicate.Container, of *connect.Account, s connect.Settings, err error) {
	flag := "from"
	if a == o.target {
		flag = "to"
	}
	endpoint, database, container, err := parseContainer(text)
	if err != nil {
		return side, a, s, &usageError{fmt.Errorf("--%s is %w", flag, err)}
	}
	side = replicate.Container{Database: database, Container: container}
	named := o.flags.Changed(flag+"-endpoint") || o.flags.Changed(flag+"-connection-string") || o.flags.Changed(flag+"-data")
	switch {
	case endpoint != "" && named:
		return side, a, s, &usageError{fmt.Errorf("--%s has a URL, and another flag names its account", flag)}
	case endpoint != "":
		if err := a.SetEndpoint(endpoint, "--"+flag); err != nil {
			return side, a, s, err
		}
	case o.data != "" && !named: // a flag overrides every variable
		return side, a, connect.Settings{Data: o.data}, a.CheckUnnamed(false)
	case !a.Given():
		if err := a.CheckUnnamed(true); err != nil {
			return side, a, s, err
		}
		if a = o.environment; !a.Given() {
			env := strings.ToUpper(flag)
			return side, a, s, &usageError{fmt.Errorf("--%s is %q, and its account is missing; give URL/DATABASE/CONTAINER, or --%[1]s-connection-string, the variable COSMOS_%[3]s_CONNECTION_STRING "+
				"or COSMOS_%[3]s_ENDPOINT, COSMOS_ENDPOINT for both sides, or --data DIR for an embedded store", flag, text, env)}
		}
	}
	s, err = a.Settings(warnings)
	return side, a, s, err
}

// parseContainer splits the argument [URL/]DATABASE/CONTAINER into its parts.
func parseContainer(text string) (endpoint, database, container string, err error) {
	bad := fmt.Errorf("%q: it must have the form URL/DATABASE/CONTAINER or DATABASE/CONTAINER", text)
	if text == "" {
		return "", "", "", errors.New("missing: it must have the form URL/DATABASE/CONTAINER or DATABASE/CONTAINER")
	}
	path := text
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return "", "", "", errors.New("not a valid URL: it must have the form https://account.documents.azure.com:443/DATABASE/CONTAINER")
		}
		endpoint, path = u.Scheme+"://"+u.Host+"/", strings.Trim(u.EscapedPath(), "/")
	}
	first, second, found := strings.Cut(path, "/")
	if !found || strings.Contains(second, "/") {
		return "", "", "", bad
	}
	if database, err = url.PathUnescape(first); err != nil || database == "" {
		return "", "", "", bad
	}
	if container, err = url.PathUnescape(second); err != nil || container == "" {
		return "", "", "", bad
	}
	return endpoint, database, container, nil
}
