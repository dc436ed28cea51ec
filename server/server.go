package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/changefeed-go/changefeed/internal/aad"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/store"
)

// Options say how the server behaves. The zero value of a field is its default.
type Options struct {
	// Keys are the account keys (base64), of which each may read and write. Default:
	// the well-known key of the local emulators, which is no secret.
	Keys []string
	// ReadOnlyKeys are account keys (base64) that may read only. Default: none.
	ReadOnlyKeys []string
	// Issuer is an issuer whose AAD tokens are accepted, besides those in the emulators' form. Default: none.
	Issuer Issuer
	// PublicEndpoint is the URL that the account document tells clients to use.
	// Default: made from each request's Host header, so that it is one
	// that the client can reach.
	PublicEndpoint string
	// Partitions is how many physical partitions a new container has at least.
	// Default: 1.
	Partitions int
	// EnforceThroughput answers 429 when a container's provisioned throughput is used up. The
	// store must have been opened to enforce it, too. Default: throughput is kept and shown, and
	// bounds nothing. A database's, which containers without their own share, bounds nothing in either case.
	EnforceThroughput bool
	// Versions is for how long a container keeps all versions whose properties don't say it: as in
	// an account with continuous backup, where every container can be read in all versions and deletes
	// mode. Whole minutes. Default: only those containers do that name a retention.
	Versions time.Duration
	// ServeAllQueries answers every query over a whole container by itself, in one request a page. Default: as the service
	// does, a query whose partitions' rows have to be merged (ORDER BY, OFFSET LIMIT, DISTINCT, GROUP BY, aggregates) is
	// answered 400 with sub-status 1004 and its plan, by which SDKs ask each partition and merge; code that
	// works with an SDK then works in the service.
	ServeAllQueries bool
	// MemoryLimit bounds the memory, in bytes, that all requests hold together: headers (see [Server.Guard]), bodies, answers that wait for
	// their readers, and the work of reads and queries. A request for which there is no room is answered 429 with
	// x-ms-retry-after-ms. The store's memory is not part of it. At least [MinMemoryLimit]. Default: there is no limit.
	MemoryLimit int64
	// MaxConnections bounds the connections of [Server.Guard]. Beyond it, the one that rests longest is closed. Default: there is no limit.
	MaxConnections int
	// Logger gets a line per request at debug level, and what goes wrong at error
	// level. Default: none.
	Logger *slog.Logger
	// Metrics gets the server's metrics: requests by operation and status with their time, bytes
	// and request units; documents and partitions of each container. Default: none.
	Metrics metric.MeterProvider
}

// Issuer is an OpenID Connect issuer, such as Microsoft Entra ID, whose AAD tokens are accepted. Whoever
// has such a token may write documents and read everything. The zero value is none.
type Issuer struct {
	// URL is the issuer's as in iss. Its configuration is at /.well-known/openid-configuration below
	// it. It is https, or http on this machine.
	URL string
	// Audiences are the accepted values of aud. Default: https://cosmos.azure.com, which is that of
	// Azure Cosmos DB, and https://localhost.
	Audiences []string
	// Client fetches configuration and keys. Default: a client of package net/http, with a timeout.
	Client *http.Client
}

// MinMemoryLimit is the smallest [Options.MemoryLimit], in bytes: a document of the largest size fits into its share for bodies.
const MinMemoryLimit = 32 << 20

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if len(o.Keys) == 0 {
		o.Keys = []string{wire.EmulatorKey}
	}
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server is the protocol over one store. It serves until the store is closed;
// whoever made the store closes it.
type Server struct {
	db     *engine.DB
	o      Options
	keys   []grantedKey
	routes routeIndex
	// queries are the compiled queries.
	queries querypage.Cache
	// budget bounds the memory of all requests; nil: nothing does.
	budget *budget
	// pageTime is how long a page of a query is read; zero outside tests.
	pageTime time.Duration
	// tokens verifies AAD tokens.
	tokens *aad.Verifier

	conditions conditionTimes
	// conditionSlots has one place for each condition that may be evaluated at a time: half of
	// the processors, so that other requests are served meanwhile.
	conditionSlots chan struct{}
	// onCondition is called before each evaluation of a condition in tests; nil outside them.
	onCondition func()

	metrics *metrics
	faults  Faults
	freezes freezes
	// draining is closed by Drain, once.
	draining chan struct{}
	drain    sync.Once
}

