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
	"github.com/changefeed-go/changefeed/storetype"
)

// Options configures a server. A zero field means its default.
type Options struct {
	// Keys are the account keys (base64), which may read and write. If empty, the
	// well-known key of the local emulators is used, which is not a secret.
	Keys []string
	// ReadOnlyKeys are account keys (base64) that may only read.
	ReadOnlyKeys []string
	// Issuer is an issuer whose AAD tokens are accepted, in addition to tokens in the
	// emulators' form. If zero, only the latter are accepted.
	Issuer Issuer
	// PublicEndpoint is the URL in the account document, which clients then use. If empty,
	// each request gets the one in its Host header, which its client can evidently reach.
	// Set it when a proxy changes that header.
	PublicEndpoint string
	// Partitions is how many physical partitions a new container has at least. If zero, 1 is
	// used.
	Partitions int
	// Versions is how long a container keeps all versions, in whole minutes, unless its
	// properties set a retention. With it the account is like one with continuous backup,
	// where every container can be read in all versions and deletes mode. If zero, only
	// containers with a retention keep versions.
	Versions time.Duration
	// DeletesWithoutPrevious leaves a deleted item's previous image out of all versions and
	// deletes mode, as in accounts made since December 2024. The delete's metadata has the
	// id and the partition key in any case.
	DeletesWithoutPrevious bool
	// ServeAllQueries makes the server answer every query over a whole container itself,
	// page by page. Reach for it when clients don't follow query plans. If false, the server
	// does as the service does: a query whose rows must be merged over partitions (ORDER BY,
	// OFFSET LIMIT, DISTINCT, GROUP BY, aggregates) is answered 400 with sub-status 1004 and
	// a plan. SDKs follow the plan: they query each partition and merge the rows, so code
	// that works here with an SDK also works with the service.
	ServeAllQueries bool
	// MemoryLimit limits the memory, in bytes, that all requests use together for headers
	// (see [Server.Guard]), bodies, answers that wait for their readers, and the work that
	// reads and queries do. A request that finds no room is answered 429 with
	// x-ms-retry-after-ms. The store's own memory comes on top. The least limit is
	// [MinMemoryLimit]. If zero, there is no limit.
	MemoryLimit int64
	// MaxConnections limits [Server.Guard]'s connections. At the limit, the connection that
	// has been idle longest is closed. If zero, there is no limit.
	MaxConnections int
	// Logger receives a line for each request at debug level, and failures at error level.
	// If nil, nothing is logged.
	Logger *slog.Logger
	// Metrics receives the server's metrics: requests by operation and status with their
	// duration, bytes and request units, and each container's documents and partitions. If
	// nil, there are no metrics.
	Metrics metric.MeterProvider
}

// Issuer is an OpenID Connect issuer, such as Microsoft Entra ID, whose AAD tokens are
// accepted. Whoever bears a token may write documents and read everything. The zero value
// means no issuer.
type Issuer struct {
	// URL is the issuer's URL, as in the claim iss. Its configuration is at
	// /.well-known/openid-configuration below it. The scheme must be https, unless the
	// issuer is on this machine; then http will do.
	URL string
	// Audiences are the values that the claim aud may have. If empty, they are
	// https://cosmos.azure.com, Azure Cosmos DB's own audience, and https://localhost.
	Audiences []string
	// Client fetches the configuration and the keys. If nil, a plain http.Client with a
	// timeout is used.
	Client *http.Client
}

// MinMemoryLimit is the least Options.MemoryLimit, in bytes. Below it, the largest
// document would not fit into the share for bodies.
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

// Server is an http.Handler that serves the protocol over one store. Close the store
// yourself, but only after the last request. A Server is safe for concurrent use.
type Server struct {
	db     *engine.DB
	o      Options
	keys   []grantedKey
	routes routeIndex
	// queries holds the queries that were compiled for earlier requests.
	queries querypage.Cache
	// budget limits the memory of all requests. nil means no limit.
	budget *budget
	// pageTime limits the time for reading a page of a query. 0 means the default. Only
	// tests set it.
	pageTime time.Duration
	// tokens verifies AAD tokens.
	tokens *aad.Verifier

	usages     usages
	costs      costs
	conditions conditionTimes
	// conditionSlots limits the number of conditions of patches that are evaluated at
	// once. It has a slot for half of the processors, so that other requests are served
	// meanwhile.
	conditionSlots chan struct{}
	// onCondition is called before each evaluation of a condition. Only tests set it.
	onCondition func()

	metrics *metrics
	faults  Faults
	freezes freezes
	// draining is closed by Drain, which uses drain to close it only once.
	draining chan struct{}
	drain    sync.Once
}

