package cosmos

import (
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// The pipeline of requests. From the outside in: azcore's own policies and the user's, azcore's retries, the choice of a
// region, the signature, azcore's logging and the transport.

// The name and the version of this package in the user agent.
const (
	moduleName    = "changefeed"
	moduleVersion = "v0.3.0"
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

// retriedStatuses are the answers after which azcore tries again. 429 is none of them: the caller has its own pauses,
// and shows them.
var retriedStatuses = []int{
	http.StatusRequestTimeout, 449, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
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
		o.Retry.StatusCodes = retriedStatuses
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

// client is the account's pipeline.
type client struct {
	account *Account
	core    *azcore.Client
}

func newClient(a *Account) (*client, error) {
	c := &client{account: a}
	core, err := azcore.NewClient(moduleName, moduleVersion, runtime.PipelineOptions{
		AllowedHeaders: loggedHeaders,
		PerRetry:       []policy.Policy{signer{a.auth}},
		Tracing:        runtime.TracingOptions{Namespace: tracingNamespace},
	}, &a.options.ClientOptions)
	c.core = core
	return c, err
}

// signer is the policy that writes the Authorization header, anew for every attempt.
type signer struct{ auth authenticator }

func (s signer) Do(r *policy.Request) (*http.Response, error) {
	raw := r.Raw()
	raw.Header.Set(wire.HeaderVersion, restVersion)
	if err := s.auth.authorize(raw.Context(), raw); err != nil {
		return nil, err
	}
	return r.Next()
}
