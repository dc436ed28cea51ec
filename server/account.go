package server

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

// This file serves GET /, which returns the account: its regions, consistency and limits.
// Every SDK reads the account first, and then sends its requests to the endpoint in it.
// The account has one writable region and session consistency.
//
// The id "localhost" makes the JavaScript SDK keep the endpoint of its configuration. The
// _rid is the ID of the store, so two servers are two accounts. The account does not
// offer regions for thin clients, per-partition failover or hedging. Each of them would
// enable a feature in an SDK that a single server does not have.

// queryEngineConfiguration is a JSON object with the limits of queries, copied from the
// service. SDKs that process queries themselves, such as .NET and Java, refuse an account
// without it.
const queryEngineConfiguration = `{"maxSqlQueryInputLength":262144,"maxJoinsPerSqlQuery":5,"maxLogicalAndPerSqlQuery":500,` +
	`"maxLogicalOrPerSqlQuery":500,"maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":16000,"queryMaxInMemorySortDocumentCount":500,` +
	`"maxQueryRequestTimeoutFraction":0.9,"sqlAllowNonFiniteNumbers":false,"sqlAllowAggregateFunctions":true,"sqlAllowSubQuery":true,` +
	`"sqlAllowScalarSubQuery":true,"allowNewKeywords":true,"sqlAllowLike":true,"sqlAllowGroupByClause":true,"maxSpatialQueryCells":12,` +
	`"spatialMaxGeometryPointCount":256,"sqlDisableOptimizationFlags":0,"sqlAllowTop":true,"enableSpatialIndexing":true}`

// accountFormat is the format of the account's JSON. Its arguments are the rid, the
// endpoint, whether the account has continuous backup, and queryEngineConfiguration.
const accountFormat = `{"_self":"","id":"localhost","_rid":%s,"media":"//media/","addresses":"//addresses/","_dbs":"//dbs/",` +
	`"writableLocations":[{"name":"Local","databaseAccountEndpoint":%[2]s}],"readableLocations":[{"name":"Local","databaseAccountEndpoint":%[2]s}],` +
	`"enableMultipleWriteLocations":false,"continuousBackupEnabled":%[3]t,"enableNRegionSynchronousCommit":false,` +
	`"userReplicationPolicy":{"asyncReplication":false,"minReplicaSetSize":1,"maxReplicasetSize":4},` +
	`"userConsistencyPolicy":{"defaultConsistencyLevel":"Session"},"systemReplicationPolicy":{"minReplicaSetSize":1,"maxReplicasetSize":4},` +
	`"readPolicy":{"primaryReadCoefficient":1,"secondaryReadCoefficient":1},"queryEngineConfiguration":%[4]s}`

func (s *Server) readAccount(x *request) error {
	return x.send(http.StatusOK, fmt.Appendf(nil, accountFormat,
		jsonString(s.db.ID()), jsonString(s.endpoint(x.r)), s.o.Versions > 0, jsonString(queryEngineConfiguration)))
}

// endpoint returns the URL at which the client of a request reaches the server. If
// Options.PublicEndpoint is empty, it is derived from the Host header and the scheme of
// the request. Behind a port mapping or a proxy, the request is the only source of the
// public address.
func (s *Server) endpoint(r *http.Request) string {
	if s.o.PublicEndpoint != "" {
		return s.o.PublicEndpoint
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	// Each proxy appends a value. The first value is the scheme that the client used.
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	if forwarded := strings.ToLower(strings.TrimSpace(first)); forwarded == "http" || forwarded == "https" {
		scheme = forwarded
	}
	host := r.Host
	if here, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && host == "" { // HTTP/1.0, which needs no Host header
		host = here.String()
	}
	return scheme + "://" + host + "/"
}
