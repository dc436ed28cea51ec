// Package server speaks the REST protocol of Azure Cosmos DB over the embedded
// store, as an [http.Handler], so that unmodified official SDKs work against it in gateway mode.
//
// # A request's way
//
//	ServeHTTP -> limits -> path -> route -> signature -> faults -> operation -> answer
//
// [Server] finds the operation in one table (routes.go), checks the signature,
// and calls it with an exchange: the request taken apart, and what its answer
// will say. An operation returns an error or nil; one table (errors.go) makes a
// status, a sub-status and a body of every error.
//
// What belongs to the store (conditions, atomicity, time to live, order) is
// the store's; what is here is words. Documents are never decoded or
// encoded but where an operation changes them (patch) or looks into them (query).
//
// # Concurrency
//
// A Server is safe for concurrent use. What requests share of it is behind locks that are held for a lookup, and never while
// anything is waited for: the frozen ranges of keys, the queries that were parsed, the counters of a fault that
// chooses the request. Whatever else a request waits for is the store's.
package server
