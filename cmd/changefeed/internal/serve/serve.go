// Package serve is the work of `changefeed serve`: a listener, its certificate,
// the server over a store, and their end in good order.
package serve

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/datadir"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/listen"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/metrics"
	"github.com/changefeed-go/changefeed/internal/aad"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
)

// Config says what is served, where, and to whom.
type Config struct {
	// Listen is the address, host:port. Port 0 is a free one.
	Listen string
	// Data is the directory of the store; empty: the store is in memory.
	Data string
	// TLS is "self-signed", "off", or the paths of a certificate and its key in
	// PEM with a comma between them.
	TLS string
	// Keys and ReadOnlyKeys are account keys in base64. Without Keys it is the well-known
	// one of the local emulators.
	Keys, ReadOnlyKeys []string
	// AADIssuer is the URL of an issuer whose AAD tokens are taken; empty: only tokens of the emulators' form are. AADAudiences are what
	// they may be for; see [server.Issuer].
	AADIssuer    string
	AADAudiences []string
	// PrintKeys prints keys that were given, too. The well-known key is always printed.
	PrintKeys bool
	// AllowWellKnownKey allows that key on an address that other machines can reach.
	AllowWellKnownKey bool
	// PublicEndpoint is the URL that clients reach the server by, where that isn't
	// the address it listens on. Default: what each client asked for.
	PublicEndpoint string
	// Hosts are further names that clients reach the server by. Requests with another name in
	// the header Host are refused, but for localhost, IP addresses (loopback ones, where
	// Listen is one), and the host of PublicEndpoint. The certificate is for these names, too.
	Hosts []string
	// Partitions is how many physical partitions a new container has at least.
	Partitions int
	// Cache is how much memory the store may use for blocks that were read and for what isn't in files yet, in MiB. It is at
	// most half of Memory. 0: [DefaultCache], or an eighth of Memory if that is less.
	Cache int
	// Memory is how much memory the process may use, in MiB, without the documents of a store in memory. 0: four fifths of the control
	// group's limit, or half of the machine's memory, or GOMEMLIMIT if that is less.
	Memory int
	// MaxHeader bounds a request's line and headers, in KiB. 0: [DefaultMaxHeader].
	MaxHeader int
	// EnforceThroughput answers 429 when a container's own throughput is used up.
	EnforceThroughput bool
	// ServeAllQueries answers queries over a whole container that SDKs otherwise have to ask of each partition and merge.
	ServeAllQueries bool
	// Metrics is the address of the Prometheus endpoint, host:port. Default: there is none.
	Metrics string
	// Versions is how long a container keeps all versions that doesn't say it itself; 0: it keeps none.
	Versions time.Duration
	// Drain is how long requests that are under way may take when the server ends.
	Drain time.Duration
	// LogLevel is the least level that is written to Log.
	LogLevel slog.Level
	// Version is shown when the server starts.
	Version string
	// Out gets what there is to know for clients, Log everything else.
	Out, Log io.Writer
}

// The transports of Config.TLS that are no pair of files.
const (
	selfSigned = "self-signed"
	plain      = "off"
)

// DefaultCache is Config.Cache where nobody says more.
const DefaultCache = 128

// DefaultMaxHeader is Config.MaxHeader where nobody says more, in KiB. The headers that SDKs send fit into it: the longest continuation, key and
// token, and a session token of more than a thousand partitions.
const DefaultMaxHeader = 64

// The bounds of Config.MaxHeader.
const minMaxHeader, maxMaxHeader = 16, 1024

// The bounds of Config.Cache: what a store needs at least, and a TiB.
const minCache, maxCache = 4, 1 << 20

// ConfigError tells that a Config can't be served as it is.
type ConfigError struct{ reason string }

func (e *ConfigError) Error() string { return e.reason }

func refuse(format string, args ...any) error {
	return &ConfigError{reason: fmt.Sprintf(format, args...)}
}

// validate judges what can be judged without looking at the machine.
func (c Config) validate() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return refuse("--listen is %q: it is host:port, as in 127.0.0.1:8081", c.Listen)
	}
	if err := metrics.Check(c.Metrics); err != nil {
		return refuse("%v", err)
	}
	if _, port, _ := net.SplitHostPort(c.Listen); c.Metrics == c.Listen && port != "0" {
		return refuse("--metrics and --listen are the same address, %s: metrics are on a port of their own, as in 127.0.0.1:9081", c.Listen)
	}
	if cert, key, pair := strings.Cut(c.TLS, ","); c.TLS != selfSigned && c.TLS != plain && (!pair || cert == "" || key == "") {
		return refuse("--tls is %q: it is self-signed, off, or CERT,KEY (two files)", c.TLS)
	}
	for flag, keys := range map[string][]string{"--key": c.Keys, "--read-only-key": c.ReadOnlyKeys} {
		for _, key := range keys {
			if _, err := wire.ParseKey(key); err != nil {
				return refuse("%s can't be used: %v", flag, err)
			}
		}
	}
	for _, key := range c.readers() {
		if slices.Contains(c.keys(), key) {
			return refuse("--read-only-key is a key that may write, too")
		}
	}
	if c.Partitions < 1 || c.Partitions > store.MaxPartitions {
		return refuse("--partitions is %d: it is 1 to %d", c.Partitions, store.MaxPartitions)
	}
	if c.Cache != 0 && (c.Cache < minCache || c.Cache > maxCache) {
		return refuse("--cache is %d: it is %d to %d (MiB)", c.Cache, minCache, maxCache)
	}
	if c.MaxHeader != 0 && (c.MaxHeader < minMaxHeader || c.MaxHeader > maxMaxHeader) {
		return refuse("--max-header is %d: it is %d to %d (KiB)", c.MaxHeader, minMaxHeader, maxMaxHeader)
	}
	if c.PublicEndpoint != "" {
		u, err := url.Parse(c.PublicEndpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
			return refuse("--public-endpoint is %q: it is a URL of the form https://host:port/", c.PublicEndpoint)
		}
	}
	if err := c.validateHosts(); err != nil {
		return err
	}
	if err := aad.Issuer(c.issuer()).Validate(); err != nil {
		return refuse("--aad-issuer, --aad-audience: %v", err)
	}
	if c.Versions < 0 || c.Versions%time.Minute != 0 {
		return refuse("--keep-versions is %s: it is whole minutes, as in 60m", c.Versions)
	}
	if c.Drain < 0 {
		return refuse("--drain is negative")
	}
	return nil
}