// New returns a server over a store, or an error if an option is invalid: for instance a
// key that is not base64, an endpoint that is not an absolute URL, a retention that is
// not in whole minutes, or a number that is out of range. An issuer whose responses
// cannot be trusted is an error, too.
func New(st *store.DB, o Options) (*Server, error) {
	o = o.withDefaults()
	db := (*engine.DB)(st)
	s := &Server{db: db, o: o, draining: make(chan struct{}), conditionSlots: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))}
	if o.Partitions < 0 || o.Partitions > storetype.MaxPartitions {
		return nil, fmt.Errorf("server: Partitions is %d; it must be 1 to %d", o.Partitions, storetype.MaxPartitions)
	}
	if o.MemoryLimit < 0 || o.MemoryLimit > 0 && o.MemoryLimit < MinMemoryLimit {
		return nil, fmt.Errorf("server: MemoryLimit is %d; it must be at least %d bytes, or 0 for no limit", o.MemoryLimit, MinMemoryLimit)
	}
	if o.MaxConnections < 0 {
		return nil, fmt.Errorf("server: MaxConnections is %d; it must be positive, or 0 for no limit", o.MaxConnections)
	}
	s.budget = newBudget(o.MemoryLimit)
	if o.Versions < 0 || o.Versions%time.Minute != 0 {
		return nil, fmt.Errorf("server: Versions is %s; it must be a whole number of minutes", o.Versions)
	}
	if o.PublicEndpoint != "" {
		u, err := url.Parse(o.PublicEndpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("server: PublicEndpoint %q is not a URL of the form https://host:port/", o.PublicEndpoint)
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
	if s.metrics, err = newMetrics(o.Metrics, db, s.faults.operations); err != nil {
		return nil, fmt.Errorf("server: metrics: %w", err)
	}
	return s, nil
}

// Faults returns the faults that the server injects, none at first. Add yours there.
func (s *Server) Faults() *Faults { return &s.faults }

// InFlight returns how many bytes the current requests use, as Options.MemoryLimit counts
// them, or 0 if there is no limit.
func (s *Server) InFlight() int64 {
	if s.budget == nil {
		return 0
	}
	return s.budget.inFlight()
}

// Drain answers 503 to the requests that a fault or a frozen partition delays. Call it
// when the server shuts down, which they would otherwise hold up. Register it with
// http.Server.RegisterOnShutdown.
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// ServeHTTP serves one request. A panic in an operation is logged with its stack and
// answered with 500, but other requests go on.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := newRequest(s, w, r)
	defer func() { s.metrics.record(x, x.counted.n) }()
	defer x.releaseSlot()
	defer func() { // the headers remain counted until the next request of the connection
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
				// A part of the answer was already sent. Closing the connection is the
				// only way to report the failure.
				panic(http.ErrAbortHandler)
			}
			x.fail(errInternal)
		}
	}()
	if err := s.serve(x); err != nil {
		x.fail(err)
	} else if s.db.EnforcesThroughput() && x.c != nil {
		s.costs.learn(x)
	}
	if s.o.Logger.Enabled(r.Context(), slog.LevelDebug) { // each value of the line is an allocation
		s.o.Logger.DebugContext(r.Context(), "request", "operation", x.op, "method", r.Method, "path", r.URL.EscapedPath(),
			"status", x.status, "substatus", x.substatus, "charge", x.charge, "activity", x.activity, "elapsed", time.Since(x.began))
	}
}

// logPanic logs the panic value p with its stack. It must be called from the deferred
// function that recovered the panic.
func (x *request) logPanic(p any) {
	x.s.o.Logger.ErrorContext(x.r.Context(), "request panicked", "activity", x.activity, "operation", x.op,
		"panic", p, "stack", string(debug.Stack()))
}

// maxPath is the length of the longest accepted path, in bytes. It has room for
// percent-encoded names of 255 characters, each of up to 12 bytes.
const maxPath = 16 << 10

// serve finds the operation of a request, checks the credential and calls the operation.
func (s *Server) serve(x *request) error {
	escaped := x.r.URL.EscapedPath()
	if len(escaped) > maxPath {
		return failure(http.StatusRequestURITooLong, wire.SubNone, "the path of the request has %d bytes; at most %d are accepted", len(escaped), maxPath)
	}
	switch first, rest, _ := strings.Cut(strings.Trim(escaped, "/"), "/"); first {
	case adminPrefix:
		return s.serveAdmin(x, rest)
	case addressesPath:
		return errDirectMode
	}
	path, err := wire.ParsePath(escaped)
	if err != nil {
		// A path that cannot be parsed cannot be signed. An unsigned request gets the
		// same answer as for any other path, so that it reveals nothing.
		if x.header("Authorization") == "" {
			return errNoAuthorization
		}
		return errURL
	}
	x.path = path
	route, err := s.routes.find(x)
	if err != nil {
		// The signature is checked before the error is returned. So a client without a
		// key cannot find out which paths exist.
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
	switch level := x.header(wire.HeaderConsistency); strings.ToLower(level) {
	case "", "session", "consistentprefix", "eventual":
	case "strong", "boundedstaleness":
		return badRequest("ConsistencyLevel %s specified in the request is invalid when service is configured with consistency level Session. "+
			"Ensure the request consistency level is not stronger than the service consistency level.", level)
	default:
		return badRequest("the header %s has %q, which is no consistency level", wire.HeaderConsistency, level)
	}
	return x.checkOwner(s.applyFaults(x, route.serve))
}
