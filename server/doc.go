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
// A Server has no lock of its own on the way of a request. It is safe for concurrent use.
package server
