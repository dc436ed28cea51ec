package cosmos

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// Account is an Azure Cosmos DB account and how to reach it. Create one and share it,
// because its methods are safe for concurrent use and its Sources and Leases share
// connections and what is known of the regions. There is nothing to close.
type Account struct {
	endpoint *url.URL
	// host is the host of the endpoint as the user wrote it. Lease ids contain it.
	host string
	auth authenticator
	// credential is nil if requests are signed with a key.
	credential azcore.TokenCredential
	options    Options
	client     *client
}

// WithKey returns the account at an endpoint such as
// https://mine.documents.azure.com:443/, with one of its keys. A read-only key is enough
// for a [Source], but not for leases. WithKey sends no request; its error means that the
// endpoint is not a URL or the key is not base64.
func WithKey(endpoint, key string, o Options) (*Account, error) {
	decoded, err := wire.ParseKey(strings.TrimSpace(key))
	if err != nil {
		return nil, fmt.Errorf("cosmos: %w", err)
	}
	a := &Account{auth: &keyAuth{key: decoded}}
	return a.open(endpoint, o)
}

// WithConnectionString returns the account for a connection string, which has the
// portal's form AccountEndpoint=URL;AccountKey=KEY. A missing part is an error, and so is
// a string that disables the validation of certificates.
func WithConnectionString(text string, o Options) (*Account, error) {
	endpoint, key, err := parseConnectionString(text)
	if err != nil {
		return nil, fmt.Errorf("cosmos: %w", err)
	}
	return WithKey(endpoint, key, o)
}

// WithCredential returns the account at an endpoint, with an Entra ID credential, for
// instance from azidentity. Prefer it to [WithKey] in production, because there is no
// secret to keep. The principal needs a role in the account's own role-based access
// control: "Cosmos DB Built-in Data Reader" is enough for a [Source], but [Leases] need
// "Cosmos DB Built-in Data Contributor".
//
// A missing credential, or an endpoint that is not a URL or has no TLS, is an error.
func WithCredential(endpoint string, credential azcore.TokenCredential, o Options) (*Account, error) {
	if credential == nil {
		return nil, errors.New("cosmos: a credential is required")
	}
	a := &Account{credential: credential}
	return a.open(endpoint, o)
}

// open completes the account: it checks the endpoint and the options, and creates the
// pipeline.
func (a *Account) open(endpoint string, o Options) (*Account, error) {
	u, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, fmt.Errorf("cosmos: %w", err)
	}
	if a.credential != nil && u.Scheme == "http" && !o.InsecureAllowCredentialWithHTTP {
		return nil, errors.New("cosmos: a token of Entra ID is not sent without TLS, because others could read and use it; begin the endpoint with https " +
			"(or set Options.InsecureAllowCredentialWithHTTP)")
	}
	if err := o.Budget.validate(); err != nil {
		return nil, fmt.Errorf("cosmos: %w", err)
	}
	if err := o.Consistency.validate(); err != nil {
		return nil, fmt.Errorf("cosmos: %w", err)
	}
	a.endpoint, a.host, a.options = u, u.Hostname(), o.withDefaults()
	if a.credential != nil {
		a.auth = newTokenAuth(a.credential, scopes(u, o))
	}
	a.client, err = newClient(a)
	if err != nil {
		return nil, fmt.Errorf("cosmos: %w", err)
	}
	return a, nil
}

// Endpoint returns the account's URL.
func (a *Account) Endpoint() string { return a.endpoint.String() }

// String returns a text with the endpoint, never with the key.
func (a *Account) String() string { return "Azure Cosmos DB account " + a.Endpoint() }

// GoString returns the same text as String, for %#v.
func (a *Account) GoString() string { return a.String() }

// LogValue returns the same text as String, for log/slog.
func (a *Account) LogValue() slog.Value { return slog.StringValue(a.String()) }

// parseEndpoint parses the URL of an account.
func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(endpoint))
	switch {
	case err != nil:
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err // without the URL's text, which may contain a key
		}
		return nil, fmt.Errorf("the endpoint is not a URL: %w", err)
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, fmt.Errorf("the endpoint is %.200q; it has the form https://ACCOUNT.documents.azure.com:443/", u.Redacted())
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil:
		return nil, fmt.Errorf("the endpoint is %.200q; it must contain only a scheme, a host and a port", u.Redacted())
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}, nil
}

