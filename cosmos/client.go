package cosmos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// The pipeline of requests. From the outside in: azcore's own policies and the user's, azcore's retries, the choice of a
// region, the budget and the signature, azcore's logging and the transport.

// The name and the version of this package in the user agent.
const (
	moduleName    = "changefeed"
	moduleVersion = "v0.1.0"
	// restVersion is the version of the REST API, that of the SDKs for .NET and Java.
	restVersion = "2020-07-15"
	// tracingNamespace is the resource provider's, which spans of Azure SDKs carry.
	tracingNamespace = "Microsoft.DocumentDB"
)

// The times of the default transport, those of the SDK for Go: a region that can't be reached is given up soon, and a
// request lives a little longer than the gateway works on it (60 s).
const (
	connectTimeout = 5 * time.Second
	requestTimeout = 65 * time.Second
)

// statusRetryWith is the service's "try the same again", which has no name in net/http.
const statusRetryWith = 449

// passes reports whether azcore tries again after an answer, or an error in place of one. 429 isn't among them: the caller has
// its own pauses, and shows them. What azcore asks here has failed in all regions.
func passes(r *http.Response, err error) bool {
	if err != nil {
		return !isMismatch(err)
	}
	switch r.StatusCode {
	case http.StatusRequestTimeout, statusRetryWith, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return true
	case http.StatusGone: // partitions arrive where they move to
		return r.Header.Get(wire.HeaderSubStatus) == strconv.Itoa(wire.SubCompletingMigration)
	case http.StatusNotFound: // replicas catch up
		return r.Header.Get(wire.HeaderSubStatus) == strconv.Itoa(wire.SubReadSessionNotAvailable)
	}
	return false
}

// loggedHeaders may be logged with their values.
var loggedHeaders = []string{
	wire.HeaderActivityID, wire.HeaderAIM, wire.HeaderRequestCharge, wire.HeaderSubStatus, wire.HeaderRetryAfter, wire.HeaderSessionToken,
	wire.HeaderPartitionID, wire.HeaderStartEPK, wire.HeaderEndEPK, wire.HeaderItemCount, wire.HeaderMaxItemCount, wire.HeaderVersion, wire.HeaderLSN,
	"If-None-Match", "If-Modified-Since", "Etag",
}

// withDefaults fills in what the user left out.
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

// defaultTransport is shared by all accounts, as their connections are. Proxies come from the environment.
var defaultTransport = newDefaultTransport()

func newDefaultTransport() *http.Client {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}
	return &http.Client{Timeout: requestTimeout, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		MaxIdleConns: 1000, MaxIdleConnsPerHost: 100, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
	}}
}

// client is the account's pipeline. It knows the account's regions.
type client struct {
	endpoint *url.URL
	core     *azcore.Client
	regions  *regions
	// byKey reports whether requests are signed with an account key.
	byKey bool
}

func newClient(a *Account) (*client, error) {
	c := &client{endpoint: a.endpoint, regions: newRegions(a.endpoint, a.options), byKey: a.key != nil}
	core, err := azcore.NewClient(moduleName, moduleVersion, runtime.PipelineOptions{
		AllowedHeaders: loggedHeaders,
		PerRetry:       []policy.Policy{failover{c.regions}, meter{a.options.Budget}, signer{a.auth}},
		Tracing:        runtime.TracingOptions{Namespace: tracingNamespace},
	}, &a.options.ClientOptions)
	c.core = core
	return c, err
}

// call is one operation: what is asked, and what it has cost.
type call struct {
	// op names the operation in spans and errors.
	op string
	// path is escaped.
	path   string
	header http.Header
	// account marks a request for the account itself, which goes to the endpoint that the user gave.
	account bool
	// body makes the call a POST of it, in JSON: a write, which goes where the account is written to, and isn't the budget's.
	body []byte

	// charge is the sum over all attempts, in request units.
	charge float64
	// failed is the failure of the last attempt, nil: it has not failed.
	failed error
}

// answer is what the service said, with its body read.
type answer struct {
	status int
	header http.Header
	body   []byte
	// failure is the answer as azcore shows it; nil: none, the status is 200, 207 or 304.
	failure *azcore.ResponseError
}

// get carries out a call. An error is one of the transport, the credential, the context or the budget: an answer that
// refuses is no error here.
func (c *client) get(ctx context.Context, q *call) (a *answer, err error) {
	ctx, end := runtime.StartSpan(ctx, "Source."+q.op, c.core.Tracer(), nil)
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
		// The account is somewhere else now.
		if refreshed, failed := c.refresh(ctx, time.Time{}); failed != nil || !refreshed {
			break
		}
	}
	return a, err
}

// try sends a call through the pipeline once; azcore's retries are in it.
func (c *client) try(ctx context.Context, q *call) (*answer, error) {
	method := http.MethodGet
	if q.body != nil {
		method = http.MethodPost
	}
	r, err := runtime.NewRequest(ctx, method, c.endpoint.Scheme+"://"+c.endpoint.Host+q.path)
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
	runtime.SkipBodyDownload(r) // failover reads it, once
	r.SetOperationValue(q)
	response, err := c.core.Pipeline().Do(r)
	if errors.Is(err, context.DeadlineExceeded) && q.failed != nil { // the time ended in a pause between two attempts
		err = fmt.Errorf("%w; before that: %w", err, q.failed)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.op, err)
	}
	return newAnswer(response)
}

// signer is the policy that completes a request, anew for every attempt: its date, its number, its signature.
type signer struct{ auth authenticator }

func (s signer) Do(r *policy.Request) (*http.Response, error) {
	raw := r.Raw()
	raw.Header.Set(wire.HeaderVersion, restVersion)
	raw.Header.Set(wire.HeaderActivityID, newActivityID())
	raw.Header.Set("Cache-Control", "no-cache") // an answer of a cache on the way would be an old one
	if err := s.auth.authorize(raw.Context(), raw); err != nil {
		return nil, final{err}
	}
	return r.Next()
}

// meter is the policy that waits for the budget, and counts what every attempt costs.
type meter struct{ budget *Budget }

func (m meter) Do(r *policy.Request) (*http.Response, error) {
	var q *call
	known := r.OperationValue(&q)
	budget := m.budget
	if known && q.body != nil {
		budget = nil
	}
	ticket, err := budget.admit(r.Raw().Context(), kindFeed)
	if err != nil {
		return nil, final{err}
	}
	response, err := r.Next()
	charge := 0.0
	if err == nil {
		charge = chargeOf(response)
	}
	ticket.settle(charge)
	if known {
		q.charge += charge
	}
	return response, err
}

// final is an error that azcore doesn't try again after: it knows such by their method.
type final struct{ error }

// NonRetriable marks the error for azcore.
func (final) NonRetriable() {}

// Unwrap returns the error.
func (f final) Unwrap() error { return f.error }
