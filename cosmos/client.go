package cosmos

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// The pipeline of requests has these parts, from the outside in: azcore's own policies
// and the user's, azcore's retries, the choice of a region, the budget, the signature,
// the user's other policies, azcore's logging, and the transport.

// These constants name this package and its version in the user agent.
const (
	moduleName    = "changefeed"
	moduleVersion = "v0.1.0"
	// restVersion is the version of the REST API. The SDKs for .NET and Java use the
	// same.
	restVersion = "2020-07-15"
	// tracingNamespace is the name of the resource provider in the spans of Azure SDKs.
	tracingNamespace = "Microsoft.DocumentDB"
)

// These are the timeouts of the default transport. They equal those of the SDK for Go. An
// unreachable region is given up after 5 s. A request may last a little longer than the
// gateway's limit of 60 s.
const (
	connectTimeout = 5 * time.Second
	requestTimeout = 65 * time.Second
)

// passes reports whether azcore retries after a response or an error. 429 is not retried,
// because the caller has its own pauses and reports them. azcore calls passes only after
// all regions have failed.
func passes(r *http.Response, err error) bool {
	if err != nil {
		return !isMismatch(err)
	}
	switch r.StatusCode {
	case http.StatusRequestTimeout, wire.StatusRetryWith, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return true
	case http.StatusGone: // the service is moving the partition
		return r.Header.Get(wire.HeaderSubStatus) == strconv.Itoa(wire.SubCompletingMigration)
	case http.StatusNotFound: // the replica lacks the session's latest writes, or the position of a read, whose end our server sends as the etag
		return r.Header.Get("Etag") == "" && r.Header.Get(wire.HeaderSubStatus) == strconv.Itoa(wire.SubReadSessionNotAvailable)
	}
	return false
}

// loggedHeaders are the headers whose values may be logged.
var loggedHeaders = []string{
	wire.HeaderActivityID, wire.HeaderAIM, wire.HeaderRequestCharge, wire.HeaderSubStatus, wire.HeaderRetryAfter, wire.HeaderSessionToken,
	wire.HeaderPartitionID, wire.HeaderStartEPK, wire.HeaderEndEPK, wire.HeaderItemCount, wire.HeaderMaxItemCount, wire.HeaderVersion, wire.HeaderLSN,
	"If-None-Match", "If-Modified-Since", "Etag",
}

func (o Options) withDefaults() Options {
	o.PreferredRegions = slices.Clone(o.PreferredRegions)
	if o.Transport == nil {
		o.Transport = defaultTransport
	}
	if o.Retry.StatusCodes == nil && o.Retry.ShouldRetry == nil {
		o.Retry.ShouldRetry = passes
	}
	return o
}

// defaultTransport is shared by all accounts, with its connections. It takes proxies from
// the environment.
var defaultTransport = newDefaultTransport()

func newDefaultTransport() *http.Client {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}
	return &http.Client{Timeout: requestTimeout, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		MaxIdleConns: 1000, MaxIdleConnsPerHost: 100, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
	}}
}

// client is the account's pipeline. It tracks the account's regions.
type client struct {
	endpoint *url.URL
	core     *azcore.Client
	regions  *regions
	// byKey reports whether requests are signed with an account key.
	byKey bool
}

func newClient(a *Account) (*client, error) {
	c := &client{endpoint: a.endpoint, regions: newRegions(a.endpoint, a.options), byKey: a.credential == nil}
	o := a.options.ClientOptions
	o.PerRetryPolicies = append(slices.Clone(o.PerRetryPolicies), counter{})
	core, err := azcore.NewClient(moduleName, moduleVersion, runtime.PipelineOptions{
		AllowedHeaders: loggedHeaders,
		PerRetry:       []policy.Policy{failover{c.regions}, meter{a.options.Budget}, signer{a.auth}},
		Tracing:        runtime.TracingOptions{Namespace: tracingNamespace},
	}, &o)
	c.core = core
	return c, err
}

// call is one request to the service, with what its attempts had in common.
type call struct {
	// span names the operation in traces, and op in errors: "Source.ReadFeed" and "read the
	// feed".
	span, op string
	// method is the HTTP method. If empty, it is GET.
	method string
	// path is the escaped path of the request's URL.
	path   string
	header http.Header
	// body is JSON, or nil.
	body []byte
	// account reports whether the call reads the account itself. Such a call goes to the
	// endpoint that the user gave.
	account bool
	// writes reports whether the call goes to the region of writes: it writes, or it reads
	// what a conditional write needs.
	writes bool
	// early reports whether the call may be a program's first. If no connection can be made,
	// it fails at once, because the address may be wrong. With azcore's retries nobody would
	// learn of that for several seconds.
	early bool
	// once keeps azcore from retrying the call. The caller needs the outcome of each attempt.
	once bool
	// kind is the kind of the call in the budget, unless the call is free.
	kind requestKind
	// free reports whether the budget does not count the call.
	free bool

	// sent counts the attempts that left the pipeline. If there were several, an earlier
	// one may have succeeded and be the cause of a refusal.
	sent atomic.Int32
	// charge is the sum of the charges of all attempts, in request units.
	charge float64
	// lacking reports whether the region of writes itself responded with 404/1002.
	lacking bool
	// failed is the error of the last attempt, or nil if that succeeded.
	failed error
}

