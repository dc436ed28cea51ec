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
const queryEngineConfiguration = `{"allowNewKeywords":true,"maxJoinsPerSqlQuery":10,"maxQueryRequestTimeoutFraction":0.9,"maxSqlQueryInputLength":524288,` +
	`"maxUdfRefPerSqlQuery":10,"queryMaxInMemorySortDocumentCount":-1000,"spatialMaxGeometryPointCount":256,"sqlAllowNonFiniteNumbers":false,` +
	`"sqlDisableOptimizationFlags":0,"sqlQueryILDisableOptimizationFlags":0,"clientDisableOptimisticDirectExecution":false,"queryEnableFullText":true,` +
	`"queryEnableFullTextPreviewFeatures":false,"queryMaxFullTextScoreSearchTerms":30,"queryMaxRrfArgumentCount":100,"enableSpatialIndexing":true,` +
	`"maxInExpressionItemsCount":2147483647,"maxLogicalAndPerSqlQuery":2147483647,"maxLogicalOrPerSqlQuery":2147483647,"maxSpatialQueryCells":2147483647,` +
	`"sqlAllowAggregateFunctions":true,"sqlAllowGroupByClause":true,"sqlAllowLike":true,"sqlAllowSubQuery":true,"sqlAllowScalarSubQuery":true,"sqlAllowTop":true}`

// accountFormat is the format of the account's JSON. Its arguments are the rid, the
// endpoint, whether the account has continuous backup, and queryEngineConfiguration.
const accountFormat = `{"_self":"","id":"localhost","_rid":%s,"media":"//media/","addresses":"//addresses/","_dbs":"//dbs/",` +
	`"writableLocations":[{"name":"Local","databaseAccountEndpoint":%[2]s}],"readableLocations":[{"name":"Local","databaseAccountEndpoint":%[2]s}],` +
	`"enableMultipleWriteLocations":false,"continuousBackupEnabled":%[3]t,"enableNRegionSynchronousCommit":false,` +
	`"enablePerPartitionFailoverBehavior":false,"disableCrossRegionalHedging":false,` +
	`"userReplicationPolicy":{"asyncReplication":false,"minReplicaSetSize":3,"maxReplicasetSize":4},` +
	`"userConsistencyPolicy":{"defaultConsistencyLevel":"Session"},"systemReplicationPolicy":{"minReplicaSetSize":3,"maxReplicasetSize":4},` +
	`"readPolicy":{"primaryReadCoefficient":1,"secondaryReadCoefficient":1},"queryEngineConfiguration":%[4]s}`

func (s *Server) readAccount(x *request) error {
	x.front = true
	return x.send(http.StatusOK, fmt.Appendf(nil, accountFormat,
		jsonString(s.db.ID()), jsonString(string(s.appendEndpoint(nil, x.r))), s.o.Versions > 0, jsonString(queryEngineConfiguration)))
}

// appendEndpoint appends the URL at which the client of a request reaches the server. If
// Options.PublicEndpoint is empty, it is derived from the Host header and the scheme of
// the request. Behind a port mapping or a proxy, the request is the only source of the
// public address.
func (s *Server) appendEndpoint(dst []byte, r *http.Request) []byte {
	if s.o.PublicEndpoint != "" {
		return append(dst, s.o.PublicEndpoint...)
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
	dst = append(append(dst, scheme...), "://"...)
	return append(append(dst, host...), '/')
}