func (c Config) issuer() server.Issuer {
	return server.Issuer{URL: c.AADIssuer, Audiences: c.AADAudiences}
}

// keys are those that may read and write.
func (c Config) keys() []string {
	if len(c.Keys) == 0 {
		return []string{wire.EmulatorKey}
	}
	return oneLine(c.Keys)
}

// readers are the keys that may read only.
func (c Config) readers() []string { return oneLine(c.ReadOnlyKeys) }

// oneLine writes keys as accounts do, so that they can be compared, and pasted. Programs that make one break its lines.
func oneLine(keys []string) []string {
	out := make([]string, len(keys))
	for i, text := range keys {
		out[i] = text
		if key, err := wire.ParseKey(text); err == nil { // validate says what is wrong with it
			out[i] = base64.StdEncoding.EncodeToString(key)
		}
	}
	return out
}

// Run serves until ctx ends, and returns nil when all requests were answered and the
// store was closed. Errors: *[ConfigError]; what the operating system says of the address;
// those of [store.Open].
func Run(ctx context.Context, c Config) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(c.Log, &slog.HandlerOptions{Level: c.LogLevel}))
	// The address comes first: what most often fails is told before a directory is made.
	listener, err := listen.On(ctx, "--listen", c.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // closed by Serve, but where it isn't reached
	if err := c.exposed(listener.Addr()); err != nil {
		return err
	}
	memory, err := c.memory(systemMemory(os.DirFS("/")))
	if err != nil {
		return err
	}
	descriptors, err := planDescriptors(descriptorLimit())
	if err != nil {
		return err
	}
	returnLargeBlocks()
	defer memory.collect()()
	db, err := c.open(logger, memory, descriptors)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	o := server.Options{
		Keys: c.keys(), ReadOnlyKeys: c.readers(), PublicEndpoint: c.PublicEndpoint,
		Issuer:     c.issuer(),
		Partitions: c.Partitions, EnforceThroughput: c.EnforceThroughput, Versions: c.Versions,
		ServeAllQueries: c.ServeAllQueries, Logger: logger,
		MemoryLimit: memory.requests, MaxConnections: memory.connections(),
	}
	if descriptors.connections > 0 {
		o.MaxConnections = min(o.MaxConnections, descriptors.connections)
	}
	b := banner{Config: c, address: listener.Addr()}
	m, err := metrics.Open(ctx, c.Metrics)
	if err != nil {
		return err
	}
	o.Metrics, b.metrics = m.Provider(), m.URL()
	defer m.Serve(logger)()
	handler, err := server.New(db, o)
	if err != nil {
		return err
	}
	if c.TLS != plain {
		identity, err := c.identity()
		if err != nil {
			return err
		}
		b.certificate, b.unkept = identity.path, identity.unkept
		listener = identity.listener(listener)
	}
	if err := b.write(c.Out); err != nil {
		return fmt.Errorf("print the endpoint: %w", err)
	}
	defer startReclaim(ctx, handler)()
	return serveHTTP(ctx, listener, c.checkHosts(handler, b.address), limits{drain: c.Drain, header: cmp.Or(c.MaxHeader, DefaultMaxHeader) << 10}, logger)
}

// startReclaim runs reclaim until stop is called, which waits for its end.
func startReclaim(ctx context.Context, s *server.Server) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		reclaim(ctx, s.InFlight, collectAll)
	}()
	return func() { cancel(); <-done }
}

// open opens the store.
func (c Config) open(logger *slog.Logger, m memoryPlan, d descriptorPlan) (*store.DB, error) {
	o := store.Options{Memory: m.cache, MaxOpenFiles: d.tables, IgnoreThroughput: !c.EnforceThroughput, Logger: logger}
	if c.Data == "" {
		return store.OpenMemory(o)
	}
	if err := datadir.Check(c.Data); err != nil {
		return nil, refuse("--data %s: %v", c.Data, err)
	}
	return store.Open(c.Data, o)
}

// exposed refuses the key that everybody has on an address that others can reach, be it only for reading.
func (c Config) exposed(a net.Addr) error {
	if c.AllowWellKnownKey || loopback(a) || !slices.Contains(append(c.keys(), c.readers()...), wire.EmulatorKey) {
		return nil
	}
	return refuse("--listen %s can be reached from other machines, and the key is the well-known one, which everybody has: "+
		"give a --key (as from `openssl rand -base64 64`), listen on 127.0.0.1, or say --allow-well-known-key", c.Listen)
}

// loopback reports whether only this machine can reach an address.
func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