// New returns a server over a store. Errors: a key that is no base64, an endpoint
// that is no absolute URL, a number of partitions that no container can have, an
// issuer that can't be asked safely, a retention that is no whole number of minutes.
func New(face *store.DB, o Options) (*Server, error) {
	o = o.withDefaults()
	db := (*engine.DB)(face)
	s := &Server{db: db, o: o, draining: make(chan struct{}), conditionSlots: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))}
	if o.Partitions < 0 || o.Partitions > engine.MaxPartitions {
		return nil, fmt.Errorf("server: Partitions is %d; it can be 1 to %d", o.Partitions, engine.MaxPartitions)
	}
	if o.MemoryLimit < 0 || o.MemoryLimit > 0 && o.MemoryLimit < MinMemoryLimit {
		return nil, fmt.Errorf("server: MemoryLimit is %d; it is at least %d bytes, or 0 for no limit", o.MemoryLimit, MinMemoryLimit)
	}
	if o.MaxConnections < 0 {
		return nil, fmt.Errorf("server: MaxConnections is %d; it is positive, or 0 for no limit", o.MaxConnections)
	}
	s.budget = newBudget(o.MemoryLimit)
	if o.Versions < 0 || o.Versions%time.Minute != 0 {
		return nil, fmt.Errorf("server: Versions is %s; it is a whole number of minutes", o.Versions)
	}
	if o.PublicEndpoint != "" {
		u, err := url.Parse(o.PublicEndpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("server: PublicEndpoint %q is no URL of the form https://host:port/", o.PublicEndpoint)
		}
	}
	var err error
	if s.keys, err = grantKeys(o.Keys, o.ReadOnlyKeys); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	var writeKeys []wire.Key
	for _, k := range s.keys[:len(o.Keys)] {
		writeKeys = append(writeKeys, k.key)
	}
	if s.tokens, err = aad.NewVerifier(aad.Issuer(o.Issuer), writeKeys, o.Logger); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if s.routes, err = indexRoutes(s.table()); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	for _, r := range s.table() {
		if !slices.Contains(s.faults.operations, r.op) {
			s.faults.operations = append(s.faults.operations, r.op)
		}
	}
	if s.metrics, err = newMetrics(o.Metrics, db); err != nil {
		return nil, fmt.Errorf("server: metrics: %w", err)
	}
	return s, nil
}

// Faults are the faults that the server injects; none at first.
func (s *Server) Faults() *Faults { return &s.faults }

// InFlight returns how many bytes the requests under way hold, as Options.MemoryLimit counts them; 0 without a limit.
func (s *Server) InFlight() int64 {
	if s.budget == nil {
		return 0
	}
	return s.budget.inFlight()
}

// Drain lets go of the requests that a fault or a frozen partition holds, with 503, because the server is
// to end. They would keep it from that, see [http.Server.RegisterOnShutdown].
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// ServeHTTP carries out one request. A panic in an operation is answered with
// 500 and the request's activity id, logged with its stack, and ends nothing else.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	counted := &countingWriter{ResponseWriter: w}
	x := newRequest(s, counted, r)
	defer func() { s.metrics.record(x, counted.n) }()
	defer x.releaseSlot()
	defer func() { // the headers are in memory until the connection's next request
		x.memory.release(ofBodies)
		x.memory.release(ofAnswers)
	}()
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p) // the connection is to be dropped
			}
			x.logPanic(p)
			if x.status != 0 {
				// A part of the answer is out: only the end of the connection can tell the client.
				panic(http.ErrAbortHandler)
			}
			x.fail(errInternal)
		}
	}()
	if err := s.serve(x); err != nil {
		x.fail(err)
	}
	if s.o.Logger.Enabled(r.Context(), slog.LevelDebug) { // asked first: the values of the line are an allocation each
		s.o.Logger.DebugContext(r.Context(), "request", "operation", x.op, "method", r.Method, "path", r.URL.EscapedPath(),
			"status", x.status, "substatus", x.substatus, "charge", x.charge, "activity", x.activity, "elapsed", time.Since(x.began))
	}
}

// logPanic logs a panic of an operation. It is called by the function that recovers it.
func (x *request) logPanic(p any) {
	x.s.o.Logger.ErrorContext(x.r.Context(), "request panicked", "activity", x.activity, "operation", x.op,
		"panic", p, "stack", string(debug.Stack()))
}

// maxPath is the longest path, in bytes. Names of 255 characters, each of up to 12 bytes when it is escaped, fit in it.
const maxPath = 16 << 10

// serve finds the operation and calls it.
func (s *Server) serve(x *request) error {
	escaped := x.r.URL.EscapedPath()
	if len(escaped) > maxPath {
		return failure(http.StatusRequestURITooLong, wire.SubNone, "the path of the request has %d bytes; at most %d are taken", len(escaped), maxPath)
	}
	switch first, rest, _ := strings.Cut(strings.Trim(escaped, "/"), "/"); first {
	case adminPrefix:
		return s.serveAdmin(x, rest)
	case addressesPath:
		return errDirectMode
	}
	path, err := wire.ParsePath(escaped)
	if err != nil {
		// What can't be read can't be signed either: a stranger is told that first.
		if x.header("Authorization") == "" {
			return errNoAuthorization
		}
		return badRequest("%v", err)
	}
	x.path = path
	route, err := s.routes.find(x)
	if err != nil {
		// Whoever can't sign is told so first, whatever he asked for.
		if _, denied := s.authorize(x); denied != nil {
			return denied
		}
		return err
	}
	x.op = route.op
	grant, err := s.authorize(x)
	if err != nil {
		return err
	}
	if err := grant.permits(x, route); err != nil {
		return err
	}
	return x.checkOwner(s.applyFaults(x, route.serve))
}
