package cosmos

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// Account is an Azure Cosmos DB account, and how it is reached. It is made once and shared: its methods may be called
// concurrently, and it has nothing to close.
type Account struct {
	endpoint *url.URL
	// host is the endpoint's, as it was written: leases are named by it.
	host string
	auth authenticator
	// key and credential: one of them is set, for clients of azcosmos. The key is behind a pointer, as that of auth is: a copy
	// of an Account that is printed, or a struct that holds one, shows none.
	key        *string
	credential azcore.TokenCredential
	options    Options
	client     *client
}

// WithKey is the account at an endpoint such as https://mine.documents.azure.com:443/, by one of its keys. A read-only
// key will do for a Source, and not for leases. Error: the endpoint is no URL, or the key isn't base64.
func WithKey(endpoint, key string, o Options) (*Account, error) {
	decoded, err := wire.ParseKey(strings.TrimSpace(key))
	if err != nil {
		return nil, fmt.Errorf("cosmos: %w", err)
	}
	key = strings.TrimSpace(key)
	a := &Account{auth: &keyAuth{key: decoded}, key: &key}
	return a.open(endpoint, o)
}

// WithConnectionString is the account of a connection string, as the portal shows it:
// AccountEndpoint=https://...;AccountKey=...; Error: a part is missing, or what it asks for isn't supported.
func WithConnectionString(text string, o Options) (*Account, error) {
	endpoint, key, err := parseConnectionString(text)
	if err != nil {
		return nil, fmt.Errorf("cosmos: %w", err)
	}
	return WithKey(endpoint, key, o)
}

// WithCredential is the account at an endpoint, by Entra ID: a credential of azidentity, for instance. Its principal
// needs a role of the account's own role-based access control, such as "Cosmos DB Built-in Data Reader" for a Source and
// "Cosmos DB Built-in Data Contributor" for leases. Error: the endpoint is no URL or has no TLS,
// or there is no credential.
func WithCredential(endpoint string, credential azcore.TokenCredential, o Options) (*Account, error) {
	if credential == nil {
		return nil, errors.New("cosmos: there is no credential")
	}
	a := &Account{credential: credential}
	return a.open(endpoint, o)
}

// open checks the endpoint and makes the pipeline.
func (a *Account) open(endpoint string, o Options) (*Account, error) {
	u, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, fmt.Errorf("cosmos: %w", err)
	}
	if a.credential != nil && u.Scheme == "http" && !o.InsecureAllowCredentialWithHTTP {
		return nil, errors.New("cosmos: a token of Entra ID isn't sent without TLS, where anybody could read and use it: the endpoint has to begin with https " +
			"(or set Options.InsecureAllowCredentialWithHTTP)")
	}
	if err := o.Budget.validate(); err != nil {
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

// Endpoint is the URL that the account was made with.
func (a *Account) Endpoint() string { return a.endpoint.String() }

// String is the endpoint: an account that is printed or logged shows no key.
func (a *Account) String() string { return "Azure Cosmos DB account " + a.Endpoint() }

// GoString is String, for %#v.
func (a *Account) GoString() string { return a.String() }

// LogValue is String, for log/slog.
func (a *Account) LogValue() slog.Value { return slog.StringValue(a.String()) }

// parseEndpoint reads the URL of an account.
func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(endpoint))
	switch {
	case err != nil:
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err // the whole text may have a key in it
		}
		return nil, fmt.Errorf("the endpoint is no URL: %w", err)
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, fmt.Errorf("the endpoint is %.200q; it has the form https://ACCOUNT.documents.azure.com:443/", u.Redacted())
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil:
		return nil, fmt.Errorf("the endpoint is %.200q; it is a scheme, a host and a port, and nothing else", u.Redacted())
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}, nil
}

// parseConnectionString reads the parts of a connection string that are an account's. Names are compared without regard to case;
// a value may have "=" in it, as keys do. What other SDKs alone understand is ignored, except where it would weaken security.
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
			if strings.EqualFold(strings.TrimSpace(value), "true") {
				return "", "", errors.New("the connection string turns off the validation of certificates: leave DisableServerCertificateValidation out, " +
					"and give Options.Transport a client that trusts the server's certificate")
			}
		}
	}
	if endpoint == "" || key == "" {
		return "", "", errors.New("the connection string needs AccountEndpoint and AccountKey")
	}
	return endpoint, key, nil
}

// Options say how an account is reached. The zero value is good for most.
type Options struct {
	// ClientOptions are those of every Azure SDK: transport (proxies and TLS included), retries,
	// logging, tracing, the application's id in the user agent, policies of one's own, the cloud.
	//
	// Without a Transport, one is used that takes proxies from the environment (HTTPS_PROXY, NO_PROXY), gives up connecting
	// after 5 s and a request after 65 s. Without Retry.StatusCodes and Retry.ShouldRetry, 404/1002, 408, 410/1008,
	// 449, 500, 502, 503 and 504 are tried again, and 429 is not: whoever reads a feed or writes a lease is told, and knows better when.
	azcore.ClientOptions
	// PreferredRegions are names of the account's regions ("West Europe"), the one to read from first. When it fails, the
	// next is read from, for five minutes. Default: the account's regions, in its own order.
	PreferredRegions []string
	// LimitToEndpoint keeps all requests at the endpoint that was given: the account's regions are not asked for. It is
	// for emulators and gateways that advertise an address which the client can't reach.
	LimitToEndpoint bool
	// Consistency weakens the account's consistency level for reads. Default: the account's.
	Consistency azcosmos.ConsistencyLevel
	// Budget caps the request units per second that the account's Sources and Leases spend, together with those of every
	// other account that it was given to. Default: none.
	Budget *Budget
}

// The times of an account's topology, those of the SDKs for .NET and Go.
const (
	// accountRefresh is how old what is known of the account's regions may be.
	accountRefresh = 5 * time.Minute
	// unavailableFor is how long a region is read from last, after it failed.
	unavailableFor = 5 * time.Minute
	// failureRefresh is how often the account is asked for because of regions that fail.
	failureRefresh = 10 * time.Second
	// refreshTimeout is how long asking for the account may hold up a request that could go on without.
	refreshTimeout = 5 * time.Second
)
