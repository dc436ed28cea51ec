package server

import (
	"net"
	"net/http"
	"strings"
)

// GET /: the account. Every SDK begins with it, and goes to the endpoint it
// names. One region that can be written to, session consistency. The id
// "localhost" makes the JavaScript SDK keep the endpoint it was given. The _rid
// is the store's, so that two servers are two accounts. Regions
// of a thin client, per-partition failover and hedging are left out: each
// switches on something in an SDK that a single server has not.

type location struct {
	Name     string `json:"name"`
	Endpoint string `json:"databaseAccountEndpoint"`
}

type replicationPolicy struct {
	MinReplicaSetSize int `json:"minReplicaSetSize"`
	MaxReplicaSetSize int `json:"maxReplicasetSize"`
}

type userReplicationPolicy struct {
	AsyncReplication bool `json:"asyncReplication"`
	replicationPolicy
}

type consistencyPolicy struct {
	DefaultConsistencyLevel string `json:"defaultConsistencyLevel"`
}

type readPolicy struct {
	PrimaryReadCoefficient   int `json:"primaryReadCoefficient"`
	SecondaryReadCoefficient int `json:"secondaryReadCoefficient"`
}

type account struct {
	Self                           string                `json:"_self"`
	ID                             string                `json:"id"`
	RID                            string                `json:"_rid"`
	Media                          string                `json:"media"`
	Addresses                      string                `json:"addresses"`
	DBs                            string                `json:"_dbs"`
	WritableLocations              []location            `json:"writableLocations"`
	ReadableLocations              []location            `json:"readableLocations"`
	EnableMultipleWriteLocations   bool                  `json:"enableMultipleWriteLocations"`
	ContinuousBackupEnabled        bool                  `json:"continuousBackupEnabled"`
	EnableNRegionSynchronousCommit bool                  `json:"enableNRegionSynchronousCommit"`
	UserReplicationPolicy          userReplicationPolicy `json:"userReplicationPolicy"`
	UserConsistencyPolicy          consistencyPolicy     `json:"userConsistencyPolicy"`
	SystemReplicationPolicy        replicationPolicy     `json:"systemReplicationPolicy"`
	ReadPolicy                     readPolicy            `json:"readPolicy"`
	QueryEngineConfiguration       string                `json:"queryEngineConfiguration"`
}

const accountID = "localhost"

// queryEngineConfiguration is what .NET and Java read of the limits of queries. The text is the
// service's; SDKs with a query engine of their own refuse an account without it.
const queryEngineConfiguration = `{"maxSqlQueryInputLength":262144,"maxJoinsPerSqlQuery":5,"maxLogicalAndPerSqlQuery":500,` +
	`"maxLogicalOrPerSqlQuery":500,"maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":16000,"queryMaxInMemorySortDocumentCount":500,` +
	`"maxQueryRequestTimeoutFraction":0.9,"sqlAllowNonFiniteNumbers":false,"sqlAllowAggregateFunctions":true,"sqlAllowSubQuery":true,` +
	`"sqlAllowScalarSubQuery":true,"allowNewKeywords":true,"sqlAllowLike":true,"sqlAllowGroupByClause":true,"maxSpatialQueryCells":12,` +
	`"spatialMaxGeometryPointCount":256,"sqlDisableOptimizationFlags":0,"sqlAllowTop":true,"enableSpatialIndexing":true}`

func (s *Server) readAccount(x *exchange) error {
	replicas := replicationPolicy{MinReplicaSetSize: 1, MaxReplicaSetSize: 4}
	here := []location{{Name: "Local", Endpoint: s.endpoint(x.r)}}
	return x.sendJSON(http.StatusOK, account{
		ID: accountID, RID: s.db.ID(), Media: "//media/", Addresses: "//addresses/", DBs: "//dbs/",
		WritableLocations: here, ReadableLocations: here, ContinuousBackupEnabled: s.o.Versions > 0,
		UserReplicationPolicy:    userReplicationPolicy{replicationPolicy: replicas},
		UserConsistencyPolicy:    consistencyPolicy{DefaultConsistencyLevel: "Session"},
		SystemReplicationPolicy:  replicas,
		ReadPolicy:               readPolicy{PrimaryReadCoefficient: 1, SecondaryReadCoefficient: 1},
		QueryEngineConfiguration: queryEngineConfiguration,
	})
}

// endpoint is the URL at which the client of a request reaches the server: behind a port mapping
// or another name only the request itself knows.
func (s *Server) endpoint(r *http.Request) string {
	if s.o.PublicEndpoint != "" {
		return s.o.PublicEndpoint
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	// Of several proxies the client's own is named first.
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	if forwarded := strings.ToLower(strings.TrimSpace(first)); forwarded == "http" || forwarded == "https" {
		scheme = forwarded
	}
	host := r.Host
	if here, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && host == "" { // HTTP/1.0
		host = here.String()
	}
	return scheme + "://" + host + "/"
}
