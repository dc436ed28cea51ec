// Package serve implements `changefeed serve`: it opens a listener, its certificate and a
// server over a store, and shuts them down in order.
package serve

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/datadir"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/listen"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/metrics"
	"github.com/changefeed-go/changefeed/internal/aad"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// Config configures [Run].
type Config struct {
	// Listen is the address, host:port. Port 0 chooses a free port.
	Listen string
	// Data is the directory of the store. If empty, the store is in memory.
	Data string
	// TLS is "self-signed", "off", or the paths of a PEM certificate and its key,
	// separated by a comma.
	TLS string
	// Keys and ReadOnlyKeys are account keys in base64. If Keys is empty, the local
	// emulators' well-known key is used.
	Keys, ReadOnlyKeys []string
	// KeyFile is the file, or KeyVariable the environment variable, that the first of Keys
	// comes from. Both are empty if it comes from neither. The banner names them instead of
	// the key.
	KeyFile, KeyVariable string
	// AADIssuer is the URL of an issuer whose AAD tokens are accepted. If empty, only
	// tokens of the emulators' form are accepted. AADAudiences are the accepted
	// audiences; see [server.Issuer].
	AADIssuer    string
	AADAudiences []string
	// PrintKeys also prints the given keys. The well-known key is always printed.
	PrintKeys bool
	// AllowWellKnownKey allows the well-known key on an address that other machines can
	// reach.
	AllowWellKnownKey bool
	// PublicEndpoint is the URL by which clients reach the server, if it differs from the
	// listening address. If empty, it is the URL that each client uses.
	PublicEndpoint string
	// Hosts are further names by which clients reach the server. Requests with another
	// name in the Host header are rejected. Exceptions are localhost, the host of
	// PublicEndpoint, and IP addresses; if Listen is a loopback address, only loopback
	// ones. The certificate is valid for these names, too.
	Hosts []string
	// Origins are the origins of web pages that may use the server, such as
	// http://localhost:3000. "*" allows all of them.
	Origins []string
	// Init is a JSON file with databases, containers and documents to create at the start.
	// If empty, none are created.
	Init string
	// Health is the address of the health endpoint, host:port. If empty, there is none.
	Health string
	// Partitions is the minimum number of physical partitions of a new container.
	Partitions int
	// Cache is the memory in MiB that the store may use for cached blocks and for data
	// that is not in files yet. It is at most half of Memory. If zero, it is
	// [DefaultCache], or an eighth of Memory if that is less.
	Cache int
	// Memory is the memory in MiB that the process may use, without the documents of a
	// store in memory. If zero, it is four fifths of the control group's limit, or half
	// of the machine's memory, or GOMEMLIMIT if that is less.
	Memory int
	// MaxHeader is the maximum size of a request's line and headers, in KiB. If zero,
	// [DefaultMaxHeader] is used.
	MaxHeader int
	// EnforceThroughput answers 429 when the throughput of a container or its database is
	// used up.
	EnforceThroughput bool
	// ServeAllQueries makes the server answer cross-partition queries whose rows must be
	// merged, such as those with ORDER BY. If false, the server rejects them, as the
	// service does. SDKs then query each partition and merge the rows.
	ServeAllQueries bool
	// Metrics is the address of the Prometheus endpoint, host:port. If empty, there is
	// none.
	Metrics string
	// Versions is the retention of all versions for containers that do not set one. If
	// zero, they retain none.
	Versions time.Duration
	// DeletesWithoutPrevious leaves the previous images of deletes out of all versions and
	// deletes mode, as new accounts do.
	DeletesWithoutPrevious bool
	// Drain is the time that requests in flight may take when the server ends.
	Drain time.Duration
	// LogLevel is the lowest level that is written to Log.
	LogLevel slog.Level
	// Version is the version that the server prints when it starts.
	Version string
	// Announce is printed after all else when the server is ready. It is usually empty.
	Announce string
	// Out receives the information for clients. Log receives everything else.
	Out, Log io.Writer
}

// These are the values of Config.TLS that are not a pair of files.
const (
	selfSigned = "self-signed"
	plain      = "off"
)

// DefaultCache is the default of Config.Cache, in MiB.
const DefaultCache = 128

// DefaultMaxHeader is the default of Config.MaxHeader, in KiB. It holds the longest
// headers that SDKs send: continuation, key, token, and a session token of over a
// thousand partitions.
const DefaultMaxHeader = 64

