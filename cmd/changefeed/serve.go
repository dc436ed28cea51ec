package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/metrics"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/serve"
	"github.com/changefeed-go/changefeed/internal/wire"
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
		Short: "Serve a store over the protocol of Azure Cosmos DB",
		Long: `Serve makes an embedded store available to the official SDKs of Azure Cosmos DB: databases,
containers, documents, queries and the change feed. It prints the endpoint, the key, code for
each SDK, a line to paste into a shell, and then "ready". The line sets the variables that the
code and the other commands read. A key that you gave is printed only with --print-key. SIGTERM
or Ctrl-C ends it after it has answered the requests in flight. A second signal ends it
at once.

Without --key, the key is the well-known key of the local emulators. That key is public, so the
server then accepts only clients on this machine. A key given with --key is visible in this
machine's list of processes. --key-file or the variables CHANGEFEED_SERVE_KEY and
CHANGEFEED_SERVE_READ_ONLY_KEY hide it.

Clients must trust the server's certificate, unless --tls is off. The server creates it once,
stores it in the data directory and prints its path. With --memory it is in your cache directory,
or in memory if that directory cannot be written. Only its owner can read the data directory.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if memory && cfg.Data != "" {
				return &usageError{errors.New("--memory and --data exclude each other")}
			}
			if err := dataGiven(cmd, cfg.Data); err != nil {
				return err
			}
			if err := cfg.LogLevel.UnmarshalText([]byte(level)); err != nil {
				return &usageError{fmt.Errorf("--log-level is %q: it must be debug, info, warn or error", level)}
			}
			if err := files.read(&cfg, cmd.ErrOrStderr()); err != nil {
				return &usageError{err}
			}
			cfg.Version = versionName()
			cfg.Out, cfg.Log = cmd.OutOrStdout(), cmd.ErrOrStderr()
			err := serve.Run(cmd.Context(), cfg)
			if _, ok := errors.AsType[*serve.ConfigError](err); ok {
				return &usageError{err}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Listen, "listen", "127.0.0.1:8081", "`address` to listen on; port 0 chooses a free port")
	flags.StringVar(&cfg.Data, "data", "", "`directory` of the store")
	flags.BoolVar(&memory, "memory", false, "keep the store in memory (default without --data)")
	flags.StringVar(&cfg.TLS, "tls", "self-signed", "`mode` of encryption: self-signed, off, or CERT,KEY (two PEM files)")
	flags.StringArrayVar(&cfg.Keys, "key", nil, "account `key` in base64; may be repeated (default: the emulators' well-known key)")
	flags.StringArrayVar(&cfg.ReadOnlyKeys, "read-only-key", nil, "read-only account `key` in base64; may be repeated")
	flags.StringArrayVar(&files.keys, "key-file", nil, "`file` that holds an account key; may be repeated (CHANGEFEED_SERVE_KEY holds the key itself)")
	flags.StringArrayVar(&files.readOnly, "read-only-key-file", nil, "`file` that holds a read-only key; may be repeated (CHANGEFEED_SERVE_READ_ONLY_KEY holds the key itself)")
	flags.StringVar(&cfg.AADIssuer, "aad-issuer", "", "`URL` of an OpenID Connect issuer whose AAD tokens are accepted, for instance https://sts.windows.net/TENANT/ (default: none)")
	flags.StringArrayVar(&cfg.AADAudiences, "aad-audience", nil, "`audience` that those tokens may have; may be repeated (default: https://cosmos.azure.com and https://localhost)")
	flags.BoolVar(&cfg.PrintKeys, "print-key", false, "also print keys that you gave; avoid it where the output is kept, for instance in a journal that others can read")
	flags.BoolVar(&cfg.AllowWellKnownKey, "allow-well-known-key", false, "accept clients on other machines although the key is the well-known one")
	flags.StringVar(&cfg.PublicEndpoint, "public-endpoint", "", "`URL` by which clients reach the server (default: the one that each client uses)")
	flags.StringArrayVar(&cfg.Hosts, "host", nil, "host `name` by which clients reach the server, besides localhost, IP addresses and --public-endpoint; may be repeated")
	flags.StringArrayVar(&cfg.Origins, "allow-origin", nil, "`origin` of web pages that may use the server, for instance http://localhost:3000, or * for all; may be repeated (default: none)")
	flags.StringVar(&cfg.Init, "init", "", "JSON `file` with databases, containers and documents to create before the server is ready; what exists already stays as it is (docs/json.md has its form)")
	flags.StringVar(&cfg.Health, "health-listen", "", "`address` of a health endpoint with /alive, /ready and /status, which accepts every client without a signature (default: none)")
	flags.IntVar(&cfg.Partitions, "partitions", 1, "minimum number of physical partitions of a new container")
	flags.IntVar(&cfg.Cache, "cache", 0, "size in `MiB` of the cache for documents that were read or written recently; reads from it are several times faster (default: 128, or an eighth of --memory-limit if that is less)")
	flags.IntVar(&cfg.Memory, "memory-limit", 0, "memory in `MiB` that the process may use; a request that needs more gets status 429 (default: four fifths of the control group's limit, or half of the machine's memory)")
	flags.IntVar(&cfg.MaxHeader, "max-header", serve.DefaultMaxHeader, "maximum size in `KiB` of a request's line and headers; a longer request gets status 431")
	flags.BoolVar(&cfg.EnforceThroughput, "enforce-throughput", false, "answer 429 when the throughput of a container is used up, or that of its database, which containers without one of their own share")
	flags.DurationVar(&cfg.Versions, "keep-versions", 0, "default retention `time` (whole minutes) of all versions, for containers that do not set one; all versions and deletes mode needs it (default: none)")
	flags.BoolVar(&cfg.DeletesWithoutPrevious, "deletes-without-previous", false,
		"leave the previous images of deletes out of all versions and deletes mode, as accounts made since December 2024 do")
	flags.BoolVar(&cfg.ServeAllQueries, "serve-all-queries", false,
		"answer every cross-partition query in the server; Azure Cosmos DB rejects queries that an SDK must merge, and some SDKs cannot merge them")
	metrics.Add(flags, &cfg.Metrics)
	flags.DurationVar(&cfg.Drain, "drain", 10*time.Second, "`time` that requests in flight may take when the server ends")
	flags.StringVar(&level, "log-level", slog.LevelInfo.String(), "`level` of the log: debug (each request), info, warn, error")
	return cmd
}

// dataGiven returns an error if --data is given but empty, for instance by a script whose
// variable is not set. Otherwise the command would use a store in memory or a temporary
// one.
func dataGiven(cmd *cobra.Command, dir string) error {
	if dir == "" && cmd.Flags().Changed("data") {
		return &usageError{errors.New("--data is empty: it must be the directory of the store")}
	}
	return nil
}

// keyFiles are the names of the files that contain a server's keys.
type keyFiles struct{ keys, readOnly []string }

// read sets the keys of c from the files that flags name. If no flag names a key, it
// reads environment variables. They are not the variables of the clients. With those, a
// server could print the key of a real account. An error names the file or the variable.
// Files that other users can read get a warning.
func (f keyFiles) read(c *serve.Config, warnings io.Writer) error {
	given := len(c.Keys) > 0
	for _, k := range []struct {
		flag, variable string
		files          []string
		keys           *[]string
	}{
		{"--key-file", "CHANGEFEED_SERVE_KEY", f.keys, &c.Keys},
		{"--read-only-key-file", "CHANGEFEED_SERVE_READ_ONLY_KEY", f.readOnly, &c.ReadOnlyKeys},
	} {
		for _, file := range k.files {
			key, err := connect.ReadKey(file, warnings)
			if err != nil {
				return fmt.Errorf("%s: %w", k.flag, err)
			}
			if _, err := wire.ParseKey(key); err != nil {
				return fmt.Errorf("%s %s is invalid: %w", k.flag, file, err)
			}
			*k.keys = append(*k.keys, key)
		}
		if key := strings.TrimSpace(os.Getenv(k.variable)); key != "" && len(*k.keys) == 0 {
			if _, err := wire.ParseKey(key); err != nil {
				return fmt.Errorf("%s is invalid: %w", k.variable, err)
			}
			*k.keys = []string{key}
			if k.keys == &c.Keys {
				c.KeyVariable = k.variable
			}
		}
	}
	if !given && len(f.keys) > 0 {
		var err error
		c.KeyFile, err = filepath.Abs(f.keys[0]) // the line that names it is for any working directory
		return err
	}
	return nil
}
