package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/metrics"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/serve"
)

func serveCommand() *cobra.Command {
	var (
		cfg    serve.Config
		memory bool
		level  string
		files  keyFiles
	)
	cmd := &cobra.Command{
		Use:   "serve [--data DIR | --memory]",
		Short: "Serve the Cosmos DB REST protocol over a store, for the official SDKs",
		Long: `Serves an embedded store to the official SDKs of Azure Cosmos DB: databases,
containers, documents, queries, change feed. Prints the endpoint, the key (one that was given with --print-key alone), a line
to paste for each SDK, and then "ready". SIGTERM or Ctrl-C ends it: requests that
are under way are answered first; a second signal ends it at once.

Without --key the key is the well-known one of the local emulators, which is
no secret, so only this machine may reach the server then. Others on this machine see a --key
in the list of processes; --key-file, or the variable CHANGEFEED_SERVE_KEY (and
CHANGEFEED_SERVE_READ_ONLY_KEY), hides it.

Clients have to trust the certificate, which is made once, kept in the data
directory (with --memory: in your cache directory, or in memory if that cannot be
written) and printed; or use --tls off. The data directory can be read by its owner only.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if memory && cfg.Data != "" {
				return &usageError{errors.New("--memory and --data exclude each other")}
			}
			if err := dataGiven(cmd, cfg.Data); err != nil {
				return err
			}
			if err := cfg.LogLevel.UnmarshalText([]byte(level)); err != nil {
				return &usageError{fmt.Errorf("--log-level is %q: it is debug, info, warn or error", level)}
			}
			if err := files.read(&cfg); err != nil {
				return &usageError{err}
			}
			_, rest, _ := strings.Cut(versionLine(), " ")
			cfg.Version, _, _ = strings.Cut(rest, " ")
			cfg.Out, cfg.Log = cmd.OutOrStdout(), cmd.ErrOrStderr()
			err := serve.Run(cmd.Context(), cfg)
			if _, ok := errors.AsType[*serve.ConfigError](err); ok {
				return &usageError{err}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Listen, "listen", "127.0.0.1:8081", "`address` to listen on; port 0 is a free one")
	flags.StringVar(&cfg.Data, "data", "", "`directory` of the store")
	flags.BoolVar(&memory, "memory", false, "keep the store in memory (default without --data)")
	flags.StringVar(&cfg.TLS, "tls", "self-signed", "`how` to encrypt: self-signed, off, or CERT,KEY (two files in PEM)")
	flags.StringArrayVar(&cfg.Keys, "key", nil, "account `key` in base64; may be repeated (default: the emulators' well-known key)")
	flags.StringArrayVar(&cfg.ReadOnlyKeys, "read-only-key", nil, "account `key` in base64 that may read only; may be repeated")
	flags.StringArrayVar(&files.keys, "key-file", nil, "`file` that holds an account key; may be repeated (CHANGEFEED_SERVE_KEY holds the key itself)")
	flags.StringArrayVar(&files.readOnly, "read-only-key-file", nil, "`file` that holds a key that may read only; may be repeated (CHANGEFEED_SERVE_READ_ONLY_KEY)")
	flags.StringVar(&cfg.AADIssuer, "aad-issuer", "", "`URL` of an OpenID Connect issuer whose AAD tokens are taken, as in https://sts.windows.net/TENANT/ (default: none)")
	flags.StringArrayVar(&cfg.AADAudiences, "aad-audience", nil, "`audience` that such tokens may be for; may be repeated (default: https://cosmos.azure.com and https://localhost)")
	flags.BoolVar(&cfg.PrintKeys, "print-key", false, "print keys that were given, too: where the output is kept, as in a journal, others may read them")
	flags.BoolVar(&cfg.AllowWellKnownKey, "allow-well-known-key", false, "let other machines reach the server though its key is the well-known one")
	flags.StringVar(&cfg.PublicEndpoint, "public-endpoint", "", "`URL` that clients reach the server by (default: the one they asked for)")
	flags.StringArrayVar(&cfg.Hosts, "host", nil, "`name` that clients reach the server by, beside localhost, IP addresses and --public-endpoint; may be repeated")
	flags.IntVar(&cfg.Partitions, "partitions", 1, "physical partitions of a new container, at least")
	flags.IntVar(&cfg.Cache, "cache", 0, "memory in `MiB` for documents that were read or just written: reads of what fits are several times as fast (default: 128, or an eighth of --memory-limit if that is less)")
	flags.IntVar(&cfg.Memory, "memory-limit", 0, "memory in `MiB` that the process may use; requests beyond it are answered 429 (default: four fifths of the control group's limit, or half of the machine's memory)")
	flags.IntVar(&cfg.MaxHeader, "max-header", serve.DefaultMaxHeader, "longest line and headers of a request in `KiB`, answered 431 beyond")
	flags.BoolVar(&cfg.EnforceThroughput, "enforce-throughput", false, "answer 429 when a container's own throughput is used up; a database's, which its containers share, bounds nothing")
	flags.DurationVar(&cfg.Versions, "keep-versions", 0, "`time` (whole minutes) that containers keep all versions which don't say it: for all versions and deletes mode (default: none)")
	flags.BoolVar(&cfg.ServeAllQueries, "serve-all-queries", false,
		"answer every query over a whole container here; the service refuses those that an SDK has to merge, and some SDKs can't")
	metrics.Add(flags, &cfg.Metrics)
	flags.DurationVar(&cfg.Drain, "drain", 10*time.Second, "`time` that requests under way may take when the server ends")
	flags.StringVar(&level, "log-level", slog.LevelInfo.String(), "`level` of the log: debug (each request), info, warn, error")
	return cmd
}

// dataGiven refuses a --data that was given and is empty, as a script's that forgot to set its variable: the store
// would be in memory, or a temporary one.
func dataGiven(cmd *cobra.Command, dir string) error {
	if dir == "" && cmd.Flags().Changed("data") {
		return &usageError{errors.New("--data is empty: it is the directory of the store")}
	}
	return nil
}

// keyFiles are the files of keys that a server takes.
type keyFiles struct{ keys, readOnly []string }

// read adds the keys of the files and, where no flag says any, those of the environment. Its
// variables aren't those of clients: a server that took a real account's key for its own would print it.
func (f keyFiles) read(c *serve.Config) error {
	for _, k := range []struct {
		flag, variable string
		files          []string
		keys           *[]string
	}{
		{"--key-file", "CHANGEFEED_SERVE_KEY", f.keys, &c.Keys},
		{"--read-only-key-file", "CHANGEFEED_SERVE_READ_ONLY_KEY", f.readOnly, &c.ReadOnlyKeys},
	} {
		for _, file := range k.files {
			key, err := connect.ReadKey(file)
			if err != nil {
				return fmt.Errorf("%s: %w", k.flag, err)
			}
			*k.keys = append(*k.keys, key)
		}
		if key := strings.TrimSpace(os.Getenv(k.variable)); key != "" && len(*k.keys) == 0 {
			*k.keys = []string{key}
		}
	}
	return nil
}