// again reports whether the call was sent more than once.
func (q *call) again() bool { return q.sent.Load() > 1 }

// answer is a response of the service, with its body.
type answer struct {
	status int
	header http.Header
	body   []byte
	// failure is azcore's error for the response. It is nil for the statuses 200, 201, 204,
	// 207 and 304.
	failure *azcore.ResponseError
}

// do executes a call. It returns errors of the transport, the credential, the context or
// the budget. A refusal by the service is not an error here.
func (c *client) do(ctx context.Context, q *call) (a *answer, err error) {
	ctx, end := runtime.StartSpan(ctx, q.span, c.core.Tracer(), nil)
	defer func() { end(err) }()
	if !c.regions.limited {
		if _, err = c.topology(ctx); err != nil {
			return nil, err
		}
	}
	for range 2 {
		if a, err = c.try(ctx, q); err != nil || !a.moved() {
			break
		}
		// The region no longer has the account. Read the account's present regions and
		// try again.
		if refreshed, failed := c.refresh(ctx, time.Time{}); failed != nil || !refreshed {
			break
		}
	}
	return a, err
}

// try sends a call through the pipeline once, with azcore's retries.
func (c *client) try(ctx context.Context, q *call) (*answer, error) {
	if q.once {
		ctx = policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
	}
	r, err := runtime.NewRequest(ctx, cmp.Or(q.method, http.MethodGet), c.endpoint.Scheme+"://"+c.endpoint.Host+q.path)
	if err == nil && q.body != nil {
		err = r.SetBody(streaming.NopCloser(bytes.NewReader(q.body)), "application/json")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.op, err)
	}
	for name, values := range q.header {
		r.Raw().Header[name] = values
	}
	r.Raw().Header.Set("Accept", "application/json")
	runtime.SkipBodyDownload(r) // azcore must not read the body, because failover reads it
	r.SetOperationValue(q)
	response, err := c.core.Pipeline().Do(r)
	if errors.Is(err, context.DeadlineExceeded) && q.failed != nil { // the deadline has passed in the pause between two attempts
		err = fmt.Errorf("%w; before that: %w", err, q.failed)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.op, err)
	}
	return newAnswer(response)
}

// signer is the policy that completes every attempt of a request: its date, its activity
// id and its signature.
type signer struct{ auth authenticator }

func (s signer) Do(r *policy.Request) (*http.Response, error) {
	raw := r.Raw()
	if raw.Header.Get(wire.HeaderVersion) == "" { // some requests of package rest need another version
		raw.Header.Set(wire.HeaderVersion, restVersion)
	}
	raw.Header.Set(wire.HeaderActivityID, newActivityID())
	raw.Header.Set("Cache-Control", "no-cache") // otherwise a cache on the way could return an old response
	if err := s.auth.authorize(raw.Context(), raw); err != nil {
		return nil, final{err}
	}
	return r.Next()
}

// meter is the policy that waits for the budget and counts the charge of every attempt.
type meter struct{ budget *Budget }

func (m meter) Do(r *policy.Request) (*http.Response, error) {
	q := &call{}
	r.OperationValue(&q)
	budget := m.budget
	if q.free {
		budget = nil
	}
	ticket, err := budget.admit(r.Raw().Context(), q.kind)
	if err != nil {
		return nil, final{err}
	}
	response, err := r.Next()
	if _, unsent := errors.AsType[final](err); unsent { // there is no token to sign it with
		ticket.cancel()
		return response, err
	}
	charge := chargeOf(response)
	ticket.settle(charge)
	q.charge += charge
	return response, err
}

// counter is the policy that counts the attempts of a call. It comes after the user's
// policies, which may send a request twice.
type counter struct{}

func (counter) Do(r *policy.Request) (*http.Response, error) {
	var q *call
	if r.OperationValue(&q) {
		q.sent.Add(1)
	}
	return r.Next()
}

// chargeOf returns the charge of a request. It is zero if there is no response, or if the
// response does not contain it.
func chargeOf(response *http.Response) float64 {
	if response == nil {
		return 0
	}
	charge, err := strconv.ParseFloat(response.Header.Get(wire.HeaderRequestCharge), 64)
	if err != nil || !(charge >= 0) {
		return 0
	}
	return charge
}

// final marks an error that azcore must not retry, by the method NonRetriable.
type final struct{ error }

// NonRetriable marks the error for azcore.
func (final) NonRetriable() {}

// Unwrap returns the error.
func (f final) Unwrap() error { return f.error }