// parseConnectionString parses the endpoint and the key of a connection string. Names are
// not case-sensitive. A value may contain "=", as keys do. Parts that only other SDKs
// support are ignored, unless they would weaken security.
func parseConnectionString(text string) (endpoint, key string, err error) {
	for part := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, found := strings.Cut(part, "=")
		if !found {
			return "", "", errors.New("the connection string has a part without a value; it has the form AccountEndpoint=URL;AccountKey=KEY;")
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "accountendpoint":
			endpoint = value
		case "accountkey":
			key = value
		case "disableservercertificatevalidation":
			if !strings.EqualFold(strings.TrimSpace(value), "false") {
				return "", "", errors.New("the connection string may not disable the validation of certificates (DisableServerCertificateValidation is accepted only with the value False); leave that out, " +
					"and give Options.Transport a client that trusts the server's certificate")
			}
		}
	}
	if endpoint == "" || key == "" {
		return "", "", errors.New("the connection string needs AccountEndpoint and AccountKey")
	}
	return endpoint, key, nil
}

// Options configures how an account is reached. The zero value is good for most programs.
type Options struct {
	// ClientOptions are the options of every Azure SDK: transport (with proxies and TLS),
	// retries, logging, tracing, the application's id in the user agent, custom policies,
	// and the cloud.
	//
	// Without a Transport, the default one takes proxies from the environment (HTTPS_PROXY,
	// NO_PROXY), and gives up a connection attempt after 5 s and a request after 65 s.
	//
	// Without Retry.StatusCodes and Retry.ShouldRetry, these statuses are retried: 404/1002,
	// 408, 410/1008, 449, 500, 502, 503 and 504. 429 is not retried, because whoever reads
	// the feed or writes the lease decides when to.
	azcore.ClientOptions
	// PreferredRegions are names of the account's regions ("West Europe"), in the order
	// in which to read from them. When a region fails, reads go to the next one for five
	// minutes. If empty, the account's regions are used in the account's order.
	PreferredRegions []string
	// LimitToEndpoint keeps all requests at the given endpoint and asks for no regions. Use
	// it for emulators and gateways that advertise an address which the client cannot reach.
	LimitToEndpoint bool
	// Consistency weakens the account's consistency level for reads. If empty, the
	// account's level is used.
	Consistency ConsistencyLevel
	// Budget limits the request units per second for the account's Sources and Leases,
	// together with all other accounts that use the same Budget. If nil, there is no limit.
	Budget *Budget
}

// ConsistencyLevel is one of the service's consistency levels, by its name in the REST
// API. The official SDK for Go has the same texts.
type ConsistencyLevel string

// The consistency levels, the strongest first.
const (
	Strong           ConsistencyLevel = "Strong"
	BoundedStaleness ConsistencyLevel = "BoundedStaleness"
	Session          ConsistencyLevel = "Session"
	ConsistentPrefix ConsistencyLevel = "ConsistentPrefix"
	Eventual         ConsistencyLevel = "Eventual"
)

// validate returns an error if the level is not one of the service's.
func (l ConsistencyLevel) validate() error {
	switch l {
	case "", Strong, BoundedStaleness, Session, ConsistentPrefix, Eventual:
		return nil
	}
	return fmt.Errorf("Options.Consistency is %.40q; it is Strong, BoundedStaleness, Session, ConsistentPrefix or Eventual", string(l))
}

// ServiceName is the service's name in [Options.Cloud], where another scope for tokens
// can be configured. The official SDK for Go uses the same name.
const ServiceName cloud.ServiceName = "data/azcosmos"

// These durations control how long the client uses an account's topology. They equal
// those of the SDKs for .NET and Go.
const (
	// accountRefresh is the maximum age of the account's topology.
	accountRefresh = 5 * time.Minute
	// unavailableFor is the time for which a region that failed is tried after all
	// others.
	unavailableFor = 5 * time.Minute
	// failureRefresh is the minimum time between two refreshes because of failed regions.
	failureRefresh = 10 * time.Second
	// refreshTimeout limits a refresh of a topology that is known but too old. The
	// request that caused the refresh waits for it.
	refreshTimeout = 5 * time.Second
)
