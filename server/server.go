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

// Options configure a server. The zero value of a field is its default.
type Options struct {
	// Keys are the account keys (base64), which may read and write. Default: the well-known key of
	// the local emulators, which is no secret.
	Keys []string
	// ReadOnlyKeys are account keys (base64) that may only read. Default: none.
	ReadOnlyKeys []string
	// Issuer is an issuer whose AAD tokens are accepted, besides those in the emulators' form. Default: none.
	Issuer Issuer
	// PublicEndpoint is the URL in the account document, which clients then use. Default: it is
	// made from the Host header of each request, so that the client can reach it.
	PublicEndpoint string
	// Partitions is the least number of physical partitions of a new container. Default: 1.
	Partitions int
	// EnforceThroughput answers 429 when the provisioned throughput of a container is used up. The
	// store must be opened to enforce it, too. The throughput of a database, which containers
	// without their own share, is never enforced. Default: throughput is stored and shown only.
	EnforceThroughput bool
	// Versions is how long a container keeps all versions if its properties do not set a retention,
	// in whole minutes. It corresponds to an account with continuous backup, where every container
	// can be read in all versions and deletes mode. Default: only containers with a retention keep
	// versions.
	Versions time.Duration
	// ServeAllQueries answers every query over a whole container in one request a page. Default: as
	// in the service, a query whose rows have to be merged over partitions is answered 400 with
	// sub-status 1004 and its plan. Such queries have ORDER BY, OFFSET LIMIT, DISTINCT, GROUP BY or
	// aggregates. SDKs follow the plan: they query each partition and merge. Code that works with
	// an SDK then works in the service.
	ServeAllQueries bool
	// MemoryLimit limits the memory, in bytes, that all requests use together: headers (see
	// [Server.Guard]), bodies, answers that wait for their readers, and the work of reads and
	// queries. A request without room is answered 429 with x-ms-retry-after-ms. The memory of the
	// store is not included. At least [MinMemoryLimit]. Default: no limit.
	MemoryLimit int64
	// MaxConnections limits the connections of [Server.Guard]. Beyond it, the connection that is
	// idle longest is closed. Default: no limit.
	MaxConnections int
	// Logger receives a line for each request at debug level, and failures at error level. Default:
	// none.
	Logger *slog.Logger
	// Metrics receives the metrics of the server: requests by operation and status with their time,
	// bytes and request units; documents and partitions of each container. Default: none.
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

// MinMemoryLimit is the least [Options.MemoryLimit], in bytes: the share of bodies has room for a
// document of the largest size.
const MinMemoryLimit = 32 << 20

// withDefaults returns the options with defaults for zero fields.
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

// Server serves the protocol over one store, until the store is closed. The caller of New closes
// the store.
type Server struct {
	db     *engine.DB
	o      Options
	keys   []grantedKey
	routes routeIndex
	// queries are the compiled queries.
	queries querypage.Cache
	// budget limits the memory of all requests; nil means no limit.
	budget *budget
	// pageTime is how long a page of a query is read; zero outside tests.
	pageTime time.Duration
	// tokens verifies AAD tokens.
	tokens *aad.Verifier

	conditions conditionTimes
	// conditionSlots has a slot for each condition that is evaluated at a time: half of the
	// processors, so that other requests are served meanwhile.
	conditionSlots chan struct{}
	// onCondition is called before each evaluation of a condition in tests; else it is nil.
	onCondition func()

	metrics *metrics
	faults  Faults
	freezes freezes
	// Drain closes draining, once.
	draining chan struct{}
	drain    sync.Once
}

// New returns a server over a store. It returns an error for an invalid option: a key that is not
// base64, an endpoint that is not an absolute URL, an impossible number of partitions, an issuer
// whose responses cannot be trusted, or a retention that is not whole minutes.
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

// Faults returns the faults that the server injects; none at first.
func (s *Server) Faults() *Faults { return &s.faults }

// InFlight returns how many bytes the current requests use, as Options.MemoryLimit counts them; 0
// without a limit.
func (s *Server) InFlight() int64 {
	if s.budget == nil {
		return 0
	}
	return s.budget.inFlight()
}

// Drain answers 503 to the requests that wait for a fault or a frozen partition, because the server
// is going to end. They would delay its end, see [http.Server.RegisterOnShutdown].
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// ServeHTTP carries out one request. A panic in an operation is logged with its stack and answered
// with 500. It ends nothing else.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	counted := &countingWriter{ResponseWriter: w}
	x := newRequest(s, counted, r)
	defer func() { s.metrics.record(x, counted.n) }()
	defer x.releaseSlot()
	defer func() { // the headers remain in memory until the next request of the connection
		x.memory.release(ofBodies)
		x.memory.release(ofAnswers)
	}()
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p) // closes the connection
			}
			x.logPanic(p)
			if x.status != 0 {
				// A part of the answer is sent: only the end of the connection can report the failure.
				panic(http.ErrAbortHandler)
			}
			x.fail(errInternal)
		}
	}()
	if err := s.serve(x); err != nil {
		x.fail(err)
	}
	if s.o.Logger.Enabled(r.Context(), slog.LevelDebug) { // each value of the line is an allocation
		s.o.Logger.DebugContext(r.Context(), "request", "operation", x.op, "method", r.Method, "path", r.URL.EscapedPath(),
			"status", x.status, "substatus", x.substatus, "charge", x.charge, "activity", x.activity, "elapsed", time.Since(x.began))
	}
}

// logPanic logs a panic of an operation. It is called by the function that recovers it.
func (x *request) logPanic(p any) {
	x.s.o.Logger.ErrorContext(x.r.Context(), "request panicked", "activity", x.activity, "operation", x.op,
		"panic", p, "stack", string(debug.Stack()))
}

// maxPath is the size in bytes of the longest path. Escaped names of 255 characters, each of up to
// 12 bytes, fit in it.
const maxPath = 16 << 10

// serve finds the operation of a request and calls it.
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
		// A path that cannot be parsed cannot be signed either. Strangers receive the same answer as always.
		if x.header("Authorization") == "" {
			return errNoAuthorization
		}
		return badRequest("%v", err)
	}
	x.path = path
	route, err := s.routes.find(x)
	if err != nil {
		// The signature is checked first, whatever the request asks for.
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
