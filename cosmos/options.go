package cosmos

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

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