// minMaxHeader and maxMaxHeader limit Config.MaxHeader. They are in KiB.
const minMaxHeader, maxMaxHeader = 16, 1024

// minCache and maxCache limit Config.Cache, in MiB. A store needs minCache, and maxCache
// is 1 TiB.
const minCache, maxCache = 4, 1 << 20

// ConfigError reports an invalid Config.
type ConfigError struct{ reason string }

func (e *ConfigError) Error() string { return e.reason }

func refuse(format string, args ...any) error {
	return &ConfigError{reason: fmt.Sprintf(format, args...)}
}

// validate returns an error for an invalid Config. It checks everything that does not
// depend on the machine.
func (c Config) validate() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return refuse("--listen is %q: it must be host:port, for instance 127.0.0.1:8081", c.Listen)
	}
	if err := metrics.Check(c.Metrics); err != nil {
		return refuse("%v", err)
	}
	if _, port, _ := net.SplitHostPort(c.Listen); c.Metrics == c.Listen && port != "0" {
		return refuse("--metrics and --listen are the same address, %s: metrics need a port of their own, for instance 127.0.0.1:9081", c.Listen)
	}
	if cert, key, pair := strings.Cut(c.TLS, ","); c.TLS != selfSigned && c.TLS != plain && (!pair || cert == "" || key == "") {
		return refuse("--tls is %q: it must be self-signed, off, or CERT,KEY (two files)", c.TLS)
	}
	for flag, keys := range map[string][]string{"--key": c.Keys, "--read-only-key": c.ReadOnlyKeys} {
		for _, key := range keys {
			if _, err := wire.ParseKey(key); err != nil {
				return refuse("%s is invalid: %v", flag, err)
			}
		}
	}
	for _, key := range c.readers() {
		if slices.Contains(c.keys(), key) {
			return refuse("--read-only-key is also a key that may write")
		}
	}
	if c.Partitions < 1 || c.Partitions > storetype.MaxPartitions {
		return refuse("--partitions is %d: it must be 1 to %d", c.Partitions, storetype.MaxPartitions)
	}
	if c.Cache != 0 && (c.Cache < minCache || c.Cache > maxCache) {
		return refuse("--cache is %d: it must be %d to %d (MiB)", c.Cache, minCache, maxCache)
	}
	if c.MaxHeader != 0 && (c.MaxHeader < minMaxHeader || c.MaxHeader > maxMaxHeader) {
		return refuse("--max-header is %d: it must be %d to %d (KiB)", c.MaxHeader, minMaxHeader, maxMaxHeader)
	}
	if c.PublicEndpoint != "" {
		u, err := url.Parse(c.PublicEndpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
			return refuse("--public-endpoint is %q: it must be a URL of the form https://host:port/", c.PublicEndpoint)
		}
	}
	for _, check := range []func() error{c.validateHosts, c.validateOrigins, c.validateHealth} {
		if err := check(); err != nil {
			return err
		}
	}
	if err := aad.Issuer(c.issuer()).Validate(); err != nil {
		return refuse("--aad-issuer, --aad-audience: %v", err)
	}
	if c.Versions < 0 || c.Versions%time.Minute != 0 {
		return refuse("--keep-versions is %s: it must be whole minutes, for instance 60m", c.Versions)
	}
	if c.Drain < 0 {
		return refuse("--drain is negative")
	}
	return nil
}

func (c Config) issuer() server.Issuer {
	return server.Issuer{URL: c.AADIssuer, Audiences: c.AADAudiences}
}

// keys returns the keys that permit reads and writes: Config.Keys, or else the well-known
// key.
func (c Config) keys() []string {
	if len(c.Keys) == 0 {
		return []string{wire.EmulatorKey}
	}
	return oneLine(c.Keys)
}

// readers returns the read-only keys.
func (c Config) readers() []string { return oneLine(c.ReadOnlyKeys) }

// oneLine returns keys without the line breaks that programs insert into generated keys.
// In this form keys can be compared and pasted.
func oneLine(keys []string) []string {
	out := make([]string, len(keys))
	for i, text := range keys {
		out[i] = text
		if key, err := wire.ParseKey(text); err == nil { // validate reports an invalid key
			out[i] = base64.StdEncoding.EncodeToString(key)
		}
	}
	return out
}

// Run serves until ctx ends. It returns nil after it has answered all requests and closed
// the store. It returns a *[ConfigError], the operating system's error for the address,
// or an error of [store.Open].
func Run(ctx context.Context, c Config) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(c.Log, &slog.HandlerOptions{Level: c.LogLevel}))
	// A wrong address is the most frequent error, so the address is tried before a
	// directory is created.
	listener, err := listen.On(ctx, "--listen", c.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // Serve closes the listener unless an error comes first
	probes, err := c.openHealth(ctx)
	if err != nil {
		return err
	}
	defer probes.serve(logger)()
	defer context.AfterFunc(ctx, probes.ends)()
	if err := c.exposed(listener.Addr()); err != nil {
		return err
	}
	if size, short := c.guessable(listener.Addr()); short {
		logger.Warn("account key too short: other machines could guess it; use one from `openssl rand -base64 64`", "bytes", size, "at least", safeKey)
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
	plan, err := c.planInit(ctx)
	if err != nil {
		return ended(ctx, err)
	}
	db, err := c.open(logger, memory, descriptors)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	o := server.Options{
		Keys: c.keys(), ReadOnlyKeys: c.readers(), PublicEndpoint: c.PublicEndpoint,
		Issuer:     c.issuer(),
		Partitions: c.Partitions, Versions: c.Versions,
		ServeAllQueries: c.ServeAllQueries, DeletesWithoutPrevious: c.DeletesWithoutPrevious, Logger: logger,
		MemoryLimit: memory.requests, MaxConnections: memory.connections(),
	}
	if descriptors.connections > 0 {
		o.MaxConnections = min(o.MaxConnections, descriptors.connections)
	}
	b := banner{Config: c, address: listener.Addr(), health: probes.url()}
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
	if b.created, err = c.initialize(ctx, plan, db, handler); err != nil {
		return ended(ctx, err)
	}
	var front http.Handler = handler
	if c.TLS != plain {
		identity, err := c.identity()
		if err != nil {
			return err
		}
		b.certificate, b.unkept = identity.path, identity.unkept
		listener = identity.listener(listener)
		front = certificatePage(identity, front)
	}
	front = allowOrigins(c.Origins, front)
	if err := b.write(c.Out); err != nil {
		return fmt.Errorf("print the endpoint: %w", err)
	}
	defer startReclaim(ctx, handler)()
	probes.ready()
	return serveHTTP(ctx, listener, c.checkHosts(handler, front, b.address), limits{drain: c.Drain, header: cmp.Or(c.MaxHeader, DefaultMaxHeader) << 10}, logger)
}

// ended returns nil if ctx has ended, because a signal during the start is no error.
// Otherwise it returns err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// startReclaim runs reclaim in the background. The function stop ends it, and returns
// when it has ended.
func startReclaim(ctx context.Context, s *server.Server) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		reclaim(ctx, s.InFlight, collectAll)
	}()
	return func() { cancel(); <-done }
}

// open opens the store of a Config.
func (c Config) open(logger *slog.Logger, m memoryPlan, d descriptorPlan) (*store.DB, error) {
	o := store.Options{Memory: m.cache, MaxOpenFiles: d.tables, EnforceThroughput: c.EnforceThroughput, Logger: logger}
	if c.Data == "" {
		db, err := engine.OpenMemoryAnew(engine.Options(o))
		return (*store.DB)(db), err
	}
	if err := datadir.Check(c.Data); err != nil {
		return nil, refuse("--data %s: %v", c.Data, err)
	}
	return store.Open(c.Data, o)
}

// safeKey is the size in bytes from which a key cannot be guessed.
const safeKey = 16

// guessable returns the size of the shortest key in bytes, and reports whether other
// machines can reach the address a and could guess that key.
func (c Config) guessable(a net.Addr) (size int, short bool) {
	size = math.MaxInt
	for _, text := range append(c.keys(), c.readers()...) {
		if key, err := wire.ParseKey(text); err == nil { // validate reports an invalid key
			size = min(size, len(key))
		}
	}
	return size, size < safeKey && !loopback(a)
}

// exposed returns an error if the public well-known key, even as a read-only key, is used
// on an address that other machines can reach.
func (c Config) exposed(a net.Addr) error {
	if c.AllowWellKnownKey || loopback(a) || !slices.Contains(append(c.keys(), c.readers()...), wire.EmulatorKey) {
		return nil
	}
	return refuse("--listen %s can be reached from other machines, but the key is the public well-known one; "+
		"use a --key of your own (for instance from `openssl rand -base64 64`), listen on 127.0.0.1, or use --allow-well-known-key", c.Listen)
}

// loopback reports whether only this machine can reach an address.
func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
